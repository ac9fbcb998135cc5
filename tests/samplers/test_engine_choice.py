"""When chains are compiled and captured anew, and what becomes part of a larger capture; both are made up here."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from desp.capture import GRAPHS_KEPT
from desp.energies import SetEnergy, SetField
from desp.methods.denoising import NetworkField
from desp.nn import SetNetwork
from desp.samplers import (
    ChainEngine,
    ChainInfo,
    EDMSampler,
    LangevinSampler,
    Record,
    Sampler,
    ValueAndGrad,
    value_and_grad_of,
)
from desp.samplers.base import Chain, ValueAndGradFor
from desp.samplers.engine import COMPILED_SHAPES, FEW_CHAINS, ROWS_COMPILED, inline_chains
from desp.settings import AttentionSettings, DeepSetsSettings, EDMSettings, Engine, LangevinSettings
from small_methods import with_energy

SAMPLER = LangevinSampler(LangevinSettings(steps=2, stochastic_steps=2))


def deep_sets(hidden: int = 8) -> SetEnergy:
    """An energy whose codes are its inputs, three numbers."""
    return with_energy(DeepSetsSettings(hidden=hidden)).energy


class Graph:
    """Stands in for a captured chain: it remembers how it was made, and runs plainly."""

    made: list[tuple[int, int]]

    def __init__(
        self, value_and_grad_for: ValueAndGradFor, sampler: Sampler, code: Tensor, start: Tensor, record: Record
    ) -> None:
        del code
        self.chain = lambda *given: sampler.sample(value_and_grad_for, *given, record)
        Graph.made.append((len(start), start.shape[1]))

    def replay(self, code: Tensor, start: Tensor, generator: torch.Generator) -> tuple[Tensor, ChainInfo]:
        return self.chain(code, start, generator)


@pytest.fixture
def make_engine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[ChainEngine, list[tuple[int, ...]]]]:
    """A function that makes an engine of this name, and a list of the shapes that it compiles gradients for."""
    Graph.made = []
    monkeypatch.setattr("desp.samplers.engine._ChainGraph", Graph)
    monkeypatch.setattr("desp.samplers.engine.check_engine", lambda *_: None)

    def plain(self: ChainEngine, code: Tensor, size: int) -> ValueAndGrad:
        return value_and_grad_of(self.field, code, size)

    monkeypatch.setattr(ChainEngine, "compiled_gradient", plain)

    def make(name: Engine) -> tuple[ChainEngine, list[tuple[int, ...]]]:
        engine, compiled = ChainEngine(deep_sets(), name), []
        tried = engine.warm_up_compiled

        def watched(sampler: Sampler, code: Tensor, start: Tensor) -> None:
            compiled.append(tuple(start.shape))
            tried(sampler, code, start)

        engine.warm_up_compiled = watched  # type: ignore[method-assign]
        return engine, compiled

    return make


def chain(
    engine: ChainEngine, batch: int = 2, size: int = 3, dtype: torch.dtype = torch.float32, **more: Any
) -> Tensor:
    """The end of chains for a batch, with the same noise every time."""
    code = codes(batch).to(dtype)
    start = torch.zeros(batch, size, 2, dtype=dtype)
    sampler, record = more.get("sampler", SAMPLER), more.get("record", "nothing")
    return engine.run(sampler, code, start, torch.Generator().manual_seed(0), record)[0]


def codes(batch: int) -> Tensor:
    return torch.ones(batch, 3)


def other_precision(engine: ChainEngine) -> None:
    del engine
    torch.set_float32_matmul_precision("high")


@pytest.fixture(autouse=True)
def _same_precision_afterwards() -> Any:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


CHANGES: dict[str, Callable[[ChainEngine], object]] = {
    "batch": lambda engine: chain(engine, batch=4),
    "size": lambda engine: chain(engine, size=4),
    "mode": lambda engine: (engine.field.eval(), chain(engine)),
    "precision": lambda engine: (other_precision(engine), chain(engine)),
    "type": lambda engine: (engine.field.double(), chain(engine, dtype=torch.float64)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_gradient_is_compiled_once_for_each_kind_of_chain(change: str, make_engine: Any) -> None:
    engine, compiled = make_engine("compiled")
    chain(engine)
    chain(engine)
    assert compiled == [(2, 3, 2)]
    CHANGES[change](engine)
    assert len(compiled) == 2
    assert engine.used == "compiled"


@pytest.mark.parametrize("change", CHANGES)
def test_a_chain_is_captured_once_for_each_kind(change: str, make_engine: Any) -> None:
    engine, _ = make_engine("graph")
    first = chain(engine)
    assert torch.equal(chain(engine), first)
    assert Graph.made == [(2, 3)]
    CHANGES[change](engine)
    assert len(Graph.made) == 2
    assert engine.used == "graph"


def test_another_sampler_is_another_capture(make_engine: Any) -> None:
    engine, _ = make_engine("graph")
    first = chain(engine)
    longer = LangevinSampler(LangevinSettings(steps=3, stochastic_steps=2))
    assert not torch.equal(chain(engine, sampler=longer), first)
    chain(engine, sampler=LangevinSampler(LangevinSettings(steps=3, stochastic_steps=2)))  # an equal one
    assert len(Graph.made) == 2


def test_another_record_is_another_capture(make_engine: Any) -> None:
    engine, _ = make_engine("graph")
    for record in ("nothing", "energies", "sets", "energies"):
        chain(engine, record=record)
    assert len(Graph.made) == 3


def test_another_kind_of_sampler_may_take_another_kind_of_gradient(make_engine: Any) -> None:
    @dataclass(frozen=True)
    class Still(Sampler):
        def chain(self, gradient: Any, code: Tensor, start: Tensor, generator: Any) -> Chain:
            del gradient, code, generator
            return start, iter(())

    engine, compiled = make_engine("compiled")
    chain(engine)
    chain(engine, sampler=Still())
    assert compiled == [(2, 3, 2)] * 2


def test_captures_that_were_not_used_for_longest_are_dropped(make_engine: Any) -> None:
    engine, _ = make_engine("graph")
    for size in range(1, GRAPHS_KEPT + 1):
        chain(engine, size=size)
    chain(engine, size=1)  # now the second is the oldest
    chain(engine, size=GRAPHS_KEPT + 1)
    assert len(Graph.made) == GRAPHS_KEPT + 1
    chain(engine, size=1)
    assert len(Graph.made) == GRAPHS_KEPT + 1
    chain(engine, size=2)
    assert Graph.made[-1] == (2, 2)


@pytest.fixture
def on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desp.samplers.engine.on_cuda", lambda _: True)


@pytest.mark.usefixtures("on_cuda")
def test_few_chains_are_captured_without_compiling_when_they_come_again(make_engine: Any) -> None:
    engine, compiled = make_engine("auto")
    engine.min_chains = 10**6
    first = chain(engine)
    chain(engine, size=4)
    assert Graph.made == []
    assert torch.equal(chain(engine), first)
    assert Graph.made == [(2, 3)]
    assert torch.equal(chain(engine), first)
    assert Graph.made == [(2, 3)]
    assert compiled == []


@pytest.mark.usefixtures("on_cuda")
def test_few_chains_whose_capture_was_dropped_are_new_again(make_engine: Any) -> None:
    engine, _ = make_engine("auto")
    engine.min_chains = 10**6
    for size in range(1, GRAPHS_KEPT + 2):
        chain(engine, size=size)
        chain(engine, size=size)
    assert len(Graph.made) == GRAPHS_KEPT + 1  # the first was dropped
    chain(engine, size=1)
    assert len(Graph.made) == GRAPHS_KEPT + 1
    chain(engine, size=1)
    assert Graph.made[-1] == (2, 1)


@pytest.mark.usefixtures("on_cuda")
def test_moved_weights_are_captured_anew(make_engine: Any) -> None:
    engine, _ = make_engine("graph")
    chain(engine)
    for weight in engine.field.parameters():
        weight.data = weight.data.clone()
    chain(engine)
    assert len(Graph.made) == 2


@pytest.mark.usefixtures("on_cuda")
@pytest.mark.parametrize("why", ["many", "asked for", "inside another", "other sampler"])
def test_chains_that_run_eagerly_every_time(make_engine: Any, why: str) -> None:
    engine, compiled = make_engine("eager" if why == "asked for" else "auto")
    engine.min_chains = 10**6
    for number in range(3):
        if why == "inside another":
            with inline_chains():
                chain(engine)
        elif why == "other sampler":
            chain(engine, sampler=LangevinSampler(LangevinSettings(steps=2 + number, stochastic_steps=2)))
        else:
            chain(engine, batch=FEW_CHAINS + 1 if why == "many" else 2)
    assert (Graph.made, compiled) == ([], [])


def test_few_chains_on_a_cpu_are_never_captured(make_engine: Any) -> None:
    engine, _ = make_engine("auto")
    engine.min_chains = 10**6
    for _ in range(3):
        chain(engine)
    assert Graph.made == []


def test_chains_inside_a_larger_capture_are_compiled_and_not_captured(make_engine: Any) -> None:
    engine, compiled = make_engine("graph")
    with inline_chains():
        inside = chain(engine)
    assert (compiled, Graph.made) == ([(2, 3, 2)], [])
    assert torch.equal(chain(engine), inside)
    assert Graph.made == [(2, 3)]


def test_what_fails_inside_a_larger_capture_is_left_to_whoever_captures(make_engine: Any) -> None:
    engine, _ = make_engine("auto")
    engine.name = lambda *_: "graph"  # type: ignore[method-assign]

    def fail(*_: object) -> None:
        raise RuntimeError("no compiler")

    engine.warm_up_compiled = fail  # type: ignore[method-assign]
    with inline_chains(), pytest.raises(RuntimeError, match="no compiler"):
        chain(engine)
    assert engine.requested == "auto"


@pytest.mark.parametrize(
    ("requested", "device", "expected"),
    [("auto", "cpu", "compiled"), ("auto", "cuda", "graph"), ("eager", "cpu", "eager")],
)
def test_what_a_run_began_with_settles_the_engine_on_the_cpu_if_none_is_asked_for(
    requested: Engine, device: str, expected: str, make_engine: Any
) -> None:
    engine, _ = make_engine(requested)
    engine.resumed_engine = "compiled"
    assert engine.name(torch.device(device)) == expected


def denoiser() -> NetworkField:
    settings = AttentionSettings(hidden=16, layers=1, heads=2, fourier_frequencies=1)
    return NetworkField(SetNetwork(settings, 2, (3,), outputs=2))


@pytest.mark.parametrize(
    ("make_field", "trained", "rounded"),
    [
        (lambda: deep_sets(16), False, True),
        (lambda: deep_sets(16), True, False),  # derivatives of a rounded gradient would be too coarse
        (denoiser, True, True),
    ],
)
def test_layers_are_rounded_only_where_no_derivative_is_taken_of_a_derivative(
    make_field: Callable[[], SetField], trained: bool, rounded: bool
) -> None:
    field, code, y = make_field(), codes(5), torch.rand(5, 4, 2)
    slopes = []
    for precision in ("highest", "medium"):
        torch.set_float32_matmul_precision(precision)
        with torch.set_grad_enabled(trained):
            slopes.append(value_and_grad_of(field, code, 4)(y)[1].detach())
    exact, found = slopes
    assert (float((found - exact).norm() / exact.norm()) > 1e-4) is rounded


@pytest.mark.parametrize(
    ("precision", "dtype", "expected"),
    [
        ("highest", torch.float32, False),
        ("high", torch.float32, False),  # tf32, which a CPU has not
        ("medium", torch.float32, True),
        ("medium", torch.float64, False),
    ],
)
def test_additions_are_reordered_only_where_products_are_rounded_anyway(
    precision: str, dtype: torch.dtype, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    energy = deep_sets().to(dtype)
    asked: list[bool] = []
    plain = type(energy).value_and_gradient

    def watched(self: SetEnergy, y: Tensor, prepared: Any, *, fused: bool = False) -> tuple[Tensor, Tensor]:
        asked.append(fused)
        return plain(self, y, prepared, fused=fused)

    monkeypatch.setattr(type(energy), "value_and_gradient", watched)
    torch.set_float32_matmul_precision(precision)
    with torch.no_grad():
        chain(ChainEngine(energy, "eager"), dtype=dtype)
    assert asked == [expected] * 2


@pytest.mark.parametrize(("trained", "parts"), [(False, 4), (True, 1)])
def test_a_large_batch_goes_in_parts_unless_it_is_trained_through(
    trained: bool, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tape of many parts would keep all of them."""
    energy = deep_sets()
    seen: list[int] = []
    plain = type(energy).prepare

    def watched(self: SetEnergy, code: Tensor, size: int) -> Any:
        seen.append(len(code))
        return plain(self, code, size)

    monkeypatch.setattr(type(energy), "prepare", watched)
    with torch.set_grad_enabled(trained):
        value_and_grad_of(energy, codes(7), 3, rows=6)(torch.rand(7, 3, 2))
    assert len(seen) == parts
    assert sum(seen) == 7


