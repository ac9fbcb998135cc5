"""An exponential moving average of weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """Exponential moving average (EMA) of a module's parameters and buffers.

    Running statistics of batch norm belong to the weights they were measured with, so they are averaged alike;
    whole numbers, such as the count of batches, are taken over. The decay is smaller in early steps,
    min(decay, (1 + t) / (10 + t)), so that the random start is forgotten quickly also in short runs. torch's own
    AveragedModel would copy the whole module and has no such warm-up.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._buffers = dict(module.named_buffers())
        self._live = dict(module.named_parameters()) | self._buffers
        self.decay = decay
        self.tensors = {name: value.detach().clone() for name, value in self._live.items()}

    def weight(self, step: int) -> float:
        """1 - decay: how much the weights after `step` optimiser steps count."""
        return 1 - min(self.decay, (1 + step) / (10 + step))

    @torch.no_grad()
    def update(self, weight: float | Tensor) -> None:
        """Take in the weights as they are, with a weight that a tensor may hold for captured steps to read."""
        pairs = [(self.tensors[name], live) for name, live in self._live.items()]
        for average, number in pairs:
            if not average.is_floating_point():
                average.copy_(number)
        averages, live = zip(*(pair for pair in pairs if pair[0].is_floating_point()), strict=True)
        if isinstance(weight, float):
            torch._foreach_lerp_(averages, live, weight)
            return
        for average, value in zip(averages, live, strict=True):
            average.lerp_(value, weight.to(average.dtype))

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Continue from saved averages; buffers, which older checkpoints lack here, begin as they are."""
        for name, value in self.tensors.items():
            value.copy_(tensors[name] if name in tensors or name not in self._buffers else self._buffers[name])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the averages into the module, in place, and take them out again at the end."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, live in self._live.items():
            kept = live.clone()
            live.copy_(self.tensors[name])
            self.tensors[name].copy_(kept)
