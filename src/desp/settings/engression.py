"""Settings of engression: a network from noise to sets, trained by the energy score of its samples."""

from dataclasses import dataclass, field
from typing import ClassVar

from desp.settings.base import require_positive, require_setting
from desp.settings.energies import AttentionSettings
from desp.settings.methods import MethodSettings


def _independent_elements() -> AttentionSettings:
    return AttentionSettings(hidden=128, heads=0, fourier_frequencies=0)


@MethodSettings.register("engression", "desp.methods.engression:Engression")
@dataclass(frozen=True)
class EngressionSettings(MethodSettings):
    """Engression (Shen & Meinshausen 2024): a network maps the input and noise to a set, and is trained by the
    energy score of its samples. One pass of the network for each prediction, and no energy. Only where outputs are
    aligned with inputs."""

    summary: ClassVar[str] = "a network from noise to aligned sets, trained by their energy score"
    can_align: ClassVar[bool] = True
    network: AttentionSettings = field(default_factory=_independent_elements)
    """The layers from noise to elements. By default without attention heads: elements are independent given the
    input."""
    noise_features: int = 16
    """Normal numbers for each element that the network turns into the element's features."""
    training_samples: int = 6
    """Samples for each input in a training step, at least 2: the energy score needs distances between them."""

    def __post_init__(self) -> None:
        require_positive(self, "noise_features")
        require_setting(self.training_samples >= 2, "training_samples", "at least 2", self.training_samples)
        local = self.network.heads >= 2 and self.network.local_heads
        wanted = "False for the method engression, whose network sees noise: elements have no places yet"
        require_setting(not local, "network.local_heads", wanted, self.network.local_heads)

    @property
    def learns_dependence(self) -> bool:
        """Elements are scored one by one."""
        return False

    @property
    def backbone(self) -> AttentionSettings:
        """The network."""
        return self.network
