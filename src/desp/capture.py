"""Functions captured as CUDA graphs: one launch in place of hundreds."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Generic, TypeVar

import torch

Result = TypeVar("Result")


class CapturedCall(Generic[Result]):
    """A function without arguments, captured once as a CUDA graph and replayed.

    It reads and writes the same tensors in every replay, so its inputs are changed in place beforehand, and
    `result` holds what the last replay computed. Nothing is computed while it is captured; whatever it
    allocates once, such as an optimiser's state, must be there before.

    Args:
        work: what to capture; run it before, by `warm_up`, so that compiling and allocating are done.
        generators: all generators that `work` draws from. A replay goes on from their state.
    """

    def __init__(self, work: Callable[[], Result], generators: Sequence[torch.Generator]) -> None:
        self.graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self.graph.register_generator_state(generator)
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.result = work()

    def __call__(self) -> Result:
        """Replay, and return the tensors that the next replay will overwrite."""
        self.graph.replay()
        return self.result


@cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """One for all: the matrix library keeps megabytes of work space for every stream it has met."""
    return torch.cuda.Stream(device)


def warm_up(work: Callable[[], Result]) -> Result:
    """Run `work` on a side stream, as CUDA graphs ask."""
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
