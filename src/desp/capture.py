"""Functions captured as CUDA graphs: one launch in place of hundreds."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

# Threads that train at the same time take turns: a capture begins by waiting for the whole device, and warming up
# compiles.
_one_at_a_time = threading.RLock()

Result = TypeVar("Result")
Key = tuple[object, ...]

# Graphs keep their memory; a process that meets many shapes drops the ones it has not used for longest. As many
# shapes that have no graph yet are remembered.
GRAPHS_KEPT = 8
# Larger inputs keep a GPU busy, so that launches do not count, and their graphs would need much memory.
MAX_INPUT_NUMBERS = 2**20


class CapturedCall(Generic[Result]):
    """A function without arguments, captured once as a CUDA graph and replayed.

    It reads and writes the same tensors in every replay, so its inputs are changed in place beforehand, and
    `result` holds what the last replay computed. Nothing is computed while it is captured; whatever it
    allocates once, such as an optimiser's state, must be there before. Where it calls `on_host`, one graph ends
    and another begins, and replays do that work between them.

    Args:
        work: what to capture; run it before, by `warm_up`, so that compiling and allocating are done.
        generators: all generators that `work` draws from. A replay goes on from their state.
    """

    def __init__(self, work: Callable[[], Result], generators: Sequence[torch.Generator]) -> None:
        if _captured_now.get() is not None:
            raise RuntimeError("a captured call cannot capture another one")
        self.generators, self.graphs = tuple(generators), list[torch.cuda.CUDAGraph]()
        # One of its own: matrix products use work space that belongs to the stream they were captured on. Graphs
        # that are replayed at the same time must not share it, and it goes when a graph of that stream does.
        self.stream = torch.cuda.Stream(priority=-1)
        self._parts: list[Callable[[], object]] = []
        self._open = ExitStack()
        token = _captured_now.set(self)
        try:
            with _one_at_a_time, self._open:
                self._begin_graph()
                self.result = work()
        finally:
            _captured_now.reset(token)

    def __call__(self) -> Result:
        """Replay, and return the tensors that the next replay will overwrite."""
        for part in self._parts:
            part()
        return self.result

    def do_between_graphs(self, function: Callable[[], object]) -> None:
        """End the graph that is being captured, and begin another one, before which replays call `function`."""
        self._open.close()
        self._parts.append(function)
        self._begin_graph()

    def _begin_graph(self) -> None:
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        # Tensors of the graphs before are read by those after, so all have one pool of memory.
        pool = self.graphs[0].pool() if self.graphs else None
        capture = torch.cuda.graph(graph, pool=pool, stream=self.stream, capture_error_mode="thread_local")
        self._open.enter_context(capture)
        self.graphs.append(graph)
        self._parts.append(graph.replay)


_captured_now: ContextVar[CapturedCall[Any] | None] = ContextVar("captured_now", default=None)


def on_host(function: Callable[[], object]) -> None:
    """Call a function that waits for the device, such as one that copies from it; while a `CapturedCall` is
    captured, call it in every replay instead. It may change tensors in place; what it returns is lost.

    Not for what a backward pass does: on a GPU that runs in another thread, which knows of no capture.
    """
    captured = _captured_now.get()
    if captured is None:
        function()
    else:
        captured.do_between_graphs(function)


@cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """One for all: the matrix library keeps megabytes of work space for every stream it has met."""
    return torch.cuda.Stream(device)


def warm_up(work: Callable[[], Result]) -> Result:
    """Run `work` on a side stream, as CUDA graphs ask."""
    with _one_at_a_time:
        stream = _side_stream(torch.cuda.current_device())
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = work()
        torch.cuda.current_stream().wait_stream(stream)
    return result


@contextmanager
def borrowed_generator(own: torch.Generator, source: torch.Generator) -> Iterator[None]:
    """Let a graph's own generator continue where `source` is, and hand its progress back afterwards."""
    own.manual_seed(source.initial_seed())
    own.set_offset(source.get_offset())
    try:
        yield
    finally:
        source.set_offset(own.get_offset())


class GraphCache(Generic[Result]):
    """The graphs used last, by what they were captured for.

    A copy of it, by `copy.deepcopy` or pickle, is empty: graphs belong to the memory they were captured with.
    """

    def __init__(self) -> None:
        self._graphs: OrderedDict[Key, Result] = OrderedDict()
        self._seen: OrderedDict[Key, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._graphs)

    def __reduce__(self) -> tuple[type["GraphCache[Result]"], tuple[()]]:
        return type(self), ()

    def seen_before(self, key: Key) -> bool:
        """Whether `key` has a graph, or is one of the last keys that were asked for; it is remembered from now on.

        Capturing does not pay for what comes once.
        """
        if key in self._graphs:
            return True
        seen = key in self._seen
        self._seen[key] = None
        self._seen.move_to_end(key)
        if len(self._seen) > GRAPHS_KEPT:
            self._seen.popitem(last=False)
        return seen

    def get(self, key: Key, capture: Callable[[], Result]) -> Result:
        """The graph of `key`, captured if there is none."""
        if key not in self._graphs:
            self._graphs[key] = capture()
            self._seen.pop(key, None)  # once its graph is dropped, it has to come twice again
            if len(self._graphs) > GRAPHS_KEPT:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        return self._graphs[key]


class CapturedFunction:
    """A function of small inputs on CUDA, run as a graph from the second time on that a shape comes.

    A shape that comes again only after `GRAPHS_KEPT` others or more counts as new.

    Args:
        function: from a tensor to a tensor, without random numbers and without work on the host.
        module: whose weights it reads. They may change in place; where they are moved, it is captured anew.
        captures: otherwise it always runs eagerly.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], module: nn.Module, *, captures: bool = True) -> None:
        self.function, self.module, self.captures = function, module, captures
        self.graphs: GraphCache[tuple[Tensor, CapturedCall[Tensor]]] = GraphCache()

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """``function(x)``."""
        if not self.captures or not on_cuda(x) or x.numel() > MAX_INPUT_NUMBERS:
            return self.function(x)
        key = self._key(x)
        if not self.graphs.seen_before(key):
            return self.function(x)
        try:
            static_input, call = self.graphs.get(key, lambda: self._capture(x))
        except RuntimeError as error:
            reason = str(error).split("\n")[0]
            logger.warning("inputs are encoded without a CUDA graph, as its capture failed: %s", reason)
            self.captures = False
            return self.function(x)
        static_input.copy_(x)
        return call().clone()

    def _key(self, x: Tensor) -> Key:
        """What a graph depends on beside the values of input and weights."""
        weights = next((item.data_ptr() for item in self.module.parameters()), 0)
        precision = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        return (x.shape, x.dtype, x.device, weights, self.module.training, *precision)

    def _capture(self, x: Tensor) -> tuple[Tensor, CapturedCall[Tensor]]:
        static_input = x.clone()
        warm_up(lambda: self.function(static_input))
        return static_input, CapturedCall(lambda: self.function(static_input), [])


def on_cuda(values: Tensor) -> bool:
    """Whether a tensor lies where graphs can be captured."""
    return values.device.type == "cuda"
