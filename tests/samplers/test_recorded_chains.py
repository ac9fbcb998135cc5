"""Chains as CUDA graphs, on a CPU that pretends: what replays read anew, and what is recorded anew."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from desp.methods import Contrastive
from desp.samplers import ChainEngine, ChainInfo, LangevinSampler, Sampler
from desp.samplers.engine import GRAPHS_KEPT, inline_chains
from desp.settings import DeepSetsSettings, EnergySettings, LangevinSettings, SetEncoderSettings
from pretend_cuda import PretendGraph, PretendStream
from small_methods import with_energy

pytestmark = pytest.mark.usefixtures("recordings")

CHAIN = LangevinSettings(steps=5, stochastic_steps=3, noise_scale=0.05)
SAMPLER = LangevinSampler(CHAIN)
DEEP_SETS = DeepSetsSettings(hidden=16)


def make(settings: EnergySettings = DEEP_SETS) -> Contrastive:
    return with_energy(settings, size=6).double()


def given(method: Contrastive, seed: int, batch: int = 4, size: int = 6) -> tuple[Tensor, Tensor]:
    """Codes and a start, both drawn."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, 3, generator=generator, dtype=torch.float64)
    start = torch.rand(batch, size, 2, generator=generator, dtype=torch.float64)
    return method.encode(x).detach(), start


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def assert_same(found: tuple[Tensor, ChainInfo], expected: tuple[Tensor, ChainInfo]) -> None:
    for name in ("energies", "gradient_norms", "trajectory"):
        torch.testing.assert_close(getattr(found[1], name), getattr(expected[1], name), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "settings", [DEEP_SETS, SetEncoderSettings(hidden=16, latent=8)], ids=lambda item: item.kind
)
def test_every_replay_is_the_eager_chain_of_its_own_input_start_and_seed(
    settings: EnergySettings, recordings: list[PretendGraph]
) -> None:
    method = make(settings)
    graph, eager = ChainEngine(method.energy, "graph"), ChainEngine(method.energy, "eager")
    for inputs, noise in ((0, 0), (1, 0), (1, 1)):
        found = graph.run(SAMPLER, *given(method, inputs), seeded(noise), "trajectory")
        assert_same(found, eager.run(SAMPLER, *given(method, inputs), seeded(noise), "trajectory"))
    code, start = given(method, 1)
    found = graph.run(SAMPLER, code, 2 * start, seeded(1), "trajectory")  # a new start alone
    assert_same(found, eager.run(SAMPLER, code, 2 * start, seeded(1), "trajectory"))
    assert [item.replays for item in recordings] == [4]
    assert graph.used == "graph"


def test_the_callers_tensors_are_not_kept() -> None:
    """Between recording and replay a caller may do with them what it likes."""
    method = make()
    graph, (code, start) = ChainEngine(method.energy, "graph"), given(method, 0)
    first, _ = graph.run(SAMPLER, code, start, seeded(0))
    again, other = code.clone(), start.clone()
    code.fill_(float("nan"))
    start.fill_(float("nan"))
    assert torch.equal(graph.run(SAMPLER, again, other, seeded(0))[0], first)
    assert code.isnan().all()
    assert start.isnan().all()


def test_what_one_run_returned_outlasts_the_next() -> None:
    method = make()
    graph = ChainEngine(method.energy, "graph")
    y, info = graph.run(SAMPLER, *given(method, 0), seeded(0), "trajectory")
    before = y.clone(), ChainInfo(info.energies.clone(), info.gradient_norms.clone(), info.trajectory.clone())
    graph.run(SAMPLER, *given(method, 1), seeded(1), "trajectory")
    assert_same((y, info), before)


def test_a_generator_goes_on_where_it_was_and_is_brought_forward() -> None:
    method = make()
    after = {}
    for engine in ("graph", "eager"):
        chains, generator = ChainEngine(method.energy, engine), seeded(3)
        torch.rand(7, generator=generator)  # not at its beginning
        sets = [chains.run(SAMPLER, *given(method, 0), generator)[0] for _ in range(2)]
        after[engine] = [*sets, torch.rand(5, generator=generator)]
    assert not torch.equal(*after["graph"][:2])
    torch.testing.assert_close(after["graph"], after["eager"], rtol=1e-12, atol=1e-13)


def test_replays_follow_weights_trained_in_place(recordings: list[PretendGraph]) -> None:
    method = make()
    graph, eager = ChainEngine(method.energy, "graph"), ChainEngine(method.energy, "eager")
    code, start = given(method, 0)
    before, _ = graph.run(SAMPLER, code, start, seeded(0))
    with torch.no_grad():
        for weight in method.parameters():
            weight.mul_(1.5)
    after, _ = graph.run(SAMPLER, code, start, seeded(0))
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, eager.run(SAMPLER, code, start, seeded(0))[0], rtol=1e-12, atol=1e-13)
    assert len(recordings) == 1


def other_batch(method: Contrastive) -> tuple[Sampler, Tensor, Tensor]:
    return SAMPLER, *given(method, 0, batch=3)


def other_size(method: Contrastive) -> tuple[Sampler, Tensor, Tensor]:
    return SAMPLER, *given(method, 0, size=7)


def other_steps(method: Contrastive) -> tuple[Sampler, Tensor, Tensor]:
    return LangevinSampler(replace(CHAIN, noise_scale=0.1)), *given(method, 0)


