"""What every trained network of a predictor can do, and how sets are drawn in parts of one size."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from desp.estimators import Estimator
from desp.nn import SizeHead
from desp.samplers import ChainInfo, Record
from desp.sets import Padding
from desp.settings import Engine, EstimatorSettings, SamplerSettings

# Sets that are drawn at once. A fixed number also means that a captured chain is used again and again.
CHAINS_AT_ONCE = 1000


class SetNetwork(nn.Module, ABC):
    """What is trained and saved, and how it makes and scores sets.

    Estimators hold the same modules under the same names, so that their weights can be exchanged.

    Attributes:
        sizes: p(size | x), where sizes come first.
        scores_sets: whether it has an energy. One that has none makes sets alone.
    """

    sizes: SizeHead | None
    scores_sets: bool = True

    @abstractmethod
    def make_estimator(self, settings: EstimatorSettings, engine: Engine, steps: int) -> Estimator:
        """The estimator that `settings` name, on these modules, for a training of so many steps."""

    @abstractmethod
    def make_drawer(self, row_shape: tuple[int, int], padding: Padding, engine: Engine) -> "SetDrawer":
        """What draws sets of `row_shape` (N, C), padded so, from these modules; `engine` is how chains run."""

    @abstractmethod
    def scores(self, x: Tensor, sets: Tensor) -> Tensor:
        """Energies (B,) of padded sets for inputs, in parts that fit into memory; NaN where there is no energy."""


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch off dropout and the like for a while; an encoder of the user's own may have them.

    Each part gets its own mode back: in training an estimator has switched parts of the network, not the whole.
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


class SetDrawer(ABC):
    """Draws one padded set (B, N, C) for each input.

    Attributes:
        engine_used: how the last ones were drawn.
    """

    def __init__(self) -> None:
        self.engine_used = "eager"

    def draw(
        self,
        x: Tensor,
        generator: torch.Generator,
        settings: SamplerSettings,
        record: Record,
        code_type: torch.dtype | None = None,
    ) -> tuple[Tensor, ChainInfo]:
        """Draw in parts of `CHAINS_AT_ONCE`; the last part of many is filled up, so that all are alike.

        With `code_type`, from codes rounded to it.
        """
        parts = []
        for part in x.split(CHAINS_AT_ONCE):
            missing = CHAINS_AT_ONCE - len(part) if len(x) > CHAINS_AT_ONCE else 0
            filled = torch.cat([part, part[:1].expand(missing, *part.shape[1:])]) if missing else part
            values, info = self.draw_part(filled, generator, settings, record, code_type)
            parts.append((values[: len(part)], _first(info, len(part))))
        return torch.cat([values for values, _ in parts]), _join([info for _, info in parts])

    @abstractmethod
    def draw_part(
        self,
        x: Tensor,
        generator: torch.Generator,
        settings: SamplerSettings,
        record: Record,
        code_type: torch.dtype | None = None,
    ) -> tuple[Tensor, ChainInfo]:
        """Draw for at most `CHAINS_AT_ONCE` inputs."""


def rounded(code: Tensor, code_type: torch.dtype | None) -> Tensor:
    """A code with the digits that `code_type` keeps; all of them for None."""
    return code if code_type is None else code.to(code_type).to(code.dtype)


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
