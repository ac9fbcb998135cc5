"""Descent that can be differentiated: the predictor of direct risk minimisation."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from desp.energies import SetEnergy
from desp.samplers.base import ChainInfo, ChainRecorder, Record


class UnrolledDescent(nn.Module):
    """Gradient steps on an energy from a learned start, through which gradients flow to the weights.

    The start is drawn from U[0, 1] and learned; being a parameter it makes every prediction for one input the
    same, which is what direct risk can do at best.

    Args:
        max_size: N.
        channels: C.
        steps: gradient steps.
        step_size: factor on each gradient.
    """

    def __init__(self, max_size: int, channels: int, steps: int, step_size: float) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.rand(max_size, channels))
        self.steps = steps
        self.step_size = step_size

    def forward(
        self, energy: SetEnergy, code: Float[Tensor, "b *code"], record: Record = "nothing"
    ) -> tuple[Float[Tensor, "b n c"], ChainInfo]:
        """Descend for each input; second-order gradients are kept only where autograd is on."""
        differentiable = torch.is_grad_enabled()
        start = self.start.unsqueeze(0).expand(code.shape[0], -1, -1)
        recorder = ChainRecorder(record, start.detach())
        y, tables = start, energy.tables(start.shape[1])
        for _ in range(self.steps):
            with torch.enable_grad():
                if not y.requires_grad:
                    y = y.detach().requires_grad_()
                values = energy.score(code, y, tables)
                (slope,) = torch.autograd.grad(values.sum(), y, create_graph=differentiable)
                y = y - self.step_size * slope
            y = y if differentiable else y.detach()
            recorder.add(y, values, slope)
        return y, recorder.info()