@pytest.mark.parametrize("sampler", [SAMPLER, EDMSampler(EDMSettings(steps=2, order=1), 0.5, False)])
def test_a_probe_takes_one_gradient_like_those_of_the_chain(sampler: Sampler) -> None:
    """Else compiling would begin, and might fail, in the middle of a chain."""
    asked: list[tuple[torch.Size, torch.Size]] = []

    def gradient(code: Tensor) -> ValueAndGrad:
        def of(y: Tensor) -> tuple[Tensor, Tensor]:
            asked.append((code.shape, y.shape))
            return torch.zeros(len(y)), torch.zeros_like(y)

        return of

    start = torch.zeros(2, 3, 2)
    sampler.warm_up_gradient(gradient, codes(2), start)
    assert len(asked) == 1
    sampler.sample(gradient, codes(2), start, torch.Generator().manual_seed(0))
    assert len(asked) == 3
    assert len(set(asked)) == 1


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Compiles nothing, and remembers how it was asked."""
    made = SimpleNamespace(config=SimpleNamespace(recompile_limit=8), options={})
    monkeypatch.setattr("desp.samplers.engine.import_module", lambda _: made)
    monkeypatch.setattr(torch, "compile", lambda function, **options: made.options.update(options) or function)
    return made


@pytest.mark.parametrize(("before", "after"), [(8, COMPILED_SHAPES), (10 * COMPILED_SHAPES, 10 * COMPILED_SHAPES)])
def test_a_gradient_may_be_compiled_for_many_shapes(before: int, after: int, compiler: SimpleNamespace) -> None:
    compiler.config.recompile_limit = before
    ChainEngine(deep_sets()).compiled_gradient(codes(2), 3)
    assert compiler.config.recompile_limit == after
    assert compiler.options == {"fullgraph": True, "dynamic": False}


@pytest.mark.usefixtures("compiler")
def test_parts_of_a_batch_are_larger_where_the_gradient_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    energy, seen = deep_sets(), []
    plain = type(energy).prepare
    monkeypatch.setattr(
        type(energy), "prepare", lambda self, code, size: seen.append(len(code)) or plain(self, code, size)
    )
    with torch.no_grad():
        ChainEngine(energy).compiled_gradient(codes(4), ROWS_COMPILED // 4)
        assert seen == [4]
        ChainEngine(energy).compiled_gradient(codes(4), ROWS_COMPILED // 2)
    assert seen == [4, 2, 2]
