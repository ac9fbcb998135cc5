"""Direct risk of a network that makes sets itself: the transformer set prediction network."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from desp.distances import chamfer_of_equal_sizes
from desp.estimators.base import Estimator
from desp.estimators.set_risk import true_presence
from desp.nn import SizeHead, TransformerDecoder, first_rows
from desp.settings import DirectSettings


class DirectEstimator(Estimator):
    """The Chamfer distance between the data and as many elements made from random points, and -log p(size | x).

    As with direct risk on an energy, what is learned is the one answer that is nearest to all right ones: random
    points give the elements places to start from, and nothing rewards that sets differ.

    Args:
        input_encoder: h(x), from inputs to codes (B, H).
        decoder: from codes and points to elements.
        sizes: p(size | x). In training the true size is given.
        settings: the weight of sizes.
    """

    def __init__(
        self, input_encoder: nn.Module, decoder: TransformerDecoder, sizes: SizeHead, settings: DirectSettings
    ) -> None:
        super().__init__()
        self.input_encoder, self.decoder, self.sizes = input_encoder, decoder, sizes
        self.settings = settings

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean distance of elements, presence left out, and the weighted loss of sizes."""
        code, present, elements = self.input_encoder(x), true_presence(y), y[..., :-1]
        sizes = present.sum(dim=1)
        given = first_rows(sizes, y.shape[1])
        noise = torch.randn(elements.shape, generator=generator, device=y.device, dtype=y.dtype)
        predicted = self.decoder(code, noise, given)
        risk = chamfer_of_equal_sizes(predicted, elements, given, present).mean()
        size_loss = self.sizes.loss(code, sizes)
        statistics = {"risk": risk.detach(), "size": size_loss.detach()}
        return risk + self.settings.size_weight * size_loss, statistics
