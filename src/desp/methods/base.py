"""What a method is: how a model is trained, and how sets are sampled from it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from desp.data.shape import DataShape
from desp.energies import SetEnergy
from desp.errors import SettingsError
from desp.nn import CardinalityHead
from desp.samplers import CHAINS_AT_ONCE, ChainEngine, ChainInfo, LogDensity, Record
from desp.sets import SetRepresentation
from desp.settings import Engine, SamplerSettings

NO_ENERGY = (
    "This method has no energy, so it cannot say how plausible a set is. Train one that has, such as "
    "EnergyDenoisingSettings()."
)
NO_DENSITY = (
    "A density over sets needs the method 'energy-denoising' with predicted cardinality and a smooth energy: "
    "'attention', or 'pooled-layers' with pooling 'softmax', 'mean' or 'sum'. The gradients of others jump "
    "(FSPool where elements change their order, deep-sets at its LeakyReLUs), and a density is computed from the "
    "divergence of the sampler's flow, which does not see jumps; other methods have no density; label-likelihood "
    "has probabilities of labels only. Train with EnergyDenoisingSettings(), on the command line --use-method "
    "energy-denoising."
)


@dataclass(frozen=True)
class MethodParts:
    """What a method is built from beside its settings.

    Attributes:
        encoder: h(x).
        code_shape: shape of the encoder's output for one input.
        shape: of the data.
        representation: how sets are written as tensors.
        engine: how chains run.
    """

    encoder: nn.Module
    code_shape: tuple[int, ...]
    shape: DataShape
    representation: SetRepresentation
    engine: Engine = "auto"

    @property
    def set_shape(self) -> tuple[int, int]:
        """(N, C) of a padded set."""
        return self.shape.max_size, self.representation.channels(self.shape.features)


class Method(nn.Module, ABC):
    """A model, its loss, and how sets are sampled from codes.

    `forward` returns the loss itself. Distributed wrappers average the gradients of what their `forward` returns;
    were it an energy from which a chain took gradients, that averaging would silently not happen.

    Its settings build it: ``Method(settings, parts)``.
    """

    capturable: bool = True
    """Whether forward and backward can be captured as CUDA graphs: they wait for the device in `capture.on_host`
    alone."""

    def __init__(self, parts: MethodParts) -> None:
        super().__init__()
        self.encoder, self.shape, self.engine = parts.encoder, parts.shape, parts.engine
        self.representation, self.set_shape = parts.representation, parts.set_shape
        self.energy: SetEnergy | None = None
        """What scores a set, where the method trains one."""
        self.cardinality: CardinalityHead | None = None
        """p(n | x), where the method learns it."""
        self.training_engine: ChainEngine | None = None
        """What runs the chains of training steps, where there are any."""
        self.engine_used = "eager"
        """How the last sets were sampled: ``eager`` (not compiled, although few chains on CUDA become a graph from
        the second call of a shape on), ``compiled`` or ``graph``."""

    # -- training --------------------------------------------------------------------------------------

    def encode(self, x: Float[Tensor, "b *input"]) -> Float[Tensor, "b *code"]:
        """The code of each input, once for all its samples: h(x), passed through `SetEnergy.encode`."""
        code: Tensor = self.encoder(x)
        return code if self.energy is None else self.energy.encode(code)

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """The loss of a batch of inputs and padded sets, and detached numbers to log."""

    def inspect_sets(self, y: Float[Tensor, "b n c"]) -> None:
        """Look at the padded sets of the first batch before training: refuse them, or choose by them.

        Raises:
            DataError: the method cannot learn from them.
        """
        del y

    def set_training_steps(self, steps: int) -> None:
        """Announce the number of training steps, by which engines decide whether to compile."""
        del steps

    @property
    def training_engine_used(self) -> str:
        """How chains ran in the last training step."""
        return (self.training_engine and self.training_engine.used) or "eager"

    def resume_engine(self, engine: str) -> None:
        """Run chains on the CPU as before a run was interrupted, if the engine is ``auto``."""
        if self.training_engine is not None and engine in ("eager", "compiled"):
            self.training_engine.resumed_engine = cast(Literal["eager", "compiled"], engine)

    def divergence_reason(self, numbers: dict[str, float]) -> str | None:
        """Why training has diverged although all was finite; None: it has not.

        Args:
            numbers: means over the steps since the last checkpoint: of the loss, the gradient norm, and what
                `forward` logs.
        """
        del numbers
        return None

    def calibrate_cardinality(self, code: Float[Tensor, "b *code"], sizes: Int[Tensor, " b"]) -> float | None:
        """Scale p(n | x) by a temperature fitted to validation examples; None: there is no p(n | x) to sample."""
        del code, sizes
        return None

    def modal_cardinality(self, code: Float[Tensor, "b *code"]) -> Int[Tensor, " b"] | None:
        """The mode of p(n | x) for each input; None: there is no p(n | x)."""
        return None if self.cardinality is None else self.cardinality.mode(code)

    # -- prediction ------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(
        self,
        code: Float[Tensor, "b *code"],
        generator: torch.Generator,
        sampler: SamplerSettings | None = None,
        record: Record = "nothing",
        presence: Bool[Tensor, "b n"] | None = None,
        samples: int = 1,
    ) -> tuple[Float[Tensor, "bk n c"], ChainInfo]:
        """K padded sets for each code, all of the first code first, with the record of their chains.

        Sets are sampled in batches of `CHAINS_AT_ONCE`; the last of several batches is padded to that size. Codes
        are repeated batch by batch, as codes of images may be whole feature maps.

        Args:
            code: of the inputs.
            generator: of all noise.
            sampler: another one than the settings'.
            record: how much of the chain to keep.
            presence: which elements there are, where outputs are aligned with inputs.
            samples: K.
        """
        parts, total = [], samples * len(code)
        for rows in _batches(total, code.device):
            missing = CHAINS_AT_ONCE - len(rows) if total > CHAINS_AT_ONCE else 0
            inputs = rows // samples
            known = None if presence is None else _filled_up(presence[inputs], missing)
            values, info = self.sample_batch(_filled_up(code[inputs], missing), generator, sampler, record, known)
            parts.append((values[: len(rows)], info))
        joined = ChainInfo.combined([info for _, info in parts], lambda of_parts: torch.cat(of_parts, dim=1))
        return torch.cat([values for values, _ in parts]), joined.map(lambda of_chains: of_chains[:, :total])

    @abstractmethod
    def sample_batch(
        self,
        code: Tensor,
        generator: torch.Generator,
        sampler: SamplerSettings | None,
        record: Record,
        presence: Tensor | None,
    ) -> tuple[Tensor, ChainInfo]:
        """One padded set for each of at most `CHAINS_AT_ONCE` codes."""

    def start(self, code: Tensor, presence: Tensor | None = None) -> Float[Tensor, "b n c"]:
        """Zeros, with the presence (B, N) that is known: of aligned outputs, or of a cardinality.

        It may have fewer rows than `set_shape`, where a task trains on some of the elements of each example.
        """
        size, channels = self.set_shape
        rows = size if presence is None else presence.shape[1]
        start = torch.zeros(len(code), rows, channels, device=code.device, dtype=code.dtype)
        if presence is not None:
            start[..., -1] = presence
        return start

    @torch.no_grad()
    def energies(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "bk n c"], samples: int = 1
    ) -> Float[Tensor, " bk"]:
        """The energy of K padded sets for each code, lower is more plausible; NaN where the method has none."""
        parts = _batches(len(y), code.device)
        return torch.cat([self.energy_batch(code[rows // samples], y[rows]) for rows in parts])

    def energy_batch(self, code: Tensor, y: Tensor) -> Tensor:
        """The energy (B,) of at most `CHAINS_AT_ONCE` padded sets."""
        if self.energy is not None:
            return self.energy(code, y)
        return torch.full((len(y),), torch.nan, dtype=y.dtype, device=y.device)

    def log_prob(
        self, code: Tensor, y: Float[Tensor, "b n c"], generator: torch.Generator, steps: int, probes: int
    ) -> LogDensity:
        """log p of padded sets for codes, in the units of padded sets.

        Raises:
            SettingsError: the method gives no normalised density.
        """
        del code, y, generator, steps, probes
        raise SettingsError(NO_DENSITY)


def _batches(total: int, device: torch.device) -> tuple[Int[Tensor, " rows"], ...]:
    """The numbers of all sets, `CHAINS_AT_ONCE` at a time."""
    return torch.arange(total, device=device).split(CHAINS_AT_ONCE)


def _filled_up(rows: Tensor, missing: int) -> Tensor:
    """`rows` (B, ...) with the first one repeated behind them."""
    return torch.cat([rows, rows[:1].expand(missing, *rows.shape[1:])]) if missing else rows


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch to eval mode for a while: no dropout, running statistics of batch norm; then each part to its own."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
