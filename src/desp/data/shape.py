"""Shapes of inputs and sets, and the scaling of features: what a model must know of its data."""

from dataclasses import dataclass, field

from desp.scaling import FeatureScaling
from desp.settings import DataDescription, InputKind


@dataclass(frozen=True)
class DataShape:
    """Shapes of inputs and sets.

    Attributes:
        input_shape: of one input.
        features: D, of one element.
        max_size: N, the largest set.
        scaling: of element features; the identity if empty.
        input_kind: vector, image or set.
        description: what inputs and features are.
    """

    input_shape: tuple[int, ...]
    features: int
    max_size: int
    scaling: FeatureScaling = field(default=FeatureScaling((), ()))
    input_kind: InputKind = "vector"
    description: DataDescription = field(default=DataDescription())

    def __post_init__(self) -> None:
        if not self.scaling.offset:
            object.__setattr__(self, "scaling", FeatureScaling.identity(self.features))
        self.description.check_features(self.features)

    @property
    def aligned(self) -> bool:
        """Whether row i of a set belongs to row i of its input, which gives its presence."""
        return self.description.aligned

    def input_shape_for(self, given: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that an input of shape `given` must have; aligned inputs may have fewer rows than N."""
        fewer = self.aligned and given[0] <= self.input_shape[0]
        return (given[0], *self.input_shape[1:]) if fewer else self.input_shape
