"""What a predictor gives for one input."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from desp.predictor.modes import Mode, group_modes
from desp.sets import SetBatch
from desp.settings import Distance


@dataclass(frozen=True)
class Prediction:
    """K sets for one input.

    Attributes:
        sets: K tensors (n_k, D), present elements only, in the units of the training data.
        energies: (K,), of the sampler's raw output that each set was read from (with categories: of the set
            itself); lower is more plausible; NaN where the method has no energy. `SetPredictor.energy` of the same
            set may differ where presence is sampled.
        comparable_across_cardinalities: whether energies of sets of different cardinality can be compared. Where
            the cardinality is predicted they cannot: each has an unknown constant of its own.
        has_energy: whether the method has an energy at all.
        presence: K tensors (n_k,), the presence of each element as it was sampled: the confidence of a detector. 1
            where the cardinality is predicted first; nothing where sets are padded without presence.
    """

    sets: list[Tensor]
    energies: Tensor
    comparable_across_cardinalities: bool = True
    has_energy: bool = True
    presence: Sequence[Tensor] = ()

    @property
    def best(self) -> Tensor:
        """The set of lowest energy; among those of the most frequent cardinality where others do not compare.

        Without energies it is the first of them, which is as good as any.
        """
        return self.sets[self._best_place()]

    def _best_place(self) -> int:
        candidates = list(range(len(self.sets)))
        if not self.comparable_across_cardinalities:
            sizes = [len(item) for item in self.sets]
            usual = max(sizes, key=sizes.count)
            candidates = [index for index in candidates if sizes[index] == usual]
        if not self.has_energy:
            return candidates[0]
        return min(candidates, key=lambda index: float(self.energies[index]))

    def only_best(self) -> "Prediction":
        """The same with the best set alone."""
        own = slice(place := self._best_place(), place + 1)
        return replace(self, sets=self.sets[own], energies=self.energies[own], presence=self.presence[own])

    def modes(self, *, distance: Distance = "chamfer", threshold: float | None = None) -> list[Mode]:
        """The different answers among the sets, the most frequent first; see `group_modes`."""
        energies = self.energies if self.has_energy else None
        return group_modes(self.sets, energies, distance=distance, threshold=threshold)

    def __len__(self) -> int:
        return len(self.sets)


def split_predictions(
    sets: SetBatch,
    presence: Float[Tensor, "b_k n"] | None,
    energies: Float[Tensor, "b k"],
    comparable_across_cardinalities: bool,
    has_energy: bool,
) -> list[Prediction]:
    """The predictions of B inputs, from the K sets of the first input, those of the second, and so on.

    Args:
        sets: B times K of them.
        presence: of all their rows, as it was sampled; None where there is none.
        energies: of the sets.
        comparable_across_cardinalities, has_energy: as in `Prediction`.
    """
    ragged = sets.to_ragged()
    rows = [] if presence is None else [row[mask] for row, mask in zip(presence, sets.mask, strict=True)]
    samples = energies.shape[1]
    owns = [slice(first, first + samples) for first in range(0, len(ragged), samples)]
    return [
        Prediction(ragged[own], energy, comparable_across_cardinalities, has_energy, rows[own])
        for own, energy in zip(owns, energies, strict=True)
    ]
