"""The trained modules of an energy predictor, and how they draw sets in parts of one size."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from desp.energies import SetEnergy
from desp.samplers import ChainEngine, ChainInfo, Record, UnrolledDescent
from desp.settings import Engine, LangevinSettings

# Chains that run at once. A fixed number also means that a captured chain is used again and again.
CHAINS_AT_ONCE = 1000


class EnergyNetwork(nn.Module):
    """What is trained and saved: the energy, and for direct risk the learned start.

    Estimators hold the same modules under the same names, so that their weights can be exchanged.
    """

    def __init__(self, energy: SetEnergy, descent: UnrolledDescent | None) -> None:
        super().__init__()
        self.energy = energy
        self.descent = descent

    def scores(self, x: Tensor, sets: Tensor) -> Tensor:
        """Energies (B,) of padded sets for inputs, in parts that fit into memory."""
        parts = zip(x.split(CHAINS_AT_ONCE), sets.split(CHAINS_AT_ONCE), strict=True)
        with evaluating(self):
            return torch.cat([self.energy(inputs, some) for inputs, some in parts])


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch off dropout and the like for a while; an encoder of the user's own may have them."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)


class SetDrawer:
    """Draws one padded set (B, N, C) for each input.

    Args:
        network: energy, and the descent if it predicts by one.
        row_shape: (N, C) of a padded set.
        engine: how chains run.
    """

    def __init__(self, network: EnergyNetwork, row_shape: tuple[int, int], engine: Engine) -> None:
        self.network, self.row_shape = network, row_shape
        self.many = ChainEngine(network.energy, engine)
        # Few chains are run plainly, unless something else is asked for: compiling and capturing cost seconds.
        self.few = self.many if engine in ("compiled", "graph") else ChainEngine(network.energy, "eager")

    def draw(
        self, x: Tensor, generator: torch.Generator, sampler: LangevinSettings, record: Record
    ) -> tuple[Tensor, ChainInfo]:
        """Draw in parts of `CHAINS_AT_ONCE`; the last part of many is filled up, so that all are alike."""
        engine = self.many if len(x) >= CHAINS_AT_ONCE else self.few
        parts = []
        for part in x.split(CHAINS_AT_ONCE):
            missing = CHAINS_AT_ONCE - len(part) if len(x) > CHAINS_AT_ONCE else 0
            filled = torch.cat([part, part[:1].expand(missing, *part.shape[1:])]) if missing else part
            values, info = self._draw_part(engine, filled, generator, sampler, record)
            parts.append((values[: len(part)], _first(info, len(part))))
        return torch.cat([values for values, _ in parts]), _join([info for _, info in parts])

    def _draw_part(
        self,
        engine: ChainEngine,
        x: Tensor,
        generator: torch.Generator,
        sampler: LangevinSettings,
        record: Record,
    ) -> tuple[Tensor, ChainInfo]:
        with evaluating(self.network):
            code = self.network.energy.encode(x)
        if self.network.descent is not None:
            return self.network.descent(self.network.energy, code, record)
        start = torch.zeros(len(x), *self.row_shape, device=x.device, dtype=x.dtype)
        return engine.run(sampler, code, start, generator, record)


def _first(info: ChainInfo, count: int) -> ChainInfo:
    parts = (info.energies, info.gradient_norms, info.trajectory)
    return ChainInfo(*(None if part is None else part[:, :count] for part in parts))


def _join(infos: list[ChainInfo]) -> ChainInfo:
    if infos[0].energies is None:
        return ChainInfo()

    def joined(name: str) -> Tensor | None:
        parts = [getattr(info, name) for info in infos]
        return None if parts[0] is None else torch.cat(parts, dim=1)

    return ChainInfo(joined("energies"), joined("gradient_norms"), joined("trajectory"))
