"""Families of settings: what is registered, how it is found, and what packages outside may add."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import Tensor

from desp import plugins
from desp.data.shape import DataShape
from desp.energies import SetEnergy
from desp.errors import SettingsError
from desp.methods import build_method
from desp.sets import SetRepresentation
from desp.settings import (
    AttentionSettings,
    ContrastiveSettings,
    DeepSetsSettings,
    DescentSettings,
    DiffusionSettings,
    EDMSettings,
    EncoderSettings,
    EnergyDenoisingSettings,
    EnergySettings,
    InputKind,
    LangevinSettings,
    MethodSettings,
    PooledLayersSettings,
    RepresentationSettings,
    SamplerSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    TaskSettings,
    TSPNSettings,
    Variant,
    base,
    from_json,
    to_json,
)

FAMILIES: dict[type[Variant], set[str]] = {
    MethodSettings: {
        "contrastive",
        "energy-denoising",
        "denoiser",
        "box-denoiser",
        "set-risk",
        "tspn",
        "detector",
        "tagger",
        "autoregressive-tagger",
        "label-likelihood",
        "engression",
    },
    EnergySettings: {"deep-sets", "set-encoder", "pooled-layers", "attention"},
    SamplerSettings: {"langevin", "edm", "descent", "labels"},
    EncoderSettings: {"scaling", "mlp", "conv", "pyramid", "resnet34", "sum-pooled-set", "fspool-set"},
    TaskSettings: {"polygons", "digits", "files", "given", "mnist", "clevr", "celeba", "pedestrians"},
}
# They read an image at boxes, and take nothing else.
OF_IMAGES = {"box-denoiser", "detector"}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is forgotten afterwards, and so is which plugins are loaded."""
    monkeypatch.setattr(base, "_FAMILIES", {family: dict(known) for family, known in base._FAMILIES.items()})
    plugins.load_plugins.cache_clear()
    yield
    plugins.load_plugins.cache_clear()


@dataclass(frozen=True)
class OwnSettings(EnergySettings):
    """An energy of a package outside."""

    hidden: int = 4
    strength: float = 1.0


class OwnEnergy(SetEnergy):
    """The squared distance of all elements from the code."""

    def __init__(self, settings: OwnSettings, channels: int, code_shape: tuple[int, ...]) -> None:
        super().__init__()
        assert channels == code_shape[0]
        self.strength = torch.nn.Parameter(torch.tensor(settings.strength))

    def energy(self, code: Tensor, y: Tensor) -> Tensor:
        return self.strength * (y - code.unsqueeze(1)).square().sum(dim=(1, 2))


@pytest.mark.parametrize(("family", "kinds"), FAMILIES.items(), ids=lambda item: getattr(item, "__name__", ""))
def test_every_variant_is_found_by_its_kind(family: type[Variant], kinds: set[str]) -> None:
    known = family.kinds()
    assert set(known) == kinds
    for kind, variant in known.items():
        assert variant.kind == kind
        assert variant.family() is family
        assert not variant.target if family is SamplerSettings else callable(variant().load())


def test_a_class_between_finds_those_below_it() -> None:
    assert set(DiffusionSettings.kinds()) == {"energy-denoising", "denoiser", "box-denoiser"}
    assert LangevinSettings.kinds() == {"langevin": LangevinSettings}
    assert DiffusionSettings.family() is MethodSettings


