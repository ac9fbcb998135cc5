"""How chains are run: the engines agree, and say when they cannot."""

import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor

from desp.energies import SetEnergy
from desp.errors import SettingsError
from desp.samplers import ChainEngine, ChainInfo, LangevinSampler
from desp.samplers.base import value_and_grad_of
from desp.settings import (
    AttentionSettings,
    DeepSetsSettings,
    EnergySettings,
    Engine,
    LangevinSettings,
    PooledLayersSettings,
    SetEncoderEnergySettings,
)
from small_methods import with_energy

CASES: dict[str, EnergySettings] = {
    "deep-sets": DeepSetsSettings(hidden=16),
    "set-encoder": SetEncoderEnergySettings(hidden=16, latent=8),
}
every_energy = pytest.mark.parametrize("settings", CASES.values(), ids=CASES.keys())
needs_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
CHAIN = LangevinSettings(steps=10, stochastic_steps=7, noise_scale=0.05)
SAMPLER = LangevinSampler(CHAIN)


def build(settings: EnergySettings, batch: int = 4, device: str = "cpu") -> tuple[SetEnergy, Tensor, Tensor]:
    """An energy, codes of a batch of inputs, and the start at zero; in double precision, so that no rank flips."""
    method = with_energy(settings, size=6).double().to(device)
    x = torch.randn(batch, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(device)
    return method.energy, method.encode(x).detach(), torch.zeros(batch, 6, 2, device=device, dtype=torch.float64)


def seeded(seed: int = 0, device: str = "cpu") -> torch.Generator:
    return torch.Generator(device=device).manual_seed(seed)


@every_energy
def test_eager_is_the_sampler_itself(settings: EnergySettings) -> None:
    energy, code, start = build(settings)
    y, info = ChainEngine(energy).run(SAMPLER, code, start, seeded(), "sets")
    gradient = partial(value_and_grad_of, energy, size=6)
    expected, expected_info = LangevinSampler(CHAIN).sample(gradient, code, start, seeded(), "sets")
    assert torch.equal(y, expected)
    assert torch.equal(info.trajectory, expected_info.trajectory)
    assert torch.equal(info.energies, expected_info.energies)


@every_energy
def test_an_eager_gradient_is_that_of_the_energy(settings: EnergySettings) -> None:
    energy, code, _ = build(settings)
    y = torch.rand(4, 6, 2, dtype=torch.float64)
    with torch.no_grad():
        values, slope = value_and_grad_of(energy, code, 6)(y)
    leaf = y.clone().requires_grad_()
    expected = energy.energy(code, leaf)
    torch.testing.assert_close(values, expected.detach())
    torch.testing.assert_close(slope, torch.autograd.grad(expected.sum(), leaf)[0])


def test_chains_leave_no_gradients_behind() -> None:
    energy, code, start = build(CASES["deep-sets"])
    y, _ = ChainEngine(energy).run(SAMPLER, code.requires_grad_(), start, seeded())
    assert not y.requires_grad
    assert code.grad is None
    assert all(weight.grad is None for weight in energy.parameters())


def test_chains_follow_the_weights() -> None:
    energy, code, start = build(CASES["deep-sets"])
    engine = ChainEngine(energy)
    before, _ = engine.run(SAMPLER, code, start, seeded())
    with torch.no_grad():
        energy.lower.mul_(2)
    after, _ = engine.run(SAMPLER, code, start, seeded())
    assert not torch.allclose(before, after)


CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("requested", "device", "gradients", "expected"),
    [
        ("auto", CPU, 0, "eager"),
        ("auto", CPU, 10**5 - 1, "eager"),
        ("auto", CPU, 10**5, "compiled"),
        ("eager", CPU, 10**6, "eager"),
        ("compiled", CPU, 0, "compiled"),
        ("auto", CUDA, 0, "graph"),
        ("eager", CUDA, 10**6, "eager"),
        ("compiled", CUDA, 0, "compiled"),
    ],
)
def test_which_engine(requested: Engine, device: torch.device, gradients: int, expected: str) -> None:
    energy, _, _ = build(CASES["deep-sets"])
    assert ChainEngine(energy, requested, expected_gradients=gradients).name(device) == expected


