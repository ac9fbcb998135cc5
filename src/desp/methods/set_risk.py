"""Direct risk minimisation: what the paper compares with, DSPN and C-DSPN among it."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from desp.distances import SET_DISTANCES, chamfer_of_equal_sizes
from desp.methods.base import Method, SetSpec, build_energy, true_presence
from desp.nn import CardinalityHead, prefix_mask
from desp.samplers import ChainInfo, Record, UnrolledDescent
from desp.settings import DescentSettings, Engine, SamplerSettings, SetRiskSettings
from desp.settings.base import require_variant


class SetRisk(Method):
    """A set distance between the data and an unrolled descent.

    Trained so, a model learns the one answer that is nearest to all right answers on average; where several are
    right, that is none of them.
    """

    def __init__(
        self,
        settings: SetRiskSettings,
        encoder: nn.Module,
        code_shape: tuple[int, ...],
        sets: SetSpec,
        engine: Engine = "auto",
    ) -> None:
        super().__init__(settings, encoder, code_shape, sets, engine)
        self.settings = settings
        self.energy = build_energy(settings.energy, sets, code_shape)
        self.descent = UnrolledDescent(sets.max_size, sets.channels, settings.cardinality)
        self.cardinality = None
        if settings.predicts_cardinality:
            features = self.energy.code_features(code_shape)
            self.cardinality = CardinalityHead(features, sets.max_size, settings.cardinality_hidden, layers=2)
        self.distance = SET_DISTANCES[settings.distance]
        self.capturable = settings.distance == "chamfer"  # assignments are solved on the host

    def encode(self, x: Float[Tensor, "b *input"]) -> Float[Tensor, "b *code"]:
        """h(x), by the energy's own set encoder where that is shared."""
        return self.energy.encode(self.encoder(x))

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean set distance of the predictions; nothing is random, so `generator` stays unused."""
        del generator
        code, settings = self.encode(x), self.settings
        present = None if self.cardinality is None else true_presence(y)
        mask = None if present is None else prefix_mask(present.sum(dim=1), y.shape[1])  # the true one is given
        iterates = self.descent.all_sets(self.energy, code, settings.descent, mask)
        supervised = iterates if settings.supervise == "all" else iterates[-1:]
        risk = torch.stack([self._distances(item, y, mask, present).mean() for item in supervised]).mean()
        loss, statistics = risk, {"risk": risk.detach()}
        if settings.representation_weight > 0:
            representation = self.energy.score(code, y).mean()
            statistics["representation"] = representation.detach()
            loss = loss + settings.representation_weight * representation
        if self.cardinality is not None and present is not None:
            cardinality_loss = self.cardinality.loss(code, present.sum(dim=1))
            statistics["cardinality"] = cardinality_loss.detach()
            loss = loss + settings.cardinality_weight * cardinality_loss
        return loss, statistics

    def _distances(self, predicted: Tensor, y: Tensor, mask: Tensor | None, present: Tensor | None) -> Tensor:
        """Of padded sets as they are; where the cardinality is given, of present elements without their
        presence."""
        if mask is None or present is None:
            return self.distance(predicted, y)
        return chamfer_of_equal_sizes(predicted[..., :-1], y[..., :-1], mask, present)

    def sample_part(
        self, code: Tensor, generator: torch.Generator, sampler: SamplerSettings | None, record: Record
    ) -> tuple[Tensor, ChainInfo]:
        """Descend from the learned start, with as many elements as are most probable."""
        del generator
        settings = require_variant(sampler or self.settings.prediction_sampler, DescentSettings, "sampler")
        mask = None
        if self.cardinality is not None:
            mask = prefix_mask(self.cardinality.mode(code), self.sets.max_size)
        return self.descent(self.energy, code, settings, record, mask)

    def energies_part(self, code: Tensor, y: Tensor) -> Tensor:
        """By the energy itself."""
        return self.energy.score(code, y)