@pytest.mark.usefixtures("registry")
def test_what_is_registered_is_read_written_and_built(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("own_package")
    package.OwnEnergy = OwnEnergy  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_package", package)
    assert EnergySettings.register("own", "own_package:OwnEnergy")(OwnSettings) is OwnSettings
    assert EnergySettings.kinds()["own"] is OwnSettings
    method = ContrastiveSettings(energy=OwnSettings(strength=2.0))
    assert to_json(method)["energy"] == {"kind": "own", "hidden": 4, "strength": 2.0}
    assert from_json(MethodSettings, to_json(method)) == method
    padding = SetRepresentation(RepresentationSettings("zero", scaling="none"))
    module = build_method(method, DataShape((2,), 2, 3), padding)
    x, y = torch.rand(4, 2), torch.rand(4, 3, 2)
    expected = 2 * (y - x.unsqueeze(1)).square().sum(dim=(1, 2))
    torch.testing.assert_close(module.energies(module.encode(x), y), expected)


@pytest.mark.usefixtures("registry")
def test_a_kind_that_is_taken_is_refused() -> None:
    message = r"OwnSettings cannot be the EnergySettings 'deep-sets': there is desp\..*DeepSetsSettings already"
    with pytest.raises(SettingsError, match=message):
        EnergySettings.register("deep-sets", "own_package:OwnEnergy")(OwnSettings)
    assert EnergySettings.kinds()["deep-sets"] is DeepSetsSettings
    assert DeepSetsSettings.target == "desp.energies.deep_sets:DeepSetsEnergy"
    assert OwnSettings not in EnergySettings.kinds().values()


@pytest.mark.usefixtures("registry")
def test_a_class_of_the_same_name_elsewhere_is_refused() -> None:
    """Else a package outside would replace a kind of the library unnoticed."""
    same_name = type("DeepSetsSettings", (EnergySettings,), {"__module__": "own_package"})
    with pytest.raises(SettingsError, match=r"own_package\.DeepSetsSettings cannot be .* there is desp\."):
        EnergySettings.register("deep-sets", "own_package:OwnEnergy")(same_name)
    assert EnergySettings.kinds()["deep-sets"] is DeepSetsSettings


@pytest.mark.usefixtures("registry")
def test_the_same_class_may_be_registered_again_and_families_do_not_share_kinds() -> None:
    again = EnergySettings.register("deep-sets", DeepSetsSettings.target)(DeepSetsSettings)  # a module read twice
    assert EnergySettings.kinds()["deep-sets"] is again
    EnergySettings.register("edm", "own_package:OwnEnergy")(OwnSettings)
    assert EnergySettings.kinds()["edm"] is OwnSettings
    assert SamplerSettings.kinds()["edm"] is EDMSettings


@pytest.mark.usefixtures("registry")
def test_installed_packages_register_when_kinds_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def load() -> None:
        loaded.append("own")
        EnergySettings.register("own", "own_package:OwnEnergy")(OwnSettings)

    def found(group: str) -> list[SimpleNamespace]:
        assert group == "desp.plugins"
        return [SimpleNamespace(name="own", load=load)]

    monkeypatch.setattr(plugins, "entry_points", found)
    values = {"kind": "contrastive", "energy": {"kind": "own"}}
    assert from_json(MethodSettings, values) == ContrastiveSettings(energy=OwnSettings())
    EnergySettings.kinds()
    assert loaded == ["own"]
    plugins.load_plugins()
    assert loaded == ["own"]


# -- what methods say of themselves ----------------------------------------------------------------------


def test_parts_are_exchanged_where_there_are_any() -> None:
    energy, chain, descent = AttentionSettings(hidden=8), LangevinSettings(steps=100), DescentSettings(steps=3)
    assert EnergyDenoisingSettings().with_part("energy", energy) == EnergyDenoisingSettings(energy=energy)
    assert ContrastiveSettings().with_part("sampler", chain).prediction_sampler == chain
    assert SetRiskSettings().prediction_sampler == DescentSettings()
    assert SetRiskSettings(descent=descent).prediction_sampler == descent
    other = SetRiskSettings().with_part("sampler", descent)
    assert (other.prediction_sampler, other.descent) == (descent, DescentSettings())
    with pytest.raises(SettingsError, match=r"^method.energy must be left out: the method tspn has none"):
        TSPNSettings().with_part("energy", energy)
    with pytest.raises(SettingsError, match=r"^method.sampler must be left out: the method tspn has none"):
        TSPNSettings().with_part("sampler", chain)
    with pytest.raises(SettingsError, match=r"^energy must be pooled-layers, attention or deep-sets"):
        EnergyDenoisingSettings().with_part("energy", EnergySettings.kinds()["set-encoder"]())


@pytest.mark.parametrize(
    ("method", "density"),
    [
        (EnergyDenoisingSettings(energy=AttentionSettings()), True),
        (EnergyDenoisingSettings(energy=AttentionSettings(), cardinality="denoised"), False),
        (EnergyDenoisingSettings(energy=PooledLayersSettings(pooling="mean")), True),
        (EnergyDenoisingSettings(energy=PooledLayersSettings(pooling="sum")), True),
        (EnergyDenoisingSettings(energy=PooledLayersSettings(pooling="softmax")), True),
        (EnergyDenoisingSettings(energy=PooledLayersSettings(pooling="fspool")), False),
        (EnergyDenoisingSettings(energy=DeepSetsSettings()), False),
        (ContrastiveSettings(), False),
        (TSPNSettings(), False),
    ],
)
def test_densities_need_a_smooth_energy_and_a_predicted_cardinality(method: MethodSettings, density: bool) -> None:
    assert method.has_density is density


@pytest.mark.parametrize("input_kind", ["vector", "set", "image"])
@pytest.mark.parametrize("method", sorted(FAMILIES[MethodSettings]))
def test_the_automatic_encoder_takes_the_inputs(method: str, input_kind: InputKind) -> None:
    settings = MethodSettings.kinds()[method]()
    only = "image" if method in OF_IMAGES else "set" if method.endswith("tagger") else None
    if only not in (None, input_kind):
        message = f"^inputs must be {only}s for the method {method}, got '{input_kind}'"
        with pytest.raises(SettingsError, match=message):
            settings.default_encoder(input_kind)
        return
    assert input_kind in settings.default_encoder(input_kind).input_kinds


@pytest.mark.parametrize(
    ("encoder", "input_kind"),
    [("mlp", "image"), ("conv", "set"), ("fspool-set", "vector"), ("resnet34", "set"), ("pyramid", "vector")],
)
def test_an_encoder_for_other_inputs_is_refused(encoder: str, input_kind: InputKind) -> None:
    settings = ContrastiveSettings(encoder=EncoderSettings.kinds()[encoder]())
    input_shape = {"vector": (3,), "set": (4, 3), "image": (3, 8, 8)}[input_kind]
    shape = DataShape(input_shape, 2, 3, input_kind=input_kind)
    with pytest.raises(SettingsError, match=f"^encoder must be one for inputs of kind '{input_kind}', got"):
        build_method(settings, shape, SetRepresentation(RepresentationSettings("zero", scaling="none")))


@pytest.mark.usefixtures("registry")
def test_a_class_that_is_defined_again_takes_the_place_of_its_former_self() -> None:
    """As in a notebook, whose cell is run twice."""

    def defined() -> type[EnergySettings]:
        @EnergySettings.register("again", "own_package:OwnEnergy")
        @dataclass(frozen=True)
        class AgainSettings(EnergySettings):
            pass

        return AgainSettings

    first, second = defined(), defined()
    assert first is not second
    assert EnergySettings.kinds()["again"] is second


def test_only_what_no_family_knows_may_be_of_a_package_that_is_missing() -> None:
    with pytest.raises(SettingsError, match=r"sampler.kind must be one of \['edm'\], got 'langevin'\.$"):
        from_json(EnergyDenoisingSettings, {"sampler": {"kind": "langevin"}})
    with pytest.raises(SettingsError, match=r"got 'unheard'\. Is the package installed"):
        from_json(EnergyDenoisingSettings, {"sampler": {"kind": "unheard"}})


@pytest.mark.usefixtures("registry")
def test_packages_outside_find_the_recipes_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    outside = SimpleNamespace(name="own", load=lambda: loaded.append("own"))
    monkeypatch.setattr(plugins, "import_module", loaded.append)
    monkeypatch.setattr(plugins, "entry_points", lambda **_: [outside])
    plugins.load_plugins()
    assert loaded == ["desp.paper", "own"]


@pytest.mark.parametrize("kind", ["vector", "set", "image"])
def test_both_encoders_of_a_set_encoder_energy_begin_alike(kind: InputKind) -> None:
    energy = SetEncoderEnergySettings(hidden=8, latent=6, initialisation="xavier")
    encoder = energy.default_encoder(kind)
    assert (encoder.hidden, encoder.out, encoder.initialisation) == (8, 6, "xavier")
