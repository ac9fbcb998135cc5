"""How much is scored: counts under a name, so that a number means the same on every device."""

from dataclasses import dataclass

from desp.settings import Distance


@dataclass(frozen=True)
class Protocol:
    """Counts that decide what a task scores. Scores of different counts do not compare.

    Attributes:
        tests: how many tests are scored, from the first on; None is all. Several numbers give scores of each.
        per_input: predictions for one input whose distribution is looked at; None where that has no meaning.
        compared: true and predicted sets of one input that are compared as collections.
        compared_by_assignment: the same by the Hungarian distance, whose assignments are solved on the host.
        calibrated: inputs with a true set that is ranked among predictions.
        validated: examples by which weights are kept.
    """

    tests: tuple[int | None, ...] = (None,)
    per_input: int | None = None
    compared: int = 1000
    compared_by_assignment: int = 200
    calibrated: int = 500
    validated: int = 200

    def collection(self, distance: Distance) -> int:
        """How many sets a collection has, where collections are compared by `distance`."""
        return self.compared_by_assignment if distance == "hungarian" else self.compared


# `full` is what results are recorded with; `quick` takes minutes on a CPU.
FULL, QUICK = Protocol(), Protocol(compared=200, calibrated=200)
