"""Small methods, which tests take energies and encoders from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from torch import nn

from desp.data.shape import DataShape
from desp.energies import SetEnergy
from desp.methods import Contrastive, build_method
from desp.sets import SetRepresentation
from desp.settings import ContrastiveSettings, EnergySettings, InputKind, RepresentationSettings


def with_energy(
    energy: EnergySettings,
    *,
    size: int = 5,
    features: int = 2,
    input_kind: InputKind = "vector",
    input_shape: tuple[int, ...] = (3,),
    encoder: nn.Module | None = None,
    padding: Literal["presence", "zero"] = "zero",
) -> Contrastive:
    """A method with this energy and the encoder that suits it: inputs are three numbers, elements have two."""
    shape = DataShape(input_shape, features, size, input_kind=input_kind)
    written = SetRepresentation(RepresentationSettings(padding, scaling="none"))
    method = build_method(ContrastiveSettings(energy=energy), shape, written, encoder, engine="eager")
    assert isinstance(method, Contrastive)
    return method


@dataclass(frozen=True)
class Given(EnergySettings):
    """Settings that stand for an energy made by hand."""

    supports_noise_conditioning: ClassVar[bool] = True
    supports_mask_divergent: ClassVar[bool] = True
    hidden: int = 4
    energy: SetEnergy = field(kw_only=True)

    def load(self) -> Callable[..., SetEnergy]:
        """A function that gives the energy, whatever it is asked for."""
        return lambda *_: self.energy
