"""What ``desp train`` says of training that has ended."""

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from desp.runs.log import earlier_kept, worse_words

if TYPE_CHECKING:
    from desp.training import TrainingOutcome


def tell_troubles(outcome: "TrainingOutcome", keep: str) -> None:
    """Say what a user would want to know before trusting the result; `keep`: the setting of that name."""
    if outcome.rollbacks:
        print(
            f"note: training diverged and rolled back ({outcome.rollbacks} x), halving the learning rate each "
            "time; begin with a lower --training.learning-rate to avoid that"
        )
    if outcome.stop_reason is not None:
        print(ending_words(outcome, keep))
    elif outcome.score_step is not None and outcome.score_step < outcome.steps:
        print(
            f"note: validation was best at step {outcome.score_step} of {outcome.steps}; those weights are kept. "
            "If it got worse after that, try a lower --training.learning-rate"
        )


def ending_words(outcome: "TrainingOutcome", keep: str) -> str:
    """Whether training converged, and what more time may give."""
    error = "" if outcome.score_standard_error is None else f" (standard error {outcome.score_standard_error:.2g})"
    score = "" if outcome.score is None else f": validation score {outcome.score:.4g}{error}"
    if outcome.stop_reason == "converged":
        return f"converged{score}; more time would hardly help, more examples may"
    if outcome.stop_reason == "overfitted":
        return (
            f"overfitted after step {outcome.score_step}, whose weights are kept{score}; more examples would "
            "help, or a narrower network"
        )
    worse_after = earlier_kept(keep, outcome.score_step, outcome.steps, outcome.score_standard_error)
    if worse_after is not None:
        return f"time was over; {worse_words(worse_after, score)}, more examples or a narrower network may"
    return f"not converged when time was over{score}{_more_time(outcome.recent_gain)}"


def _more_time(gain: float | None) -> str:
    """What the gain over the second half of the steps before the decay says about training longer."""
    advice = ". More may help: --minutes N, in another folder"
    if gain is None or not math.isfinite(gain):
        return advice
    if gain <= 0:
        return "; before the final decay, the second half of the steps did not improve the score"
    return f"; before the final decay, the second half of the steps improved the score by {gain:.2g}{advice}"


def next_words(path: Path, own_data: bool) -> str:
    """The commands to go on with: own data are scored and reported already."""
    run = shlex.quote(str(path))
    if own_data:
        return f"next:\n  desp predict {run} --input NEW.jsonl --output PREDICTED.jsonl --samples 5"
    return f"next:\n  desp evaluate {run}\n  desp report {run}"
