"""Direct risk minimisation: what the paper compares with."""

import torch
from jaxtyping import Float
from torch import Tensor

from desp.distances import SET_DISTANCES
from desp.energies import SetEnergy
from desp.estimators.base import Estimator
from desp.samplers import UnrolledDescent
from desp.settings import SetRiskSettings


class SetRiskEstimator(Estimator):
    """A set distance between the data and the end of an unrolled descent.

    Trained so, a model learns the one answer that is nearest to all right answers on average; where several
    are right, that is none of them.
    """

    def __init__(self, energy: SetEnergy, descent: UnrolledDescent, settings: SetRiskSettings) -> None:
        super().__init__()
        self.energy = energy
        self.descent = descent
        self.distance = SET_DISTANCES[settings.distance]
        self.capturable = settings.distance == "chamfer"  # assignments are solved on the host

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean set distance of the predictions; nothing is random, so `generator` stays unused."""
        del generator
        predicted, _ = self.descent(self.energy, self.energy.encode(x))
        risk = self.distance(predicted, y).mean()
        return risk, {"risk": risk.detach()}