@pytest.mark.parametrize(
    ("requested", "resumed", "why"),
    [
        ("auto", None, "too few gradients or chains for compiling to pay"),
        ("auto", "eager", "as before the run was resumed"),
        ("eager", None, "as asked for"),
        ("eager", "eager", "as asked for"),
    ],
)
def test_one_line_says_which_engine_runs_and_why(
    requested: Engine, resumed: Literal["eager"] | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    energy, code, start = build(CASES["deep-sets"])
    caplog.set_level("INFO", logger="desp")
    engine = ChainEngine(energy, requested)
    engine.resumed_engine = resumed
    for _ in range(3):
        engine.run(SAMPLER, code, start, seeded())
    assert [record.getMessage() for record in caplog.records] == [f"chains run with engine eager: {why}"]
    assert engine.used == "eager"


@every_energy
def test_parts_of_a_batch_give_what_the_whole_does(settings: EnergySettings) -> None:
    energy, code, _ = build(settings, batch=7)
    y = torch.rand(7, 6, 2, dtype=torch.float64)
    with torch.no_grad():
        whole = value_and_grad_of(energy, code, 6)(y)
        parts = value_and_grad_of(energy, code, 6, rows=13)(y)
    torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-14)


def test_graphs_need_cuda() -> None:
    energy, code, start = build(CASES["deep-sets"])
    with pytest.raises(SettingsError, match="needs a CUDA device"):
        ChainEngine(energy, "graph").run(SAMPLER, code, start, seeded())


# Every shape and precision is compiled for itself, and every layer is some more C++, which takes seconds: each
# energy, each precision, and a second shape come once, with few layers.
COMPILED = """
import torch
from desp.data.shape import DataShape
from desp.methods import build_method
from desp.samplers import ChainEngine, LangevinSampler
from desp.samplers.base import value_and_grad_of
from desp.sets import SetRepresentation
from desp.settings import RepresentationSettings
from desp.settings import ContrastiveSettings, DeepSetsSettings, LangevinSettings, SetEncoderEnergySettings

sampler = LangevinSampler(LangevinSettings(steps=5, stochastic_steps=5, noise_scale=0.1))

def made(settings):
    shape, padding = DataShape((3,), 2, 5), SetRepresentation(RepresentationSettings("zero", scaling="none"))
    method = build_method(ContrastiveSettings(energy=settings), shape, padding).double()
    return method, ChainEngine(method.energy, "auto", expected_gradients=10**9)

def compare_chains(method, compiled, batch, size):
    code = method.encode(torch.randn(batch, 3, dtype=torch.float64)).detach()
    start = torch.zeros(batch, size, 2, dtype=torch.float64)
    found, expected = (
        engine.run(sampler, code, start, torch.Generator().manual_seed(0))[0]
        for engine in (compiled, ChainEngine(method.energy, "eager"))
    )
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert compiled.used == "compiled", compiled.used

"""
# Traced as for a compiler, but run by torch's own kernels: C++ takes seconds to compile.
TRACED = """
from functools import partial
import torch
torch.compile = partial(torch.compile, backend="aot_eager")
"""
BY_COMPARING = (
    COMPILED
    + """
compare_chains(*made(DeepSetsSettings(hidden=8, element_layers=1, set_layers=1)), 4, 5)  # ranks by all pairs
"""
)
MORE = (
    COMPILED
    + """
method, compiled = made(DeepSetsSettings(hidden=8, element_layers=2, set_layers=1))
single = method.float().energy
code, y = method.encode(torch.randn(2, 3)).detach(), torch.rand(2, 20, 2)  # by sorting
with torch.no_grad():
    found, expected = compiled.compiled_gradient(code, 20)(y), value_and_grad_of(single, code, 20)(y)
torch.testing.assert_close(found, expected)
compare_chains(*made(SetEncoderEnergySettings(hidden=8, latent=4, layers=2)), 2, 20)
"""
)


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch compiles for CPUs with g++")


@pytest.mark.parametrize(
    "script",
    [
        TRACED + BY_COMPARING,
        *(pytest.param(script, marks=[pytest.mark.long, needs_compiler]) for script in (BY_COMPARING, MORE)),
    ],
    ids=["traced", "compiled", "more"],
)
def test_a_compiled_chain_is_the_eager_one(script: str) -> None:
    # In a process of its own: functions with live shape checks cannot be traced. That process compiles, too, as a
    # pool of compilers takes longer to start than there is to do; and it believes what the processor says it can
    # do, which is else found out by compiling.
    quick = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_VEC_ISA_OK": "1"}
    environment = {**os.environ, **quick}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=Path.cwd())
    assert done.returncode == 0, done.stderr


