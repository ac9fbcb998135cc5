"""CUDA graphs on the CPU: a capture notes every operation, and a replay does them again on the same tensors.

That keeps what makes graphs treacherous: capturing computes nothing, Python's numbers are baked in, inputs are
read where they lay, the next replay overwrites results, and only registered generators may be drawn from.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

CUDA = torch.device("cuda")


class _Lenient(type(torch._C.Generator)):
    """Annotations that are read while the pretence lasts name the class below; they mean any generator."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch._C.Generator)


class PretendGenerator(torch._C.Generator, metaclass=_Lenient):
    """A generator with the offset that those of GPUs have: a place in the numbers of its seed."""

    places: ClassVar[list[tuple[int, Tensor]]] = []
    broken = False

    def __new__(cls, device: torch.device | str = "cpu") -> Self:  # noqa: ARG004 - as if it were there
        return super().__new__(cls, device="cpu")

    def get_offset(self) -> int:
        self.places.append((self.initial_seed(), self.get_state()))
        return len(self.places) - 1

    def set_offset(self, offset: int) -> None:
        seed, state = self.places[offset]
        if seed == self.initial_seed():
            self.set_state(state)
        else:  # as many numbers on, but in another stream
            super().manual_seed(seed ^ self.initial_seed() ^ offset)

    def manual_seed(self, seed: int) -> Self:
        if self.broken:
            raise RuntimeError("a capture that was broken off left this generator unusable")
        super().manual_seed(seed)
        return self


class _Operation:
    """One operation, with the memory that it reads and writes."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], results: object) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        known = {item.untyped_storage()._cdata for item in _tensors((args, kwargs))}
        # None for an input or a view of one.
        self.fresh = [
            None if item.untyped_storage()._cdata in known else item.detach() for item in _tensors(results)
        ]

    def repeat(self) -> None:
        """Compute again, into the same memory."""
        for old, new in zip(self.fresh, _tensors(self.function(*self.args, **self.kwargs)), strict=True):
            if old is not None:
                old.copy_(new)


class PretendGraph:
    """Stands in for torch.cuda.CUDAGraph."""

    made: ClassVar[list["PretendGraph"]] = []

    def __init__(self) -> None:
        self.generators: list[torch.Generator] = []
        self.operations: list[_Operation] = []
        self.replays = 0
        self.stream: object = None
        self.made.append(self)

    def register_generator_state(self, generator: torch.Generator) -> None:
        self.generators.append(generator)

    def pool(self) -> int:
        return id(self)

    @torch.no_grad()
    def replay(self) -> None:
        self.replays += 1
        with torch._C.DisableTorchFunction():
            for operation in self.operations:
                operation.repeat()


class _Tape(TorchDispatchMode):
    """Notes operations in a graph, and undoes in the end what they did."""

    def __init__(self, graph: PretendGraph) -> None:
        super().__init__()
        self.graph = graph
        self.undo: list[tuple[Tensor, Tensor]] = []
        self.states = [generator.get_state() for generator in graph.generators]

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function.namespace == "profiler":
            return function(*args, **kwargs)
        self._check_generators(kwargs)
        noted = tree_map(_alias, (args, kwargs))
        self.undo += [(item, item.clone()) for item in _written(function, *noted)]
        results = function(*args, **kwargs)
        if torch.Tag.inplace_view not in function.tags:  # these change a tensor's shape alone
            self.graph.operations.append(_Operation(function, *noted, results))
        return results

    def _check_generators(self, kwargs: dict[str, Any]) -> None:
        given = kwargs.get("generator")
        if given is not None and all(given._cdata != item._cdata for item in self.graph.generators):
            raise RuntimeError("Attempt to increase offset for a CUDA generator not in capture mode.")

    @torch.no_grad()
    def rewind(self) -> None:
        """Capturing computes nothing: what was changed is put back, what is new holds rubbish."""
        for item, before in reversed(self.undo):
            item.copy_(before)
        for generator, state in zip(self.graph.generators, self.states, strict=True):
            generator.set_state(state)
        for operation in self.graph.operations:
            for item in operation.fresh:
                if item is not None and item.is_floating_point():
                    item.fill_(float("nan"))


def _alias(item: Any) -> Any:
    """The same memory under a shape that nobody changes in place."""
    return item.detach() if isinstance(item, Tensor) else item


def _tensors(items: object) -> list[Tensor]:
    return [item for item in tree_leaves(items) if isinstance(item, Tensor)]


def _written(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The arguments that an operation writes to."""
    values = []
    for place, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            values.append(args[place] if place < len(args) else kwargs.get(argument.name))
    return _tensors(values)


