"""Direct risk minimisation: what the paper compares with."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.distances import SET_DISTANCES, chamfer_of_equal_sizes
from desp.energies import SetEnergy
from desp.estimators.base import Estimator
from desp.nn import SizeHead, first_rows
from desp.samplers import UnrolledDescent
from desp.settings import SetRiskSettings


class SetRiskEstimator(Estimator):
    """A set distance between the data and an unrolled descent.

    Trained so, a model learns the one answer that is nearest to all right answers on average; where several
    are right, that is none of them.

    Args:
        energy: what is descended.
        descent: from a learned start.
        settings: distance, which sets it is taken of, weights of what is added to it.
        sizes: p(size | x), where sizes come first. In training the true size is given.
    """

    def __init__(
        self,
        energy: SetEnergy,
        descent: UnrolledDescent,
        settings: SetRiskSettings,
        sizes: SizeHead | None = None,
    ) -> None:
        super().__init__()
        self.energy, self.descent, self.sizes = energy, descent, sizes
        self.settings = settings
        self.distance = SET_DISTANCES[settings.distance]
        self.capturable = settings.distance == "chamfer"  # assignments are solved on the host

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean set distance of the predictions; nothing is random, so `generator` stays unused."""
        del generator
        code, settings = self.energy.encode(x), self.settings
        present = None if self.sizes is None else true_presence(y)
        given = None if present is None else first_rows(present.sum(dim=1), y.shape[1])
        sets = self.descent.all_sets(self.energy, code, given)
        scored = sets if settings.scored == "all" else sets[-1:]
        risk = torch.stack([self._distances(item, y, given, present).mean() for item in scored]).mean()
        loss, statistics = risk, {"risk": risk.detach()}
        if settings.representation_weight > 0:
            representation = self.energy.score(code, y).mean()
            statistics["representation"] = representation.detach()
            loss = loss + settings.representation_weight * representation
        if self.sizes is not None and present is not None:
            size_loss = self.sizes.loss(code, present.sum(dim=1))
            statistics["size"] = size_loss.detach()
            loss = loss + settings.size_weight * size_loss
        return loss, statistics

    def _distances(self, predicted: Tensor, y: Tensor, given: Tensor | None, present: Tensor | None) -> Tensor:
        """Of padded sets as they are; where sizes are given, of present elements without their presence."""
        if given is None or present is None:
            return self.distance(predicted, y)
        return chamfer_of_equal_sizes(predicted[..., :-1], y[..., :-1], given, present)


def true_presence(y: Float[Tensor, "b n c"]) -> Bool[Tensor, "b n"]:
    """Which rows of padded data are elements, by their last feature."""
    return y[..., -1] > 0.5