def other_type(method: Contrastive) -> tuple[Sampler, Tensor, Tensor]:
    code, start = given(method, 0)
    method.float()
    return SAMPLER, code.float(), start.float()


def other_mode(method: Contrastive) -> tuple[Sampler, Tensor, Tensor]:
    method.train(not method.training)
    return SAMPLER, *given(method, 0)


@pytest.mark.parametrize("change", [other_batch, other_size, other_steps, other_type, other_mode])
def test_a_chain_that_differs_is_recorded_anew(
    change: Callable[[Contrastive], tuple[Sampler, Tensor, Tensor]], recordings: list[PretendGraph]
) -> None:
    method = make()
    graph, eager = ChainEngine(method.energy, "graph"), ChainEngine(method.energy, "eager")
    graph.run(SAMPLER, *given(method, 0), seeded(0))
    what = change(method)
    found, _ = graph.run(*what, seeded(0))
    torch.testing.assert_close(found, eager.run(*what, seeded(0))[0])
    assert len(recordings) == 2


def test_another_record_or_precision_is_recorded_anew(recordings: list[PretendGraph]) -> None:
    method = make()
    graph, what = ChainEngine(method.energy, "graph"), (SAMPLER, *given(method, 0))
    _, plain = graph.run(*what, seeded(0))
    assert plain.trajectory is None
    _, full = graph.run(*what, seeded(0), "trajectory")
    assert full.trajectory is not None
    assert len(recordings) == 2
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium" if before != "medium" else "highest")
    try:
        graph.run(*what, seeded(0))
    finally:
        torch.set_float32_matmul_precision(before)
    assert len(recordings) == 3
    graph.run(*what, seeded(0))
    assert len(recordings) == 3


def test_recordings_not_used_for_longest_are_dropped(
    recordings: list[PretendGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert GRAPHS_KEPT >= 2
    monkeypatch.setattr("desp.samplers.engine.GRAPHS_KEPT", 2)
    method = make()
    graph = ChainEngine(method.energy, "graph")
    made = []
    for batch in (1, 2, 1, 3, 1, 2):  # the third drops the second: the first was used again
        graph.run(SAMPLER, *given(method, 0, batch=batch), seeded(0))
        made.append(len(recordings))
    assert made == [1, 2, 2, 3, 3, 4]


def test_chains_inside_of_a_larger_recording_are_not_recorded_alone(recordings: list[PretendGraph]) -> None:
    method = make()
    expected = ChainEngine(method.energy, "eager").run(SAMPLER, *given(method, 0), seeded(0), "trajectory")
    graph = ChainEngine(method.energy, "auto")
    with inline_chains():
        assert_same(graph.run(SAMPLER, *given(method, 0), seeded(0), "trajectory"), expected)
    assert recordings == []
    assert_same(graph.run(SAMPLER, *given(method, 0), seeded(0), "trajectory"), expected)
    assert len(recordings) == 1


def test_gradients_are_warmed_up_on_a_side_stream_before_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    method = make()
    graph = torch.cuda.graph

    def noted(*args: object, **options: str) -> object:
        PretendStream.events.append("records")
        return graph(*args, **options)

    monkeypatch.setattr("torch.cuda.graph", noted)
    ChainEngine(method.energy, "graph").run(SAMPLER, *given(method, 0), seeded(0))
    once = ["side waits for main", "side begins", "side ends", "main waits for side"]
    assert PretendStream.events == [*once, *once, "records"]


def refuse(*_: object, **__: object) -> None:
    raise RuntimeError("operation not permitted when stream is capturing\nand more")


def test_what_cannot_be_recorded_runs_step_by_step(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    method = make()
    monkeypatch.setattr("torch.cuda.graph", refuse)
    expected, _ = ChainEngine(method.energy, "eager").run(SAMPLER, *given(method, 0), seeded(0))
    engine = ChainEngine(method.energy)
    for _ in range(2):
        assert torch.equal(engine.run(SAMPLER, *given(method, 0), seeded(0))[0], expected)
    message = "chains run step by step, as engine graph failed: operation not permitted when stream is capturing"
    assert caplog.messages == [message]
    assert engine.used == "eager"
    with pytest.raises(RuntimeError, match="not permitted"):
        ChainEngine(method.energy, "graph").run(SAMPLER, *given(method, 0), seeded(0))


def test_a_failure_inside_of_a_larger_recording_is_that_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    method = make()
    engine = ChainEngine(method.energy)
    monkeypatch.setattr(ChainEngine, "compiled_gradient", refuse)
    with inline_chains(), pytest.raises(RuntimeError, match="not permitted"):
        engine.run(SAMPLER, *given(method, 0), seeded(0))
    assert engine.requested == "auto"


def test_one_line_says_that_chains_are_recorded(caplog: pytest.LogCaptureFixture) -> None:
    method = make()
    caplog.set_level("INFO", logger="desp")
    engine = ChainEngine(method.energy)
    for _ in range(2):
        engine.run(SAMPLER, *given(method, 0), seeded(0))
    assert [line for line in caplog.messages if "capturing" not in line] == [
        "chains run with engine graph: one launch for the whole chain"
    ]
    assert sum("capturing" in line for line in caplog.messages) == 1