@contextmanager
def pretend_capture(
    graph: PretendGraph, pool: object = None, stream: object = None, capture_error_mode: str = "global"
) -> Iterator[None]:
    """Stands in for torch.cuda.graph."""
    # Graphs that share a stream are those of one call, and share a pool.
    first = next((item for item in graph.made if item.stream is stream), None)
    assert pool == (None if first is None else first.pool())
    graph.stream = stream
    assert capture_error_mode == "thread_local"  # other threads copy costs and load data meanwhile
    tape = _Tape(graph)
    try:
        with tape:
            yield
    except BaseException:
        for generator in graph.generators:
            generator.broken = True
        raise
    finally:
        tape.rewind()


class PretendStream:
    """Notes who waited for whom, and what ran on it."""

    events: ClassVar[list[str]] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def wait_stream(self, other: "PretendStream") -> None:
        self.events.append(f"{self.name} waits for {other.name}")

    @contextmanager
    def used(self) -> Iterator[None]:
        self.events.append(f"{self.name} begins")
        yield
        self.events.append(f"{self.name} ends")


class OnCpu(TorchFunctionMode):
    """Puts on the CPU what is asked for on a GPU."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        def moved(item: Any) -> Any:
            return torch.device("cpu") if isinstance(item, torch.device) and item.type == "cuda" else item

        if function is torch.device:
            return function(*args, **(kwargs or {}))
        return function(*map(moved, args), **{name: moved(item) for name, item in (kwargs or {}).items()})


class PretendAccelerator(Accelerator):
    """One process that takes its CPU for a GPU."""

    def __init__(self, processes: int = 1) -> None:
        super().__init__(cpu=True)
        self.processes = processes

    @property
    def device(self) -> torch.device:
        return CUDA

    @property
    def num_processes(self) -> int:
        return self.processes


@contextmanager
def pretended_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PretendGraph]]:
    """Within this, graphs are captured on the CPU, and gradients are not compiled; yields those captured."""
    from desp.samplers import ChainEngine

    name_on = ChainEngine.name
    compiler = SimpleNamespace(config=SimpleNamespace(recompile_limit=8))
    replacements = {
        "torch.Generator": PretendGenerator,
        "torch.compile": lambda function, **_: function,
        "torch.cuda.CUDAGraph": PretendGraph,
        "torch.cuda.graph": pretend_capture,
        "torch.cuda.current_device": lambda: 0,
        "torch.cuda.current_stream": lambda: PretendStream("main"),
        "torch.cuda.stream": PretendStream.used,
        "torch.cuda.Stream": lambda priority=0: PretendStream(f"stream of priority {priority}"),
        "desp.capture._side_stream": lambda _: PretendStream("side"),
        "desp.samplers.engine.import_module": lambda _: compiler,
        "desp.samplers.engine.ChainEngine.name": lambda self, _, chains=None: name_on(self, CUDA, chains),
    }
    for name, stand_in in replacements.items():
        monkeypatch.setattr(name, stand_in)
    PretendGraph.made, PretendGenerator.places, PretendStream.events = [], [], []
    with OnCpu():
        yield PretendGraph.made
