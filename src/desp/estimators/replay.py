"""Chains that go on where the last one for the same input ended."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class Replay:
    """The latest sets that were sampled, found again by their inputs.

    All work stays on the device and has the same shape in every step, so that it can be part of a recorded one.

    Args:
        capacity: how many sets are kept; the oldest make room.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.tensors: dict[str, Tensor] = {}
        """What is remembered: sets, keys of their inputs, and the place of the next one."""

    def starts(
        self, x: Float[Tensor, "b *input"], like: Float[Tensor, "b n c"], share: float, generator: torch.Generator
    ) -> Float[Tensor, "b n c"]:
        """A set kept for the same input for about `share` of the inputs, zeros for the others.

        Among several kept for one input any may be taken. With more different inputs than the capacity, those of
        the last pass are gone when they come again.
        """
        self._make_room(like)
        same = self._keys(x).unsqueeze(1) == self.tensors["keys"]
        order = torch.rand(same.shape, generator=generator, device=like.device)
        chosen = torch.where(same, order, -1.0).argmax(dim=1)
        wanted = torch.rand(len(like), generator=generator, device=like.device) < share
        found: Bool[Tensor, " b"] = wanted & same.any(dim=1)
        return torch.where(found.view(-1, 1, 1), self.tensors["sets"][chosen], torch.zeros_like(like))

    def keep(self, x: Float[Tensor, "b *input"], sets: Float[Tensor, "b n c"]) -> None:
        """Remember the sets sampled for inputs."""
        self._make_room(sets)
        place = self.tensors["place"]
        index = (place + torch.arange(len(sets), device=sets.device)) % self.capacity
        self.tensors["sets"].index_copy_(0, index[-self.capacity :], sets[-self.capacity :].detach())
        self.tensors["keys"].index_copy_(0, index[-self.capacity :], self._keys(x)[-self.capacity :])
        place.add_(len(sets)).remainder_(self.capacity)

    def load(self, tensors: dict[str, Tensor], device: torch.device) -> None:
        """Remember what was saved."""
        self.tensors = {name: value.to(device, copy=True) for name, value in tensors.items()}

    def _make_room(self, like: Tensor) -> None:
        if self.tensors:
            return
        self.tensors = {
            "sets": like.new_zeros(self.capacity, *like.shape[1:]),
            # NaN is equal to nothing: no place is taken yet.
            "keys": torch.full((self.capacity,), torch.nan, dtype=torch.float64, device=like.device),
            "place": torch.zeros((), dtype=torch.int64, device=like.device),
        }

    @staticmethod
    def _keys(x: Tensor) -> Float[Tensor, " b"]:
        """One number for each input: a sum with weights that are as good as random, the same in every run."""
        rows = x.detach().reshape(len(x), -1).double()
        place = torch.arange(1, rows.shape[1] + 1, device=x.device, dtype=torch.float64)
        return (rows * ((12.9898 * place).sin() * 43758.5453).frac()).sum(dim=1)
