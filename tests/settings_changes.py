"""Every setting of every method, energy, sampler and encoder, with another value and what it changes."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from desp.nn.resnet import ResNet34
from desp.settings import (
    AttentionSettings,
    AutoregressiveTaggerSettings,
    BoxDenoiserSettings,
    ContrastiveSettings,
    ConvEncoderSettings,
    DeepSetsSettings,
    DenoiserSettings,
    DescentSettings,
    DetectorSettings,
    EDMSettings,
    EncoderSettings,
    EnergyDenoisingSettings,
    EngressionSettings,
    FSPoolSetEncoderSettings,
    InputKind,
    LabelLikelihoodSettings,
    LangevinSettings,
    MethodSettings,
    MLPEncoderSettings,
    PooledLayersSettings,
    PyramidEncoderSettings,
    ResNet34EncoderSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    SumPooledSetEncoderSettings,
    TaggerSettings,
    TSPNSettings,
)

Changes = dict[str, tuple[Any, str]]


@dataclass(frozen=True)
class Case:
    """Settings, and for each of them, named by its path, another value and what it changes.

    A value that is a file is a function that writes it into a folder.
    """

    settings: MethodSettings
    changes: Changes
    kind: InputKind = "vector"
    aligned: bool = False
    boxes: bool = False
    """Whether elements are boxes in images."""
    features: int = 2
    """Of an element that is no box."""


LANGEVIN = LangevinSettings(
    steps=4, stochastic_steps=2, noise_scale=0.1, max_step_norm=0.003, momentum=0.2, restarts=4, aggregate="mean"
)
CHAIN = replace(LANGEVIN, restarts=1)
OF_CHAINS: dict[str, Any] = {
    "steps": 5,
    "stochastic_steps": 3,
    "noise_scale": 0.2,
    "final_noise_scale": 0.03,
    "step_size": 0.01,
    "noise_first": False,
    "momentum": 0.6,
    "max_step_norm": 0.001,
}
OF_DIFFUSION: Changes = {
    "cardinality_weight": (0.5, "loss"),
    "p_mean": (-0.5, "loss"),
    "p_std": (1.0, "loss"),
    "noise_draws": (2, "loss"),
    "cardinality": ("denoised", "cardinality.logits"),
}
ATTENTION = AttentionSettings(hidden=8, layers=1, heads=2, fourier_frequencies=2)
OF_LAYERED: Changes = {
    "hidden": (12, "encoder.1"),
    "out": (6, "encoder.1 energy.element_mlp"),
    "standardise_codes": (True, "encoder.2"),
    "initialisation": ("xavier", "weights"),
}
OF_CONV: Changes = {
    "hidden": (12, "encoder.layers encoder.out"),
    "out": (6, "encoder.out energy.element_mlp"),
    "standardise_codes": (True, "encoder.0 encoder.1 encoder.layers encoder.out"),  # becomes a part of a sequence
    "initialisation": ("xavier", "weights"),
}
SET_ENCODER = SetEncoderEnergySettings(hidden=8, latent=6)
DESCENT = DescentSettings(steps=2)
PYRAMID = PyramidEncoderSettings(hidden=6, out=5)
TSPN = TSPNSettings(hidden=8, layers=1, heads=2, feedforward=12, latent=6, cardinality_hidden=10)


def written_weights(folder: Path) -> str:
    """A file with other weights of ResNet-34 than any that are drawn, for images of one channel."""
    path = folder / "resnet34.safetensors"
    save_file({name: torch.ones_like(value) for name, value in ResNet34(1).state_dict().items()}, path)
    return str(path)


def within(part: str, changes: Changes) -> Changes:
    """Paths in a part of the settings."""
    return {f"{part}.{name}": change for name, change in changes.items()}


def of_edm(flow: str) -> Changes:
    """Of the sampler; `flow`: what depends on the noise levels that are passed."""
    return {
        "sampler.steps": (4, "sets"),
        "sampler.order": (1, "sets"),
        "sampler.sigma_max": (10.0, flow),
        "sampler.sigma_min": (0.1, flow),
        "sampler.rho": (3.0, flow),
        "sampler.churn": (0.3, "sets"),
        "sampler.temperature": (0.5, "sets"),
        "sampler.cardinality": ("mode", "sets"),
    }


def of_attention(part: str, network: str, encoder: str = "") -> Changes:
    """Of an attention network and, of its width and frequencies, the encoder beside it."""
    return {
        f"{part}.hidden": (6, f"cardinality.logits {encoder}{network}"),
        f"{part}.layers": (2, network),
        f"{part}.heads": (4, network),
        f"{part}.fourier_frequencies": (3, f"{encoder}{network}"),
        f"{part}.local_heads": (False, network),
    }


def with_encoder(encoder: EncoderSettings, changes: Changes, kind: InputKind, aligned: bool = False) -> Case:
    """A method with a given encoder, in which only that changes."""
    energy = DeepSetsSettings(hidden=8, element_layers=1, set_layers=1)
    chain = LangevinSettings(steps=1, stochastic_steps=1)
    settings = ContrastiveSettings(encoder=encoder, energy=energy, training_sampler=chain, sampler=chain)
    return Case(settings, within("encoder", changes), kind, aligned)


CASES = {
    "contrastive": Case(
        ContrastiveSettings(
            energy=DeepSetsSettings(hidden=8), training_sampler=CHAIN, sampler=LANGEVIN, max_divergent_fraction=0.5
        ),
        {
            "data_noise": (0.1, "loss"),
            "start_noise": ((0.1, 0.5), "loss"),
            "infonce_temperature": (0.1, "loss"),
            "real_energy_weight": (0.5, "loss"),
            "mask_divergent": (True, "loss"),
            "max_divergent_fraction": (0.1, "divergence"),
            **{f"training_sampler.{name}": (value, "loss") for name, value in OF_CHAINS.items()},
            **{f"sampler.{name}": (value, "sets") for name, value in OF_CHAINS.items()},
            "sampler.restarts": (2, "sets"),
            "sampler.aggregate": ("lowest", "sets"),
            "energy.hidden": (6, "energy.element_mlp energy.lower energy.pool energy.set_mlp"),
            "energy.element_layers": (2, "energy.element_mlp"),
            "energy.set_layers": (2, "energy.set_mlp"),
            "energy.pooling": ("sum", "energy.pool"),
            "energy.divide_by_size": (False, "energies loss sets"),
        },
    ),
    "denoising": Case(
        EnergyDenoisingSettings(energy=PooledLayersSettings(hidden=8), sampler=EDMSettings(steps=3)),
        {
            **OF_DIFFUSION,
            "training_rows": (2, "loss"),
            "energy_sigma": (0.2, "energies"),
            **of_edm("density sets"),
            "sigma_data": (0.8, "density energies loss sets"),
            "energy.hidden": (6, "cardinality.logits energy.network"),
            "energy.layers": (1, "energy.network"),
            "energy.pooling": ("sum", "energy.network"),
        },
    ),
    "attention": Case(
        EnergyDenoisingSettings(energy=ATTENTION, sampler=EDMSettings(steps=2)),
        {
            **of_attention("energy", "energy.network", "encoder.1 "),
            "standardise_codes": (True, "encoder.1 encoder.2"),
        },
        "set",
    ),
    "denoiser": Case(
        DenoiserSettings(network=ATTENTION, sampler=EDMSettings(steps=3)),
        {
            **OF_DIFFUSION,
            **of_edm("sets"),
            "sigma_data": (0.8, "loss sets"),
            **of_attention("network", "field.network"),
        },
    ),
    "denoiser of input sets": Case(
        DenoiserSettings(network=ATTENTION, sampler=EDMSettings(steps=3)),
        {"standardise_codes": (True, "encoder.1 encoder.2")},
        "set",
    ),
    "set-risk": Case(
        SetRiskSettings(energy=SET_ENCODER, descent=DESCENT, sampler=DESCENT),
        {
            "distance": ("hungarian", "loss"),
            "supervise": ("all", "loss"),
            "cardinality": ("clamped", "weights"),  # the learned start is one of them
            "representation_weight": (0.5, "loss"),
            "descent.steps": (3, "loss"),
            "descent.step_size": (2.0, "loss"),
            "sampler.steps": (3, "sets"),
            "sampler.step_size": (2.0, "sets"),
            "energy.hidden": (6, "encoder.1 energy.set_encoder"),
            "energy.layers": (2, "energy.set_encoder"),
            "energy.latent": (5, "encoder.1 energy.set_encoder"),
            "energy.pooling": ("sum", "energy.set_encoder"),
            "energy.divide_by_size": (True, "energies loss sets"),
            "energy.negative_slope": (0.3, "energies loss sets"),
            "energy.initialisation": ("xavier", "weights"),
            "energy.pairs": (True, "energy.set_encoder"),
        },
    ),
    "set-risk with one descent": Case(
        SetRiskSettings(energy=SET_ENCODER, descent=DESCENT),
        {"descent.steps": (3, "loss sets"), "descent.step_size": (2.0, "loss sets")},
    ),
    "set-risk of sets": Case(
        SetRiskSettings(energy=SET_ENCODER, descent=DESCENT, cardinality="predicted", cardinality_hidden=10),
        {
            "cardinality_weight": (0.5, "loss"),
            "cardinality_hidden": (9, "cardinality.logits"),
            "energy.shared": (True, "encoder.0 encoder.1 encoder.deviation encoder.mean"),
        },
        "set",
    ),
    "tspn": Case(
        TSPN,
        {
            "hidden": (12, "decoder.blocks decoder.join decoder.norm decoder.out encoder.1"),
            "layers": (2, "decoder.blocks"),
            "heads": (4, "loss sets"),
            "feedforward": (16, "decoder.blocks"),
            "latent": (5, "cardinality.logits decoder.join encoder.1 encoder.2"),
            "cardinality_weight": (0.5, "loss"),
            "cardinality_hidden": (9, "cardinality.logits"),
        },
    ),
    "tagger": Case(
        TaggerSettings(hidden=8, layers=2),
        {
            "hidden": (6, "encoder.1 layers.0 layers.1"),
            "layers": (3, "layers.1 layers.2"),
            "labels": ((-0.2, 0.7), "loss sets"),
            "sampler.min_probability": (None, "sets"),
        },
        "set",
        aligned=True,
        features=1,
    ),
    "autoregressive-tagger": Case(
        AutoregressiveTaggerSettings(hidden=8, layers=2),
        {
            "hidden": (6, "encoder.1 layers.0 layers.1"),
            "layers": (3, "layers.1 layers.2"),
            "labels": ((-0.2, 0.7), "loss sets"),
        },
        "set",
        aligned=True,
        features=1,
    ),
    "label-likelihood": Case(
        LabelLikelihoodSettings(energy=DeepSetsSettings(hidden=8, element_layers=1, set_layers=1)),
        {"labels": ((-0.2, 0.7), "loss sets"), "sampler.min_probability": (1.0, "sets")},
        "set",
        aligned=True,
        features=1,
    ),
    "engression": Case(
        EngressionSettings(
            network=replace(ATTENTION, heads=0, local_heads=False), noise_features=3, training_samples=3
        ),
        {
            "noise_features": (4, "network.from_element"),
            "training_samples": (2, "loss"),
            "network.hidden": (6, "encoder.1 network.from_code network.from_element network.head network.layers"),
            "network.layers": (2, "network.layers"),
            "network.heads": (2, "network.from_element network.layers"),
            "network.fourier_frequencies": (3, "network.from_element"),
        },
        "set",
        aligned=True,
    ),
    "box-denoiser": Case(
        BoxDenoiserSettings(
            encoder=PYRAMID,
            sampler=EDMSettings(steps=3),
            hidden=8,
            layers=1,
            heads=2,
            fourier_frequencies=2,
            points=2,
        ),
        {
            **OF_DIFFUSION,
            **of_edm("sets"),
            "sigma_data": (0.8, "energies loss sets"),
            "hidden": (6, "cardinality.logits centres.geometry centres.heat field.network"),
            "layers": (2, "field.network"),
            "heads": (4, "loss"),
            "fourier_frequencies": (3, "field.network"),
            "points": (3, "field.network"),
            "centre_weight": (0.5, "loss"),
            "encoder.hidden": (4, "encoder.lateral encoder.stages encoder.stem"),
        },
        "image",
        boxes=True,
    ),
    "detector": Case(
        DetectorSettings(encoder=PYRAMID, hidden=8),
        {
            "hidden": (6, "head.geometry head.heat"),
            "encoder.out": (4, "encoder.lateral encoder.smooth head.geometry head.heat"),
        },
        "image",
        boxes=True,
    ),
    "mlp": with_encoder(
        MLPEncoderSettings(8, 5),
        {**OF_LAYERED, "layers": (2, "encoder.1"), "sigmoid": (True, "energies loss sets")},
        "vector",
    ),
    "conv": with_encoder(ConvEncoderSettings(8, 5), OF_CONV, "image"),
    "resnet34": with_encoder(
        ResNet34EncoderSettings(5),
        {
            "out": (6, "encoder.end energy.element_mlp"),
            "standardise_codes": (True, "encoder.0 encoder.1 encoder.end encoder.trunk"),
            "initialisation": ("xavier", "weights"),
            "weights": (written_weights, "weights"),
        },
        "image",
    ),
    "fspool-set": with_encoder(
        FSPoolSetEncoderSettings(8, 5), {**OF_LAYERED, "presence_as_feature": (True, "encoder.1")}, "set"
    ),
    "sum-pooled-set": with_encoder(
        SumPooledSetEncoderSettings(8, 5, fourier_frequencies=2),
        {**OF_LAYERED, "fourier_frequencies": (3, "encoder.1"), "with_maximum": (True, "encoder.1")},
        "set",
    ),
    "mlp of each element": with_encoder(MLPEncoderSettings(8, 5), OF_LAYERED, "set", True),
}
