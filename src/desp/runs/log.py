"""The log of a run: its lines, and whether training was still improving at its end. Loads no torch."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from desp.comparison.words import CLEAR_DIFFERENCE_SE
from desp.errors import RunError
from desp.older_results import migrate_log_line

# Without standard errors, validations differ if one is lower by this fraction.
NOTABLE = 0.01
# The last line of a log is within so many bytes.
TAIL = 8192


def read_log(path: Path) -> list[dict[str, Any]]:
    """All lines of a log of any version. The last may be half written: training may be writing it this moment.

    Raises:
        RunError: it cannot be read, or a line is damaged.
    """
    if not path.exists():
        return []
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error}. Check its permissions.") from error
    records = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:  # broken JSON, or broken UTF-8
            if number == len(lines):
                break
            raise RunError(_broken_line(path, number, str(error))) from error
        if not isinstance(record, dict) or not isinstance(record.get("step"), int):
            raise RunError(_broken_line(path, number, "expected an object with a whole number 'step'"))
        records.append(migrate_log_line(record))
    return records


def _broken_line(path: Path, number: int, reason: str) -> str:
    return f"{path}, line {number} is damaged: {reason}. Delete that line, or train again from a checkpoint."


def last_step(path: Path) -> int | None:
    """The step of the last whole line of a log that may be being written; None where it has none yet."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            *lines, _ = file.read().split(b"\n")
        step = json.loads(lines[-1])["step"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return step if isinstance(step, int) else None


def by_step(lines: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Lines sorted by step; where a step was run twice, as after going back to a checkpoint, the later line."""
    latest = {line["step"]: line for line in lines}
    return tuple(latest[step] for step in sorted(latest))


def validations(lines: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Lines that hold a validation score, in order of steps."""
    return by_step([line for line in lines if "validation_score" in line])


# Why training ended, where it decided that itself, as a part of a sentence.
_ENDED = {
    "converged": "training has converged",
    "overfitted": "overfitted in the end, so that earlier weights are kept",
    "out of time": "not converged when time was over",
}


def earlier_kept(keep: str, kept_step: int | None, steps: int | None, error: float | None) -> int | None:
    """The step of the kept weights, where they are kept because the last ones are clearly worse; else None.

    Args:
        keep: `training.keep`; `best` keeps earlier weights also for a difference within the noise.
        kept_step: of the kept weights.
        steps: of the run.
        error: the standard error of their score; None where validation gives one score in all, so that the noise
            is not known and any better score keeps earlier weights.
    """
    if keep != "last" or kept_step is None or steps is None or error is None:
        return None
    return kept_step if kept_step < steps else None


def worse_words(step: int, score: str = "") -> str:
    """That the last weights are clearly worse than those of `step`, whose `score` may be told."""
    return f"validation got worse after step {step:,}, whose weights are kept{score}; more time would not help"


def training_words(
    lines: Sequence[dict[str, Any]],
    ended: str | None = None,
    *,
    worse_after: int | None = None,
    higher_is_better: bool = False,
) -> str:
    """How validation went in the end, as a part of a sentence; nothing where it cannot be told.

    Unless training itself knows, the last validation is compared with the best one before it. A difference counts
    from two standard errors on where lines have `validation_score_se`, else from a hundredth on.

    Args:
        lines: from `validations`.
        ended: why training ended, as the summary of a run has it; None where its length was given.
        worse_after: from `earlier_kept`.
        higher_is_better: the direction of the score.
    """
    if ended == "out of time" and worse_after is not None:
        return worse_words(worse_after)
    if ended in _ENDED:
        return _ENDED[ended]
    known = [line for line in lines if isinstance(line["validation_score"], int | float)]
    if len(known) < 2:
        return ""
    sign = -1.0 if higher_is_better else 1.0
    *before, last = known
    best = min(before, key=lambda line: sign * line["validation_score"])
    gain = sign * (best["validation_score"] - last["validation_score"])
    notable = _notable(best, last)
    if gain > notable:
        return "still improving when it stopped"
    if gain < -notable and len(before) > 1:
        return f"no longer improving after step {best['step']:,}"
    # Validations share their examples, so the error of a difference is smaller than these: a gain within them may
    # still be real.
    unclear = gain > 0 and "validation_score_se" in last
    return "" if unclear else "no longer improving when it stopped"


def _notable(first: dict[str, Any], second: dict[str, Any]) -> float:
    """How much two validations must differ."""
    errors = [line.get("validation_score_se") for line in (first, second)]
    if all(isinstance(error, int | float) for error in errors):
        return float(CLEAR_DIFFERENCE_SE * sum(error**2 for error in errors) ** 0.5)  # type: ignore[operator]
    return float(NOTABLE * abs(first["validation_score"]))
