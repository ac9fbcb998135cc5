"""Elements that attend to each other: an energy, or moves without one."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from desp.energies.base import Tables
from desp.energies.layered import LayeredEnergy
from desp.nn import SelfAttention, squares_apart, wave_features, with_waves
from desp.settings import AttentionSettings

# Sizes are told by their logarithm, which for sets of some fifty elements is then about 1.
LOG_OF_MANY = 4


class AttentionEnergy(LayeredEnergy):
    """Elements look at each other several times.

    A pooling tells every element the same; attention lets each look at its neighbours, which is what large sets
    with much local structure need. Its cost grows with the square of the set size.

    Args:
        channels: features of one row of a padded set.
        code_features: features of the code.
        settings: width, depth, heads, waves.
        input_encoder: h(x).
        knows_presence: the last feature tells which elements there are, 1 or -1, and does not move. Absent ones
            are not looked at then, so it does not matter how many of them there are.
    """

    def __init__(
        self,
        channels: int,
        code_features: int,
        settings: AttentionSettings,
        input_encoder: nn.Module,
        *,
        knows_presence: bool = False,
    ) -> None:
        hidden, outputs = settings.hidden, 1 if self.scores_sets else channels
        layers = (AttentionLayer(hidden, settings.heads) for _ in range(settings.layers))
        features = wave_features(channels, settings.waves)
        super().__init__(features, code_features, hidden, layers, input_encoder, outputs)
        self.waves, self.knows_presence = settings.waves, knows_presence

    @property
    def ignores_absent(self) -> bool:
        """Those that are known to be absent."""
        return self.knows_presence

    def described(self, y: Float[Tensor, "b n c"]) -> Float[Tensor, "b n f"]:
        """The features and waves of them; how many elements there are stands in the place of a known presence."""
        heard = self.heard(y)
        if heard is not None:
            size = heard.sum(dim=1).to(y.dtype).log1p() / LOG_OF_MANY
            y = torch.cat([y[..., :-1], size.view(-1, 1, 1).expand(*y.shape[:2], 1)], dim=-1)
        return with_waves(y, self.waves)

    def heard(self, y: Float[Tensor, "b n c"]) -> Bool[Tensor, "b n"] | None:
        """Present elements, where they are known."""
        return y[..., -1] > 0 if self.knows_presence else None

    def through_layers(
        self,
        values: Float[Tensor, "b n h"],
        told: Float[Tensor, "b m h"],
        y: Float[Tensor, "b n c"],
        tables: Tables,
    ) -> Float[Tensor, "b n h"]:
        """One look after the other."""
        del tables
        heard = self.heard(y)
        apart = squares_apart(y if heard is None else y[..., :-1])
        if heard is not None:  # in an empty set all are looked at, as a softmax over nothing is NaN
            heard = heard | ~heard.any(dim=1, keepdim=True)
        for layer in self.layers:
            values = layer(values, told, heard, apart)
        return values


class AttentionField(AttentionEnergy):
    """Attention that ends with how elements shall move, which need not be the gradient of anything.

    Denoising needs a gradient alone. Taken from an energy it costs a pass backwards, and in training a pass
    through that one; here it is what the layers end with.
    """

    scores_sets = False

    def score(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], tables: Tables | None = None
    ) -> Float[Tensor, " b"]:
        """NaN: there is no energy."""
        del code, tables
        return torch.full((len(y),), torch.nan, device=y.device, dtype=y.dtype)

    def value_and_gradient(
        self, y: Float[Tensor, "b n c"], prepared: Tables, *, fused: bool = False
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """NaN for each set, and what takes the place of the gradient."""
        del fused
        code, *tables = prepared
        return self.score(code, y), self.of_elements(code, y, tuple(tables))


class AttentionLayer(nn.Module):
    """Adds to every element what it sees in the others, then what follows from itself and the code."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.before_attention, self.before_step = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention = SelfAttention(hidden, heads, near=True)
        # What a place means depends on the code, so features are multiplied by it, not only added to.
        self.from_code = nn.Linear(hidden, 4 * hidden)
        nn.init.zeros_(self.from_code.weight)
        nn.init.zeros_(self.from_code.bias)
        self.step_in, self.step_out = nn.Linear(hidden, 2 * hidden), nn.Linear(2 * hidden, hidden)

    def forward(
        self,
        values: Float[Tensor, "b n h"],
        told: Float[Tensor, "b m h"],
        heard: Bool[Tensor, "b n"] | None,
        apart: Float[Tensor, "b n n"],
    ) -> Float[Tensor, "b n h"]:
        """The elements' new features; `told` is the code, for all (m = 1) or for each its own."""
        factor, offset, step_factor, step_offset = self.from_code(F.silu(told)).chunk(4, dim=-1)
        looking = torch.addcmul(offset, self.before_attention(values), 1 + factor)
        values = values + self.attention(looking, heard, apart)
        step = torch.addcmul(step_offset, self.before_step(values), 1 + step_factor)
        return values + self.step_out(F.silu(self.step_in(step)))
