"""An energy in which elements attend to each other."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from desp.energies.base import SetEnergy, Tables
from desp.nn import SelfAttention, wave_features, with_waves
from desp.settings import AttentionSettings


class AttentionEnergy(SetEnergy):
    """A sum over elements of what they are worth to the set, after they have looked at each other several times.

    A pooling tells every element the same; attention lets each look at its neighbours, which is what large sets
    with much local structure need. Its cost grows with the square of the set size. Activations are smooth, so that
    gradients can be differentiated.

    Args:
        channels: features of one row of a padded set.
        code_features: features of the code.
        settings: width, depth, heads, waves.
        input_encoder: h(x); codes of shape (B, H) are told to every element, (B, N, H) to their own.
    """

    def __init__(
        self, channels: int, code_features: int, settings: AttentionSettings, input_encoder: nn.Module
    ) -> None:
        super().__init__(input_encoder)
        hidden = settings.hidden
        self.from_code = nn.Sequential(nn.Linear(code_features, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.waves = settings.waves
        self.from_element = nn.Linear(wave_features(channels, self.waves), hidden)
        self.layers = nn.ModuleList(AttentionLayer(hidden, settings.heads) for _ in range(settings.layers))
        # No offset at the end: only gradients are trained, and processes wait for those of every weight.
        self.worth = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1, bias=False))

    def score(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], tables: Tables | None = None
    ) -> Float[Tensor, " b"]:
        """The energy of padded sets for encoded inputs."""
        del tables
        told = self.from_code(code)
        if told.dim() == 2:
            told = told.unsqueeze(1)
        values = self.from_element(with_waves(y, self.waves)) + told
        for layer in self.layers:
            values = layer(values, told)
        return self.worth(values).sum(dim=(1, 2))


class AttentionLayer(nn.Module):
    """Adds to every element what it sees in the others, then what follows from itself and the code."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.before_attention, self.before_step = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention = SelfAttention(hidden, heads)
        self.from_code = nn.Linear(hidden, 2 * hidden)
        self.step_in, self.step_out = nn.Linear(hidden, 2 * hidden), nn.Linear(2 * hidden, hidden)

    def forward(self, values: Float[Tensor, "b n h"], told: Float[Tensor, "b m h"]) -> Float[Tensor, "b n h"]:
        """The elements' new features; `told` is the code, for all (m = 1) or for each its own."""
        values = values + self.attention(self.before_attention(values))
        step = self.step_in(self.before_step(values)) + self.from_code(F.silu(told))
        return values + self.step_out(F.silu(step))
