"""How a chain is run: step by step, with a compiled gradient, or captured as one CUDA graph.

A chain is hundreds of tiny kernels, and launching them one by one leaves a GPU idle for most of the time. The
graph engine captures the whole chain once and replays it: the sampler, the energy and the noise are the same,
only the launching is not. Weights are read in place, so a graph stays valid while they are trained. On a CPU
launching is cheap; there a compiled gradient saves passes over memory, which pays in long runs.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from typing import Literal

import torch
from torch import Tensor

from desp.capture import CapturedCall, GraphCache, Key, borrowed_generator, on_cuda, warm_up
from desp.energies import SetField
from desp.errors import SettingsError
from desp.samplers.base import (
    ChainInfo,
    Record,
    Sampler,
    ValueAndGrad,
    ValueAndGradFor,
    value_and_grad_of,
    value_and_gradient,
)
from desp.settings import Engine

logger = logging.getLogger(__name__)

# Sets that are sampled at once. A fixed number also means that a captured chain is used again and again.
CHAINS_AT_ONCE = 1000

# Up to this many chains are captured without compiling, when their shape comes a second time: a graph keeps the
# memory of all steps.
FEW_CHAINS = 128

# How many shapes torch may compile one gradient for.
COMPILED_SHAPES = 512

# Compiling takes seconds on a CPU, which a short run does not win back.
MIN_GRADIENTS_TO_COMPILE = 100_000
# Compiled gradients pass over memory less often, so parts of a batch may be larger than the cache.
ROWS_COMPILED = 8192


EngineName = Literal["eager", "compiled", "graph"]

_INLINE: ContextVar[bool] = ContextVar("inline chains", default=False)


@contextmanager
def inline_chains() -> Iterator[None]:
    """Within this, chains are not captured on their own: they become part of a larger graph."""
    token = _INLINE.set(True)
    try:
        yield
    finally:
        _INLINE.reset(token)


def check_engine(engine: Engine, device: torch.device) -> None:
    """Refuse an engine that `device` cannot use.

    Raises:
        SettingsError: CUDA graphs without CUDA.
    """
    if engine == "graph" and device.type != "cuda":
        raise SettingsError("engine 'graph' needs a CUDA device; use --engine eager, compiled or auto.")


class ChainEngine:
    """Runs samplers along the gradients of one energy or field.

    Args:
        field: an energy, or another field over sets. Its weights may change in place; where they are moved, chains
            are captured anew.
        engine: ``eager``, ``compiled``, ``graph``, or ``auto``: graph on CUDA; on the CPU compiled in long runs,
            else eager.
        expected_gradients: how many will be taken in all, which tells whether compiling pays on the CPU.
        min_chains: with ``auto``, fewer are not compiled, as compiling costs seconds. On CUDA up to `FEW_CHAINS`
            of them become a graph of the same kernels once their shape comes again; more run eagerly.
    """

    def __init__(
        self, field: SetField, engine: Engine = "auto", *, expected_gradients: int = 0, min_chains: int = 0
    ) -> None:
        self.field = field
        self.requested = engine
        self.min_chains = min_chains
        self.expected_gradients = expected_gradients
        self.used: EngineName | None = None
        self._failed = False
        self.resumed_engine: EngineName | None = None
        """What to use on the CPU: a resumed run goes on as it began, also if it is made longer."""
        self._compiled_for: set[Key] = set()
        self._graphs: GraphCache[_ChainGraph] = GraphCache()
        self._function: Callable[..., tuple[Tensor, Tensor]] | None = None

    def name(self, device: torch.device, chains: int | None = None) -> EngineName:
        """The engine for this many chains on `device`; for many, if no number is given."""
        check_engine(self.requested, device)
        if self.requested != "auto":
            return self.requested
        if chains is not None and chains < self.min_chains:
            return "eager"
        if device.type == "cuda":
            return "graph"
        if self.resumed_engine is not None:
            return self.resumed_engine
        worth_it = self.expected_gradients >= MIN_GRADIENTS_TO_COMPILE
        return "compiled" if device.type == "cpu" and worth_it else "eager"

    @torch.no_grad()
    def run(
        self,
        sampler: Sampler,
        code: Tensor,
        start: Tensor,
        generator: torch.Generator,
        record: Record = "nothing",
        chains: int | None = None,
    ) -> tuple[Tensor, ChainInfo]:
        """One set for each row of `code` from `start` (B, N, C); `chains`: how many run in all, with restarts."""
        size = start.shape[1]
        name = self.name(start.device, chains or len(code))
        captured = name == "graph" and not _INLINE.get()  # else it becomes part of a larger graph
        value_and_grad_for = partial(
            partial(value_and_grad_of, self.field) if name == "eager" else self.compiled_gradient, size=size
        )
        key = self._key(sampler, code, start, record, name)
        if uncompiled := name == "eager" and self._captures_uncompiled(code, start):
            captured = self._graphs.seen_before(key)
        capture = partial(_ChainGraph, value_and_grad_for, sampler, code, start, record)
        try:  # what may fail, compiling and capturing, is done before the chain begins
            ready = self._graphs.get(key, capture) if captured else None
            if name != "eager" and not captured:
                self._compile(sampler, code, start)
        except RuntimeError as error:
            self._fall_back("graph" if captured else name, error)
            return self.run(sampler, code, start, generator, record, chains)
        self._announce(name, uncompiled=uncompiled)
        if ready is not None:
            return ready.replay(code, start, generator)
        return sampler.sample(value_and_grad_for, code, start, generator, record)

    def _captures_uncompiled(self, code: Tensor, start: Tensor) -> bool:
        """Whether these are few chains on CUDA, which are captured, not compiled, once their shape comes again."""
        few = self.requested == "auto" and len(code) <= FEW_CHAINS
        return few and not _INLINE.get() and on_cuda(start)

    def _announce(self, name: EngineName, *, uncompiled: bool) -> None:
        """Say which engine runs, and why, whenever that changes; `uncompiled`: see `_captures_uncompiled`."""
        if name == self.used:
            return
        resumed = name == self.resumed_engine and self.requested == "auto"
        given = "as another engine failed" if self._failed else "as asked for"
        why = "as before the run was resumed" if resumed else _REASONS[name] if self.requested == "auto" else given
        graph = (
            "; captured as a CUDA graph, not compiled, from the second call of a shape on" if uncompiled else ""
        )
        logger.info("chains run with engine %s: %s%s", name, why, graph)
        self.used = name

    def _compile(self, sampler: Sampler, code: Tensor, start: Tensor) -> None:
        """Compile the gradient for a new shape."""
        key = (type(sampler), code.shape, start.shape, *self._environment(code, start))
        if key not in self._compiled_for:
            self.warm_up_compiled(sampler, code, start)
            self._compiled_for.add(key)

    def warm_up_compiled(self, sampler: Sampler, code: Tensor, start: Tensor) -> None:
        """Take one compiled gradient of the kind that `sampler` takes, so that later ones find it compiled."""
        sampler.warm_up_gradient(partial(self.compiled_gradient, size=start.shape[1]), code, start)

    def _environment(self, code: Tensor, start: Tensor) -> Key:
        """Types, device, precision and mode, on which a captured graph or a compiled gradient depends, too."""
        precision = torch.get_float32_matmul_precision()
        return (code.dtype, start.dtype, start.device, precision, self.field.training)

    def _fall_back(self, name: str, error: RuntimeError) -> None:
        """Run chains eagerly from now on; raise the error where an engine was asked for, or a larger graph is
        captured."""
        if self.requested != "auto" or _INLINE.get():
            raise error
        logger.warning("chains run step by step, as engine %s failed: %s", name, str(error).split("\n")[0])
        self.requested, self._failed = "eager", True

    def compiled_gradient(self, code: Tensor, size: int) -> ValueAndGrad:
        """`value_and_grad_of` sets of `size` rows, compiled once for all chains of this energy."""
        if self._function is None:
            # Every shape is compiled for itself, and torch gives up after a few: that many are no mistake here.
            compiler = import_module("torch._dynamo").config  # takes a second, and only compiling needs it
            compiler.recompile_limit = max(compiler.recompile_limit, COMPILED_SHAPES)
            self._function = torch.compile(value_and_gradient, fullgraph=True, dynamic=False)
        return value_and_grad_of(self.field, code, size, self._function, ROWS_COMPILED)

    def _key(self, sampler: Sampler, code: Tensor, start: Tensor, record: Record, name: EngineName) -> Key:
        """What a captured chain is for; it reads weights where they are, and they may be moved."""
        weights = next((item.data_ptr() for item in self.field.parameters()), 0)
        return (name, sampler, code.shape, start.shape, record, weights, *self._environment(code, start))


_REASONS = {
    "graph": "one launch for the whole chain",
    "compiled": "enough gradients to pay for compiling",
    "eager": "too few gradients or chains for compiling to pay",
}


class _ChainGraph:
    """One captured chain with its own copies of input and start."""

    def __init__(
        self,
        value_and_grad_for: ValueAndGradFor,
        sampler: Sampler,
        code: Tensor,
        start: Tensor,
        record: Record,
    ) -> None:
        logger.info("capturing %s for sets %s", sampler, tuple(start.shape))
        self.code, self.start = code.clone(), start.clone()
        self.generator = torch.Generator(device=start.device)
        for _ in range(2):
            warm_up(lambda: sampler.warm_up_gradient(value_and_grad_for, self.code, self.start))

        def chain() -> tuple[Tensor, ChainInfo]:
            # What is prepared for the gradient is part of the graph: it follows the weights between replays.
            return sampler.sample(value_and_grad_for, self.code, self.start, self.generator, record)

        self.chain = CapturedCall(chain, [self.generator])

    def replay(self, code: Tensor, start: Tensor, generator: torch.Generator) -> tuple[Tensor, ChainInfo]:
        self.code.copy_(code)
        self.start.copy_(start)
        with borrowed_generator(self.generator, generator):
            result, info = self.chain()
        return result.clone(), info.map(Tensor.clone)