def test_a_compiled_chain_takes_the_compiled_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for all of its shapes, and where it is asked for alone."""
    made: list[dict[str, object]] = []
    calls: list[str] = []

    def compiled(function: Callable[..., object], **options: object) -> Callable[..., object]:
        made.append(options)
        return lambda *given, **named: (calls.append("compiled"), function(*given, **named))[1]

    monkeypatch.setattr(torch, "compile", compiled)
    energy, code, start = build(CASES["deep-sets"])
    engine = ChainEngine(energy, "compiled")
    found, _ = engine.run(SAMPLER, code, start, seeded())
    assert len(calls) >= CHAIN.steps
    engine.run(SAMPLER, code[:2], start[:2], seeded())
    assert made == [{"fullgraph": True, "dynamic": False}]
    calls.clear()
    expected, _ = ChainEngine(energy, "eager").run(SAMPLER, code, start, seeded())
    assert calls == []
    assert torch.equal(found, expected)


@pytest.fixture
def medium_precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


@every_energy
@pytest.mark.usefixtures("medium_precision")
def test_layers_in_bfloat16_are_near_and_not_the_same(settings: EnergySettings) -> None:
    method = with_energy(settings, size=6)
    energy, code, y = method.energy, method.encode(torch.randn(9, 3)).detach(), torch.rand(9, 6, 2)
    with torch.no_grad():
        values, slope = value_and_grad_of(energy, code, 6)(y)
        torch.set_float32_matmul_precision("highest")
        exact_values, exact_slope = value_and_grad_of(energy, code, 6)(y)
    assert values.dtype == slope.dtype == torch.float32
    assert not torch.equal(slope, exact_slope)
    torch.testing.assert_close(values, exact_values, rtol=0.1, atol=0.02)
    assert (slope - exact_slope).norm() < 0.3 * exact_slope.norm()


@pytest.mark.parametrize("settings", [PooledLayersSettings(hidden=8), AttentionSettings(hidden=8)])
@pytest.mark.usefixtures("medium_precision")
def test_chains_through_layers_in_bfloat16_keep_their_precision(settings: EnergySettings) -> None:
    """Also where the last operation of an energy is one of these layers."""
    method = with_energy(settings, size=6)
    code, start = method.encode(torch.randn(9, 3)).detach(), torch.rand(9, 6, 2)
    sets, info = ChainEngine(method.energy).run(SAMPLER, code, start, seeded(), "energies")
    assert sets.dtype == info.energies.dtype == info.gradient_norms.dtype == torch.float32


@every_energy
def test_large_sets(settings: EnergySettings) -> None:
    energy, code, _ = build(settings, batch=2)
    start, sampler = torch.zeros(2, 10_000, 2, dtype=torch.float64), LangevinSampler(LangevinSettings(2, 2, 0.01))

    def by_autograd(y: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = y.detach().requires_grad_()
            values = energy.energy(code, leaf)
            return values.detach(), torch.autograd.grad(values.sum(), leaf)[0]

    y, _ = ChainEngine(energy).run(sampler, code, start, seeded())
    expected, _ = sampler.sample(lambda _: by_autograd, code, start, seeded())
    torch.testing.assert_close(y, expected, rtol=1e-9, atol=1e-11)


def test_a_chain_keeps_none_of_its_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    energy, code, start = build(CASES["deep-sets"])
    seen: list[weakref.ref[Tensor]] = []
    plain = type(energy).value_and_gradient

    def watched(
        self: SetEnergy, y: Tensor, prepared: tuple[Tensor, ...], **options: bool
    ) -> tuple[Tensor, Tensor]:
        assert sum(item() is not None for item in seen) <= 2  # whatever the number of steps
        seen.append(weakref.ref(y))
        return plain(self, y, prepared, **options)

    monkeypatch.setattr(type(energy), "value_and_gradient", watched)
    ChainEngine(energy).run(LangevinSampler(LangevinSettings(30, 20, 0.01)), code, start, seeded())
    assert len(seen) == 30


def failing_capture(*_: object) -> None:
    raise RuntimeError("no compiler\nand more")


@pytest.mark.parametrize("name", ["graph", "compiled"])
def test_what_fails_falls_back_and_says_so(
    name: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    energy, code, start = build(CASES["deep-sets"])
    expected, way = ChainEngine(energy, "eager").run(SAMPLER, code, start, seeded(), "sets")
    engine = ChainEngine(energy)
    monkeypatch.setattr(ChainEngine, "name", lambda self, *_: "eager" if self.requested == "eager" else name)
    monkeypatch.setattr("desp.samplers.engine._ChainGraph", failing_capture)
    monkeypatch.setattr(ChainEngine, "_compile", failing_capture)
    caplog.set_level("INFO", logger="desp")
    found, info = engine.run(SAMPLER, code, start, seeded(), "sets")
    assert torch.equal(found, expected)
    assert info.trajectory is not None
    assert torch.equal(info.trajectory, way.trajectory)
    assert [record.getMessage() for record in caplog.records][-2:] == [
        f"chains run step by step, as engine {name} failed: no compiler",
        "chains run with engine eager: as another engine failed",
    ]
    with pytest.raises(RuntimeError, match="no compiler"):
        ChainEngine(energy, name).run(SAMPLER, code, start, seeded())


@pytest.mark.parametrize("settings", CASES.values(), ids=CASES.keys())
class TestOnGpu:
    """The graph engine against the eager one, with the same noise."""

    pytestmark = needs_gpu

    def both(self, settings: EnergySettings, batch: int) -> tuple[Tensor, Tensor, ChainInfo, ChainInfo]:
        energy, code, start = build(settings, batch, "cuda")
        slow, slow_info = ChainEngine(energy, "eager").run(SAMPLER, code, start, seeded(0, "cuda"), "sets")
        fast, fast_info = ChainEngine(energy, "graph").run(SAMPLER, code, start, seeded(0, "cuda"), "sets")
        return slow, fast, slow_info, fast_info

    def test_graph_equals_eager(self, settings: EnergySettings) -> None:
        slow, fast, slow_info, fast_info = self.both(settings, 8)
        torch.testing.assert_close(fast, slow, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(fast_info.energies, slow_info.energies, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(fast_info.trajectory, slow_info.trajectory, rtol=1e-8, atol=1e-10)

    def test_other_batch_sizes_and_new_inputs(self, settings: EnergySettings) -> None:
        energy, code, start = build(settings, 8, "cuda")
        graph, eager = ChainEngine(energy, "graph"), ChainEngine(energy, "eager")
        for rows in (slice(0, 8), slice(0, 3), slice(5, 8), slice(0, 8)):
            fast, _ = graph.run(SAMPLER, code[rows], start[rows], seeded(1, "cuda"))
            slow, _ = eager.run(SAMPLER, code[rows], start[rows], seeded(1, "cuda"))
            torch.testing.assert_close(fast, slow, rtol=1e-8, atol=1e-10)

    def test_graphs_follow_weights_trained_in_place(self, settings: EnergySettings) -> None:
        energy, code, start = build(settings, 8, "cuda")
        graph, eager = ChainEngine(energy, "graph"), ChainEngine(energy, "eager")
        before, _ = graph.run(SAMPLER, code, start, seeded(0, "cuda"))
        with torch.no_grad():
            for weight in energy.parameters():
                weight.mul_(1.1)
        after, _ = graph.run(SAMPLER, code, start, seeded(0, "cuda"))
        slow, _ = eager.run(SAMPLER, code, start, seeded(0, "cuda"))
        assert not torch.allclose(before, after)
        torch.testing.assert_close(after, slow, rtol=1e-8, atol=1e-10)

    def test_a_generator_goes_on_where_it_was(self, settings: EnergySettings) -> None:
        energy, code, start = build(settings, 8, "cuda")
        results = {}
        for engine in ("graph", "eager"):
            generator, chains = seeded(0, "cuda"), ChainEngine(energy, engine)
            results[engine] = [chains.run(SAMPLER, code, start, generator)[0] for _ in range(2)]
        assert not torch.allclose(*results["graph"])
        torch.testing.assert_close(results["graph"], results["eager"], rtol=1e-8, atol=1e-10)

    def test_few_chains_are_the_same_eagerly_and_captured(self, settings: EnergySettings) -> None:
        energy, code, start = build(settings, 8, "cuda")
        engine = ChainEngine(energy, min_chains=1000)
        first, *others = (engine.run(SAMPLER, code, start, seeded(0, "cuda"))[0] for _ in range(3))
        assert len(engine._graphs) == 1
        assert all(torch.equal(first, other) for other in others)
