"""Descent that can be differentiated: the predictor of direct risk minimisation."""

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from desp.energies import SetEnergy
from desp.samplers.base import ChainInfo, Record, Step, record_chain, value_and_grad_of
from desp.sets import present_feature_mask
from desp.settings import DescentSettings
from desp.settings.methods import SetRiskCardinality

PRESENCE_START = 0.5


class UnrolledDescent(nn.Module):
    """Gradient steps on an energy from a learned start, through which gradients flow to the weights.

    The start is drawn from U[0, 1], then learned, so all predictions for one input are the same. With E_SE this is
    the inner loop of DSPN (Zhang et al. 2019).

    Args:
        rows: N, or 1 where all rows start alike.
        channels: C.
        cardinality: ``descended``: presence, where it is the last feature, is descended like all others.
            ``clamped``: its start is .5, learned too, and it is clamped to [0, 1]. ``predicted``: it is given, no
            part of the start, and only present rows move; others are zero vectors, as in data.
    """

    def __init__(self, rows: int, channels: int, cardinality: SetRiskCardinality = "descended") -> None:
        super().__init__()
        self.start = nn.Parameter(torch.rand(rows, channels - 1 if cardinality == "predicted" else channels))
        if cardinality == "clamped":
            with torch.no_grad():
                self.start[:, -1] = PRESENCE_START
        self.cardinality = cardinality

    def forward(
        self,
        energy: SetEnergy,
        code: Float[Tensor, "b *code"],
        settings: DescentSettings,
        record: Record = "nothing",
        presence: Bool[Tensor, "b n"] | None = None,
    ) -> tuple[Float[Tensor, "b n c"], ChainInfo]:
        """Descend for each input; second-order gradients are kept only where autograd is on.

        Args:
            energy: what to descend.
            code: of the inputs.
            settings: steps and their size.
            record: how much of the descent to keep.
            presence: which rows there are, where that is predicted first or given by the input.
        """
        start = self._first(len(code), presence)
        return record_chain(self._steps(start, energy, code, settings, presence), start, record)

    def all_sets(
        self,
        energy: SetEnergy,
        code: Float[Tensor, "b *code"],
        settings: DescentSettings,
        presence: Bool[Tensor, "b n"] | None = None,
    ) -> list[Float[Tensor, "b n c"]]:
        """The start and what every step leads to, T + 1 in all, with their gradients."""
        start = self._first(len(code), presence)
        return [start, *(y for y, _, _ in self._steps(start, energy, code, settings, presence))]

    def _steps(
        self, y: Tensor, energy: SetEnergy, code: Tensor, settings: DescentSettings, presence: Tensor | None
    ) -> Iterator[Step]:
        moving = None if presence is None else present_feature_mask(y)
        value_and_grad = value_and_grad_of(energy, code, y.shape[1])
        for _ in range(settings.steps):
            values, gradients = value_and_grad(y)
            gradients = gradients if moving is None else gradients * moving
            y = self._within(y - settings.step_size * gradients)
            yield y, values, gradients

    def _first(self, batch: int, presence: Tensor | None) -> Tensor:
        if presence is None:
            return self._within(self.start.expand(batch, -1, -1))
        there = presence.unsqueeze(-1).to(self.start.dtype)
        return torch.cat([self.start.expand(batch, presence.shape[1], -1) * there, there], dim=-1)

    def _within(self, y: Tensor) -> Tensor:
        if self.cardinality != "clamped":
            return y
        return torch.cat([y[..., :-1], y[..., -1:].clamp(0, 1)], dim=-1)
