"""What a run folder holds, as plain Python values."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from desp.errors import DespError, RunError
from desp.older_results import SET_MNIST, migrate_ablation, migrate_evaluation
from desp.runs.folder import RunFolder, recovery_hint
from desp.runs.log import by_step, read_log, validations
from desp.settings import LangevinSettings, MethodSettings, from_json, migrate_run


@dataclass(frozen=True)
class RunRecord:
    """Everything a run wrote down; what it has not written yet is None.

    Attributes:
        folder: where it was read from.
        recipe: name of the recipe.
        seed: the run's seed.
        settings: all settings, nested, under their present names.
        method: its settings; None where they cannot be read.
        log: ordinary lines of the log, in order of steps.
        validations: lines of the log that hold a validation score, in order of steps.
        summary: how training went; None while it goes on.
        finished: when the summary was written.
        evaluation: scores, as rows and details.
        samples: predictions beside the truth, for pictures.
        ablation: scores over S/T, the fraction of stochastic steps.
    """

    folder: Path
    recipe: str
    seed: int | None
    settings: dict[str, Any]
    method: MethodSettings | None
    log: tuple[dict[str, Any], ...]
    validations: tuple[dict[str, Any], ...]
    summary: dict[str, Any] | None
    finished: datetime | None
    evaluation: dict[str, Any] | None
    samples: dict[str, Any] | None
    ablation: dict[str, Any] | None

    @property
    def stochastic_steps(self) -> int | None:
        """How many steps of a predicting chain add noise; None for samplers without S/T."""
        sampler = None if self.method is None else self.method.prediction_sampler
        return sampler.stochastic_steps if isinstance(sampler, LangevinSettings) else None


def read_run(folder: Path) -> RunRecord:
    """Read the run in `folder`.

    Raises:
        RunError: the folder is missing, holds no run, or one of its files is damaged.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise RunError(f"There is no folder {folder}. Pass the folder that `desp train` wrote.")
    run = RunFolder(folder)
    saved = run.read_settings_file()
    lines = read_log(run.log_file)
    summary = run.read_summary()
    settings, seed = _migrate_settings(saved.get("settings"), run), saved.get("seed")
    return RunRecord(
        folder=folder,
        recipe=str(saved.get("recipe", "unnamed")),
        seed=seed if isinstance(seed, int) else None,
        settings=settings if isinstance(settings, dict) else {},
        method=_method_of(settings),
        log=by_step([line for line in lines if "validation_score" not in line]),
        validations=validations(lines),
        summary=summary,
        finished=None if summary is None else _written(run.summary_file),
        evaluation=_evaluation(run),
        samples=_read_listing(run, run.samples_file, "examples"),
        ablation=_ablation(run, settings),
    )


def _evaluation(run: RunFolder) -> dict[str, Any] | None:
    value = _read_listing(run, run.evaluation_file, "rows", "cases", "examples")
    return None if value is None else migrate_evaluation(value)


def _ablation(run: RunFolder, settings: Any) -> dict[str, Any] | None:
    value = _read_listing(run, run.ablation_file, "rows")
    task = settings.get("task") if isinstance(settings, dict) else None
    of_mnist = isinstance(task, dict) and task.get("kind") == "mnist"
    return None if value is None else migrate_ablation(value, SET_MNIST if of_mnist else None)


def _migrate_settings(settings: Any, run: RunFolder) -> Any:
    """The run's settings under their present names, with the sampler that was chosen for it since."""
    if not isinstance(settings, dict):
        return settings
    try:
        settings = migrate_run(settings)
    except (DespError, KeyError, TypeError, AttributeError):
        return settings  # of a kind that was removed, or damaged: shown as they are
    chosen = (run.read(run.tuning_file) or {}).get("sampler")
    if chosen is None or not isinstance(settings.get("method"), dict):
        return settings
    return {**settings, "method": {**settings["method"], "sampler": chosen}}


def _method_of(settings: Any) -> MethodSettings | None:
    """The settings of the method; None where they cannot be read."""
    try:
        return from_json(MethodSettings, settings["method"])
    except (DespError, KeyError, TypeError, AttributeError):
        return None


def _read_listing(run: RunFolder, path: Path, *keys: str) -> dict[str, Any] | None:
    """A JSON file of the run; each of `keys` that it has must be a list of objects."""
    value = run.read(path)
    for key in keys:
        items = None if value is None else value.get(key)
        if items is not None and not (isinstance(items, list) and all(isinstance(item, dict) for item in items)):
            raise RunError(f"{path} is damaged: '{key}' must be a list of objects. {recovery_hint(path)}")
    return value


def _written(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, tz=UTC)
