"""Descent that can be differentiated: the predictor of direct risk minimisation."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from desp.energies import SetEnergy
from desp.samplers.base import ChainInfo, ChainRecorder, Record, eager_gradient
from desp.samplers.langevin import LangevinSampler
from desp.settings import LangevinSettings


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
        start = self.start.expand(code.shape[0], -1, -1)
        if not torch.is_grad_enabled():
            return self._plain(energy, code, start.detach(), record)
        recorder = ChainRecorder(record, start.detach())
        y, gradient = start, eager_gradient(energy, code, start.shape[1])
        for _ in range(self.steps):
            values, slope = gradient(y)
            y = y - self.step_size * slope
            recorder.add(y, values, slope)
        return y, recorder.info()

    def _plain(self, energy: SetEnergy, code: Tensor, start: Tensor, record: Record) -> tuple[Tensor, ChainInfo]:
        """The same steps as a chain without noise, which keeps nothing for a backward pass."""
        settings = LangevinSettings(self.steps, stochastic_steps=0, noise_scale=0.0, step_size=self.step_size)
        unused = torch.Generator(device=start.device)
        gradient = eager_gradient(energy, code, start.shape[1])
        return LangevinSampler(settings).sample(gradient, start, unused, record)
