"""Direct risk minimisation, which the paper compares with; DSPN and C-DSPN are special cases."""

import torch
from jaxtyping import Float
from torch import Tensor

from desp.distances import SET_LOSSES, aligned_distance, chamfer_of_equal_sizes
from desp.energies import SetEnergy
from desp.methods.base import Method, MethodParts
from desp.methods.building import build_energy
from desp.nn import CardinalityHead
from desp.samplers import ChainInfo, Record, UnrolledDescent
from desp.sets import prefix_mask, presence_mask
from desp.settings import DescentSettings, SamplerSettings, SetRiskSettings
from desp.settings.base import require_variant


class SetRisk(Method):
    """A set distance between the data and an unrolled descent.

    Trained so, a model learns the one answer that is nearest to all right answers on average; where several are
    right, that need not be one of them.
    """

    energy: SetEnergy

    def __init__(self, settings: SetRiskSettings, parts: MethodParts) -> None:
        super().__init__(parts)
        self.settings = settings
        self.energy = build_energy(settings.energy, parts)
        # Aligned rows have their own codes, and one start: what tells them apart is the input.
        size, channels = parts.set_shape
        self.descent = (
            UnrolledDescent(1, channels, "predicted")
            if parts.shape.aligned
            else UnrolledDescent(size, channels, settings.cardinality)
        )
        if settings.predicts_cardinality and not parts.shape.aligned:
            features = self.energy.code_features(parts.code_shape)
            self.cardinality = CardinalityHead(features, size, settings.cardinality_hidden, layers=2)
        self.distance = SET_LOSSES[settings.distance]

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean set distance of the predictions, and the weighted losses of representation and cardinality where
        settings ask for them; nothing is random, so `generator` stays unused."""
        del generator
        code, settings = self.encode(x), self.settings
        known = self.cardinality is not None or self.shape.aligned
        presence = presence_mask(y) if known else None
        mask = presence  # the true cardinality is given; the true order of rows only where they are aligned
        if presence is not None and not self.shape.aligned:
            mask = prefix_mask(presence.sum(dim=1), y.shape[1])
        iterates = self.descent.all_sets(self.energy, code, settings.descent, mask)
        supervised = iterates if settings.supervise == "all" else iterates[-1:]
        risk = torch.stack([self._distances(item, y, mask, presence).mean() for item in supervised]).mean()
        loss, statistics = risk, {"risk": risk.detach()}
        if settings.representation_weight > 0:
            representation = self.energy(code, y).mean()
            statistics["representation_loss"] = representation.detach()
            loss = loss + settings.representation_weight * representation
        if self.cardinality is not None and presence is not None:
            cardinality_loss = self.cardinality.loss(code, presence.sum(dim=1))
            statistics["cardinality_loss"] = cardinality_loss.detach()
            loss = loss + settings.cardinality_weight * cardinality_loss
        return loss, statistics

    def _distances(self, predicted: Tensor, y: Tensor, mask: Tensor | None, presence: Tensor | None) -> Tensor:
        """Distances of padded sets as they are; where the cardinality is given, of present elements without their
        presence; where outputs are aligned, between elements i of both sets."""
        if mask is None or presence is None:
            return self.distance(predicted, y)
        elements, true = predicted[..., :-1], y[..., :-1]
        if self.shape.aligned:
            return aligned_distance(elements, true, mask)
        return chamfer_of_equal_sizes(elements, true, mask, presence)

    def sample_batch(
        self,
        code: Tensor,
        generator: torch.Generator,
        sampler: SamplerSettings | None,
        record: Record,
        presence: Tensor | None,
    ) -> tuple[Tensor, ChainInfo]:
        """Descend from the learned start; where the cardinality is predicted, with as many elements as are most
        probable."""
        del generator
        settings = require_variant(sampler or self.settings.prediction_sampler, DescentSettings, "sampler")
        sizes = self.modal_cardinality(code)
        mask = presence if sizes is None else prefix_mask(sizes, self.shape.max_size)
        return self.descent(self.energy, code, settings, record, mask)
