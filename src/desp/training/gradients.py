"""From a batch to gradients."""

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from desp.methods import Method


class GradientStep:
    """Computes the loss of a batch and leaves its gradients in the parameters.

    Args:
        wrapped: the method as accelerate prepared it.
        accelerator: runs the backward pass.
        method: the bare method.
    """

    def __init__(self, wrapped: nn.Module, accelerator: Accelerator, method: Method) -> None:
        self.wrapped, self.accelerator = wrapped, accelerator
        self.parameters = [item for item in method.parameters() if item.requires_grad]

    def __call__(self, x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Replace all gradients by those of this batch."""
        for parameter in self.parameters:
            parameter.grad = None
        loss, statistics = self.wrapped(x, y, generator)
        self.accelerator.backward(loss)
        return loss.detach(), statistics
