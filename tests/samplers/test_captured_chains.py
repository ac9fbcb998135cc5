"""Chains as CUDA graphs, on a CPU that pretends: what replays read anew, and what is captured anew."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from desp.capture import GRAPHS_KEPT
from desp.energies import SetEnergy
from desp.samplers import ChainEngine, ChainInfo, LangevinSampler, Sampler
from desp.samplers.engine import inline_chains
from desp.settings import DeepSetsSettings, EnergySettings, LangevinSettings, SetEncoderEnergySettings
from pretend_cuda import PretendGraph, PretendStream

pytestmark = pytest.mark.usefixtures("captured_graphs")

CHAIN = LangevinSettings(steps=5, stochastic_steps=3, noise_scale=0.05)
SAMPLER = LangevinSampler(CHAIN)
DEEP_SETS = DeepSetsSettings(hidden=16)
CODE = 8  # numbers of a code


def make(settings: EnergySettings = DEEP_SETS) -> SetEnergy:
    return settings.load()(settings, 2, (CODE,)).double()


def given(seed: int, batch: int = 4, size: int = 6) -> tuple[Tensor, Tensor]:
    """Codes and a start, both drawn."""
    generator = torch.Generator().manual_seed(seed)
    code = torch.randn(batch, CODE, generator=generator, dtype=torch.float64)
    start = torch.rand(batch, size, 2, generator=generator, dtype=torch.float64)
    return code, start


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def assert_same(found: tuple[Tensor, ChainInfo], expected: tuple[Tensor, ChainInfo]) -> None:
    for name in ("energies", "gradient_norms", "trajectory"):
        torch.testing.assert_close(getattr(found[1], name), getattr(expected[1], name), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "settings", [DEEP_SETS, SetEncoderEnergySettings(hidden=16, latent=CODE)], ids=lambda item: item.kind
)
def test_every_replay_is_the_eager_chain_of_its_own_input_start_and_seed(
    settings: EnergySettings, captured_graphs: list[PretendGraph]
) -> None:
    energy = make(settings)
    graph, eager = ChainEngine(energy, "graph"), ChainEngine(energy, "eager")
    for inputs, noise in ((0, 0), (1, 0), (1, 1)):
        found = graph.run(SAMPLER, *given(inputs), seeded(noise), "sets")
        assert_same(found, eager.run(SAMPLER, *given(inputs), seeded(noise), "sets"))
    code, start = given(1)
    found = graph.run(SAMPLER, code, 2 * start, seeded(1), "sets")  # a new start alone
    assert_same(found, eager.run(SAMPLER, code, 2 * start, seeded(1), "sets"))
    assert [item.replays for item in captured_graphs] == [4]
    assert graph.used == "graph"


def test_the_callers_tensors_are_not_kept() -> None:
    """Between capture and replay a caller may do with them what it likes."""
    energy = make()
    graph, (code, start) = ChainEngine(energy, "graph"), given(0)
    first, _ = graph.run(SAMPLER, code, start, seeded(0))
    again, other = code.clone(), start.clone()
    code.fill_(float("nan"))
    start.fill_(float("nan"))
    assert torch.equal(graph.run(SAMPLER, again, other, seeded(0))[0], first)
    assert code.isnan().all()
    assert start.isnan().all()


def test_what_one_run_returned_outlasts_the_next() -> None:
    energy = make()
    graph = ChainEngine(energy, "graph")
    y, info = graph.run(SAMPLER, *given(0), seeded(0), "sets")
    before = y.clone(), ChainInfo(info.energies.clone(), info.gradient_norms.clone(), info.trajectory.clone())
    graph.run(SAMPLER, *given(1), seeded(1), "sets")
    assert_same((y, info), before)


def test_a_generator_goes_on_where_it_was_and_is_brought_forward() -> None:
    energy = make()
    after = {}
    for engine in ("graph", "eager"):
        chains, generator = ChainEngine(energy, engine), seeded(3)
        torch.rand(7, generator=generator)  # not at its beginning
        sets = [chains.run(SAMPLER, *given(0), generator)[0] for _ in range(2)]
        after[engine] = [*sets, torch.rand(5, generator=generator)]
    assert not torch.equal(*after["graph"][:2])
    torch.testing.assert_close(after["graph"], after["eager"], rtol=1e-12, atol=1e-13)


def test_replays_follow_weights_trained_in_place(captured_graphs: list[PretendGraph]) -> None:
    energy = make()
    graph, eager = ChainEngine(energy, "graph"), ChainEngine(energy, "eager")
    code, start = given(0)
    before, _ = graph.run(SAMPLER, code, start, seeded(0))
    with torch.no_grad():
        for weight in energy.parameters():
            weight.mul_(1.5)
    after, _ = graph.run(SAMPLER, code, start, seeded(0))
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, eager.run(SAMPLER, code, start, seeded(0))[0], rtol=1e-12, atol=1e-13)
    assert len(captured_graphs) == 1


def other_batch(energy: SetEnergy) -> tuple[Sampler, Tensor, Tensor]:
    return SAMPLER, *given(0, batch=3)


def other_size(energy: SetEnergy) -> tuple[Sampler, Tensor, Tensor]:
    return SAMPLER, *given(0, size=7)


def other_steps(energy: SetEnergy) -> tuple[Sampler, Tensor, Tensor]:
    return LangevinSampler(replace(CHAIN, noise_scale=0.1)), *given(0)


def other_type(energy: SetEnergy) -> tuple[Sampler, Tensor, Tensor]:
    code, start = given(0)
    energy.float()
    return SAMPLER, code.float(), start.float()


def other_mode(energy: SetEnergy) -> tuple[Sampler, Tensor, Tensor]:
    energy.train(not energy.training)
    return SAMPLER, *given(0)


@pytest.mark.parametrize("change", [other_batch, other_size, other_steps, other_type, other_mode])
def test_a_chain_that_differs_is_captured_anew(
    change: Callable[[SetEnergy], tuple[Sampler, Tensor, Tensor]], captured_graphs: list[PretendGraph]
) -> None:
    energy = make()
    graph, eager = ChainEngine(energy, "graph"), ChainEngine(energy, "eager")
    graph.run(SAMPLER, *given(0), seeded(0))
    what = change(energy)
    found, _ = graph.run(*what, seeded(0))
    torch.testing.assert_close(found, eager.run(*what, seeded(0))[0])
    assert len(captured_graphs) == 2


def test_another_record_or_precision_is_captured_anew(captured_graphs: list[PretendGraph]) -> None:
    energy = make()
    graph, what = ChainEngine(energy, "graph"), (SAMPLER, *given(0))
    _, plain = graph.run(*what, seeded(0))
    assert plain.trajectory is None
    _, full = graph.run(*what, seeded(0), "sets")
    assert full.trajectory is not None
    assert len(captured_graphs) == 2
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium" if before != "medium" else "highest")
    try:
        graph.run(*what, seeded(0))
    finally:
        torch.set_float32_matmul_precision(before)
    assert len(captured_graphs) == 3
    graph.run(*what, seeded(0))
    assert len(captured_graphs) == 3


def test_captured_graphs_not_used_for_longest_are_dropped(
    captured_graphs: list[PretendGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert GRAPHS_KEPT >= 2
    monkeypatch.setattr("desp.capture.GRAPHS_KEPT", 2)
    energy = make()
    graph = ChainEngine(energy, "graph")
    made = []
    for batch in (1, 2, 1, 3, 1, 2):  # the third drops the second: the first was used again
        graph.run(SAMPLER, *given(0, batch=batch), seeded(0))
        made.append(len(captured_graphs))
    assert made == [1, 2, 2, 3, 3, 4]


def test_chains_inside_of_a_larger_capture_are_not_captured_alone(captured_graphs: list[PretendGraph]) -> None:
    energy = make()
    expected = ChainEngine(energy, "eager").run(SAMPLER, *given(0), seeded(0), "sets")
    graph = ChainEngine(energy, "auto")
    with inline_chains():
        assert_same(graph.run(SAMPLER, *given(0), seeded(0), "sets"), expected)
    assert captured_graphs == []
    assert_same(graph.run(SAMPLER, *given(0), seeded(0), "sets"), expected)
    assert len(captured_graphs) == 1


def test_gradients_are_warmed_up_on_a_side_stream_before_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    energy = make()
    graph = torch.cuda.graph

    def noted(*args: object, **options: str) -> object:
        PretendStream.events.append("captures")
        return graph(*args, **options)

    monkeypatch.setattr("torch.cuda.graph", noted)
    ChainEngine(energy, "graph").run(SAMPLER, *given(0), seeded(0))
    once = ["side waits for main", "side begins", "side ends", "main waits for side"]
    assert PretendStream.events == [*once, *once, "captures"]


def refuse(*_: object, **__: object) -> None:
    raise RuntimeError("operation not permitted when stream is capturing\nand more")


def test_what_cannot_be_captured_runs_step_by_step(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    energy = make()
    monkeypatch.setattr("torch.cuda.graph", refuse)
    expected, _ = ChainEngine(energy, "eager").run(SAMPLER, *given(0), seeded(0))
    engine = ChainEngine(energy)
    for _ in range(2):
        assert torch.equal(engine.run(SAMPLER, *given(0), seeded(0))[0], expected)
    message = "chains run step by step, as engine graph failed: operation not permitted when stream is capturing"
    assert caplog.messages == [message]
    assert engine.used == "eager"
    with pytest.raises(RuntimeError, match="not permitted"):
        ChainEngine(energy, "graph").run(SAMPLER, *given(0), seeded(0))


def test_a_failure_inside_of_a_larger_capture_belongs_to_that_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    energy = make()
    engine = ChainEngine(energy)
    monkeypatch.setattr(ChainEngine, "compiled_gradient", refuse)
    with inline_chains(), pytest.raises(RuntimeError, match="not permitted"):
        engine.run(SAMPLER, *given(0), seeded(0))
    assert engine.requested == "auto"


def test_what_a_run_began_with_on_the_cpu_does_not_hold_on_a_gpu() -> None:
    engine = ChainEngine(make())
    engine.resumed_engine = "eager"
    assert engine.name(torch.device("cuda")) == "graph"


def test_one_line_says_that_chains_are_captured(caplog: pytest.LogCaptureFixture) -> None:
    energy = make()
    caplog.set_level("INFO", logger="desp")
    engine = ChainEngine(energy)
    for _ in range(2):
        engine.run(SAMPLER, *given(0), seeded(0))
    assert [line for line in caplog.messages if "capturing" not in line] == [
        "chains run with engine graph: one launch for the whole chain"
    ]
    assert sum("capturing" in line for line in caplog.messages) == 1
