"""What the settings build."""

import torch
from torch import Tensor, nn

from desp.distances import chamfer
from desp.energies import SetEnergy
from desp.methods import Method
from desp.samplers import ChainInfo


class SpringEnergy(SetEnergy):
    """The squared distance of all elements to a point."""

    def __init__(self, settings, channels, code_shape):
        super().__init__()
        layers = nn.Linear(code_shape[-1], settings.hidden), nn.SiLU(), nn.Linear(settings.hidden, channels)
        self.point = nn.Sequential(*layers)

    def score(self, code, y, cache=None):
        return (y - self.point(code).unsqueeze(1)).square().sum(dim=(1, 2))


def build_linear(settings, input_shape):
    return nn.Linear(input_shape[0], settings.out)


class Regression(Method):
    """The Chamfer distance to a set that is a linear map of the code."""

    def __init__(self, settings, parts):
        super().__init__(parts)
        self.head = nn.Linear(parts.code_shape[-1], parts.sets.max_size * parts.sets.channels)

    def _sets(self, code: Tensor) -> Tensor:
        return self.head(code).view(-1, self.sets.max_size, self.sets.channels)

    def forward(self, x, y, generator):
        loss = chamfer(self._sets(self.encode(x)), y).mean()
        return loss, {"risk": loss.detach()}

    def sample_part(self, code, generator, sampler, record, presence):
        return self._sets(code), ChainInfo()


def random_turns(count: int, generator: torch.Generator) -> Tensor:
    return 2 * torch.pi * torch.rand(count, generator=generator, device=generator.device)
