"""Every setting of a method and of its parts arrives where it belongs, and nowhere else.

One setting at a time is changed, with the same initial weights and the same noise. What differs then must be
exactly what the table says: names and shapes of weights (by part), initial weights, the loss of a batch with its
gradients, sampled sets, energies, densities, or when training has diverged.
"""

from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from desp.boxes import centres_to_corners
from desp.data.shape import DataShape
from desp.methods import Method, build_method
from desp.sets import SetRepresentation
from desp.settings import (
    DataDescription,
    EncoderSettings,
    EnergySettings,
    InputKind,
    MethodSettings,
    RepresentationSettings,
    SamplerSettings,
)
from desp.settings.base import Variant
from settings_changes import CASES

SIZE, FEATURES, BATCH = 4, 2, 3
BOXES = DataDescription(boxes=((0, 4),))
INPUTS: dict[InputKind, tuple[int, ...]] = {"vector": (3,), "set": (SIZE, FEATURES + 1), "image": (1, 65, 65)}


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few channels, as there are no settings for that."""
    monkeypatch.setattr("desp.nn.resnet.CHANNELS", (4, 4, 6, 8))


def build(settings: MethodSettings, kind: InputKind, aligned: bool, boxes: bool, features: int) -> Method:
    torch.manual_seed(0)
    described = BOXES if boxes else DataDescription(aligned=aligned)
    features = 4 if boxes else features
    shape = DataShape(INPUTS[kind], features, SIZE, input_kind=kind, description=described)
    return build_method(settings, shape, SetRepresentation(RepresentationSettings()), engine="eager")


def inputs(kind: InputKind, boxes: bool, features: int) -> tuple[Tensor, Tensor]:
    """A batch of inputs, and of padded sets of different cardinality: of points, or of boxes as corners."""
    generator = torch.Generator().manual_seed(1)
    presence = (torch.arange(SIZE) < torch.tensor([[2], [4], [3]])).float().unsqueeze(-1)
    elements = torch.rand(BATCH, SIZE, 4 if boxes else features, generator=generator)
    elements = centres_to_corners(elements / 2 + 0.25) if boxes else elements
    y = torch.cat([elements * presence, presence], dim=-1)
    x = torch.rand(BATCH, *INPUTS[kind], generator=generator)
    return torch.cat([x[..., :-1] * presence, presence], dim=-1) if kind == "set" else x, y


@cache
def observed(
    settings: MethodSettings, kind: InputKind, aligned: bool, boxes: bool, features: int
) -> dict[str, Any]:
    """All that a setting may change."""
    method, (x, y) = build(settings, kind, aligned, boxes, features), inputs(kind, boxes, features)
    method.train()
    weights = {name: value.detach().clone() for name, value in method.state_dict().items()}
    loss, statistics = method(x, y, torch.Generator().manual_seed(2))
    loss.backward()
    gradients = [item.grad for item in method.parameters() if item.grad is not None]
    method.eval()
    with torch.no_grad():
        code = method.encode(x)
    presence = (y[..., -1] > 0.5).repeat(3, 1) if aligned else None
    several = code.repeat(3, *(1 for _ in code.shape[1:]))
    found = {
        "weights": weights,
        "loss": [loss.detach(), *statistics.items(), *gradients],
        "sets": method.sample(several, torch.Generator().manual_seed(4), presence=presence)[0],
        "energies": method.energies(code, y),
        "divergence": method.divergence_reason({"divergent": 0.3}) is None,
    }
    if settings.has_density:
        density = method.log_prob(code, y, torch.Generator().manual_seed(3), steps=2, probes=2)
        found["density"] = [density.value, density.error]
    return found


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return a.shape == b.shape and torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(one, other) for one, other in zip(a, b, strict=True))
    return bool(a == b)


def differences(first: dict[str, Any], second: dict[str, Any]) -> str:
    """Parts with other weights, where shapes are others; else initial weights, where they are; else all else."""
    a, b = first["weights"], second["weights"]
    shapes = {name for name in {*a, *b} if name not in a or name not in b or a[name].shape != b[name].shape}
    if shapes:
        return " ".join(sorted({".".join(name.split(".")[:2]) for name in shapes}))
    if any(not torch.equal(a[name], b[name]) for name in a):
        return "weights"
    return " ".join(
        sorted(name for name in {*first, *second} - {"weights"} if not same(first[name], second[name]))
    )


def changed(settings: Any, path: str, value: Any) -> Any:
    name, _, rest = path.partition(".")
    return replace(settings, **{name: changed(getattr(settings, name), rest, value) if rest else value})


def leaves(settings: Any, prefix: str = "") -> dict[str, tuple[type, str]]:
    """All settings that are no settings class themselves: class and field, by path."""
    found: dict[str, tuple[type, str]] = {}
    for item in fields(settings):
        value = getattr(settings, item.name)
        if isinstance(value, Variant):
            found |= leaves(value, f"{prefix}{item.name}.")
        else:
            found[prefix + item.name] = (type(settings), item.name)
    return found


ROWS = [(name, path) for name, case in CASES.items() for path in case.changes]


@pytest.mark.parametrize(("name", "path"), ROWS)
def test_a_setting_changes_what_it_is_for(name: str, path: str, tmp_path: Path) -> None:
    case = CASES[name]
    value, expected = case.changes[path]
    value = value(tmp_path) if callable(value) else value
    of_data = case.kind, case.aligned, case.boxes, case.features
    usual = observed(case.settings, *of_data)
    other = observed(changed(case.settings, path, value), *of_data)
    assert differences(usual, other) == expected


def test_no_setting_is_left_out() -> None:
    """A new setting needs a row in the table: another value, and what it changes."""
    seen = {leaves(case.settings)[path] for case in CASES.values() for path in case.changes}
    wanted = set()
    for family in (MethodSettings, EnergySettings, EncoderSettings, SamplerSettings):
        for variant in family.kinds().values():
            if variant.__module__.startswith("desp."):
                parts = {"encoder", "energy", "network", "training_sampler", "sampler", "descent"}
                wanted |= {(variant, item.name) for item in fields(variant) if item.name not in parts}
    assert seen == wanted
