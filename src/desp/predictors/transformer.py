"""The trained modules of a transformer set predictor, and how they make sets."""

import torch
from torch import Tensor, nn

from desp.energies import code_shape
from desp.errors import SettingsError
from desp.estimators import DirectEstimator, Estimator
from desp.nn import SizeHead, TransformerDecoder, first_rows
from desp.predictors.network import SetDrawer, SetNetwork, evaluating, rounded
from desp.predictors.shape import DataShape
from desp.samplers import ChainInfo, Record
from desp.sets import Padding
from desp.settings import DirectSettings, Engine, EstimatorSettings, SamplerSettings, TransformerSettings


class TransformerNetwork(SetNetwork):
    """TSPN (Kosiorek et al. 2020): a size, random points, a transformer. It has no energy."""

    scores_sets = False

    def __init__(self, input_encoder: nn.Module, decoder: TransformerDecoder, sizes: SizeHead) -> None:
        super().__init__()
        self.input_encoder, self.decoder = input_encoder, decoder
        self.sizes: SizeHead = sizes

    def make_estimator(self, settings: EstimatorSettings, engine: Engine, steps: int) -> Estimator:
        """Direct risk; there are no chains for an engine to run."""
        del engine, steps
        if not isinstance(settings, DirectSettings):
            raise SettingsError(f"The transformer is trained by the estimator 'direct', not '{settings.kind}'.")
        return DirectEstimator(self.input_encoder, self.decoder, self.sizes, settings)

    def make_drawer(self, row_shape: tuple[int, int], padding: Padding, engine: Engine) -> "TransformerDrawer":
        """From points."""
        del padding, engine
        return TransformerDrawer(self, row_shape)

    def scores(self, x: Tensor, sets: Tensor) -> Tensor:
        """NaN: nothing here says which of two sets is more plausible."""
        del x
        return torch.full((len(sets),), torch.nan, dtype=sets.dtype, device=sets.device)


class TransformerDrawer(SetDrawer):
    """Makes the most probable number of elements from random points.

    Args:
        network: what makes them.
        row_shape: (N, C) of a padded set, presence included.
    """

    def __init__(self, network: TransformerNetwork, row_shape: tuple[int, int]) -> None:
        super().__init__()
        self.network, self.row_shape = network, row_shape

    def draw_part(
        self,
        x: Tensor,
        generator: torch.Generator,
        settings: SamplerSettings,
        record: Record,
        code_type: torch.dtype | None = None,
    ) -> tuple[Tensor, ChainInfo]:
        """One set for each input, in a single pass: there is no sampler to set and no way to record."""
        del settings, record
        network, (size, channels) = self.network, self.row_shape
        with evaluating(network):
            code = rounded(network.input_encoder(x), code_type)
            presence = first_rows(network.sizes.most_probable(code), size)
            noise = torch.randn(
                (len(x), size, channels - 1), generator=generator, device=code.device, dtype=code.dtype
            )
            elements = network.decoder(code, noise, presence)
        return torch.cat([elements, presence.unsqueeze(-1).to(elements.dtype)], dim=-1), ChainInfo()


def make_transformer_network(
    settings: TransformerSettings, estimator: DirectSettings, shape: DataShape, encoder: nn.Module
) -> TransformerNetwork:
    """Decoder and sizes for the codes of `encoder`.

    Raises:
        SettingsError: the encoder does not give one vector for an input.
    """
    code = code_shape(encoder, shape.input_shape)
    if len(code) != 1:
        raise SettingsError(
            f"The transformer needs codes (B, H), but the input encoder gives shape {code} for one."
        )
    decoder = TransformerDecoder(code[0], shape.features, settings)
    return TransformerNetwork(encoder, decoder, SizeHead(code[0], shape.max_size, estimator.size_hidden, layers=2))
