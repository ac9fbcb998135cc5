"""The prediction of a predictor for one input."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from desp.data.shape import DataShape
from desp.distances import chamfer
from desp.predictor.modes import Mode, group_modes
from desp.sets import SetBatch
from desp.settings import Distance, MethodSettings

# Differences between elements of two sets that are computed at once.
PAIRS_AT_ONCE = 1_000_000


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
        span: scale of each feature; medoid distances divide by it. Empty: unscaled (boxes, as their scaling is of
            centre and size).
        aligned: whether element i of all sets belongs to element i of the input.
        modal_cardinality: the mode of p(n | x), where the method predicts the cardinality; the medoid has it, if
            one of the sets does.
    """

    sets: list[Tensor]
    energies: Tensor
    comparable_across_cardinalities: bool = True
    has_energy: bool = True
    presence: Sequence[Tensor] = ()
    span: Sequence[float] = ()
    aligned: bool = False
    modal_cardinality: int | None = None

    @property
    def medoid(self) -> Tensor:
        """The set that is nearest to all others, among those of one cardinality: the most probable one where the
        method predicts p(n | x), else the most frequent one.

        As a single answer it is nearer to the truth on average than the set of lowest energy, which may be any of
        the sets that the network holds for plausible. Distances are roots of Chamfer's in scaled units (of boxes,
        in their own); where outputs are aligned with inputs, root mean squares over elements i. A set that
        diverged is the medoid only if all did.
        """
        return self.sets[self._medoid_place()]

    def only_medoid(self) -> "Prediction":
        """The same with the medoid alone."""
        return self.only([self._medoid_place()])

    def only(self, places: Sequence[int]) -> "Prediction":
        """The same with the sets at these places alone."""
        presence = [self.presence[place] for place in places] if self.presence else ()
        sets = [self.sets[place] for place in places]
        return replace(self, sets=sets, energies=self.energies[list(places)], presence=presence)

    def _medoid_place(self) -> int:
        known = self.finite_places() or range(len(self))
        candidates = self._of_cardinality(self.modal_cardinality, known)
        candidates = candidates or self._of_cardinality(self._usual(known), known)
        sets = torch.stack([self.sets[index] for index in candidates])
        sets = sets / torch.tensor(self.span or [1.0], dtype=sets.dtype)
        first, second = torch.triu_indices(len(sets), len(sets), 1)
        # Few pairs at once: with hundreds of elements all of them would not fit into any cache.
        at_once = max(1, PAIRS_AT_ONCE // max(1, sets.shape[1] ** 2 * sets.shape[2]))
        pairs = zip(first.split(at_once), second.split(at_once), strict=True)
        apart = torch.cat([sets.new_zeros(0), *(self._distances(sets[a], sets[b]) for a, b in pairs)])
        apart = apart.clamp(min=0).sqrt().double()
        totals = torch.zeros(len(sets), dtype=torch.double).index_add(0, first, apart).index_add(0, second, apart)
        return candidates[int(totals.argmin())]

    def _distances(self, a: Float[Tensor, "p n d"], b: Float[Tensor, "p n d"]) -> Float[Tensor, " p"]:
        """The distance of each pair of sets."""
        if not a.shape[1]:
            return a.new_zeros(len(a))
        return (a - b).square().mean(dim=(1, 2)) if self.aligned else chamfer(a, b)

    def finite_places(self) -> list[int]:
        """Places of sets whose numbers are finite, also when squared, as distances need."""
        rows, sizes = torch.cat(list(self.sets)), [len(item) for item in self.sets]
        squares = (rows / torch.tensor(self.span or [1.0])).square()
        finite = squares.sum(dim=1).isfinite().split(sizes)
        return [place for place, item in enumerate(finite) if bool(item.all())]

    def _usual(self, places: Sequence[int]) -> int:
        """The most frequent cardinality among the sets at these places."""
        sizes = [len(self.sets[place]) for place in places]
        return max(sizes, key=sizes.count)

    def _of_cardinality(self, cardinality: int | None, places: Sequence[int]) -> list[int]:
        return [place for place in places if len(self.sets[place]) == cardinality]

    @property
    def lowest_energy(self) -> Tensor:
        """The set of lowest energy; among those of the most frequent cardinality where others do not compare.

        Sets that diverged count only if all did. Without energies it is the first of the others, which is as good
        as any. `predict(best=True)` gives another set: the medoid, or of boxes the most confident ones.
        """
        candidates = self.finite_places() or list(range(len(self)))
        if not self.comparable_across_cardinalities:
            candidates = self._of_cardinality(self._usual(candidates), candidates)
        if not self.has_energy:
            return self.sets[candidates[0]]
        energies = self.energies.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)  # NaN: diverged
        return self.sets[min(candidates, key=lambda index: float(energies[index]))]

    def modes(self, *, distance: Distance = "chamfer", threshold: float | None = None) -> list[Mode]:
        """The different answers among the sets, the most frequent first; see `group_modes`.

        Raises:
            DataError: a set or its energy is not finite. `prediction.only(prediction.finite_places())` leaves sets
                that diverged out.
        """
        energies = self.energies if self.has_energy else None
        return group_modes(self.sets, energies, distance=distance, threshold=threshold)

    def __len__(self) -> int:
        return len(self.sets)


def split_predictions(
    sets: SetBatch,
    presence: Float[Tensor, "b_k n"] | None,
    energies: Float[Tensor, "b k"],
    method: MethodSettings,
    shape: DataShape,
    modal_cardinality: Int[Tensor, " b"] | None = None,
) -> list[Prediction]:
    """The predictions of B inputs, from the K sets of the first input, those of the second, and so on.

    Args:
        sets: B times K of them.
        presence: of all their rows, as it was sampled; None where there is none.
        energies: of the sets.
        method: what predicted them.
        shape: of the data.
        modal_cardinality: the mode of p(n | x) for each input, where the method predicts the cardinality.
    """
    comparable, span = shape.aligned or not method.predicts_cardinality, _span(shape)
    ragged = sets.to_ragged()
    rows = [] if presence is None else [row[mask] for row, mask in zip(presence, sets.mask, strict=True)]
    samples = energies.shape[1]
    owns = [slice(first, first + samples) for first in range(0, len(ragged), samples)]
    modes = [None] * len(owns) if modal_cardinality is None else modal_cardinality.tolist()
    return [
        Prediction(ragged[own], energy, comparable, method.has_energy, rows[own], span, shape.aligned, mode)
        for own, energy, mode in zip(owns, energies, modes, strict=True)
    ]


def _span(shape: DataShape) -> Sequence[float]:
    """The span of each feature; empty where there are boxes, as these are scaled by centre and size."""
    return () if shape.scaling.boxes else shape.scaling.span
