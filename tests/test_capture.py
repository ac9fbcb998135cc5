"""What is captured, when, and when anew; on a CPU that pretends, and on a GPU."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from desp.capture import GRAPHS_KEPT, MAX_INPUT_NUMBERS, CapturedCall, CapturedFunction, GraphCache, on_host
from pretend_cuda import PretendGraph


@pytest.fixture
def on_cuda(captured_graphs: list[PretendGraph], monkeypatch: pytest.MonkeyPatch) -> list[PretendGraph]:
    """Every tensor counts as one on CUDA; the graphs captured so far."""
    monkeypatch.setattr("desp.capture.on_cuda", lambda _: True)
    return captured_graphs


def encoder() -> nn.Module:
    layers = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).double()
    return layers.requires_grad_(False).eval()


def inputs(seed: int, count: int = 4) -> Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_what_comes_again_is_replayed_with_its_own_inputs(on_cuda: list[PretendGraph]) -> None:
    module = encoder()
    captured = CapturedFunction(module, module)
    found = [captured(inputs(seed)) for seed in range(4)]
    assert [item.replays for item in on_cuda] == [3]  # the first runs eagerly
    for seed, code in enumerate(found):  # none is overwritten by a later replay
        torch.testing.assert_close(code, module(inputs(seed)), rtol=1e-12, atol=1e-13)


def test_replays_follow_weights_and_statistics_changed_in_place(on_cuda: list[PretendGraph]) -> None:
    module = encoder()
    captured = CapturedFunction(module, module)
    before = [captured(inputs(0)) for _ in range(2)][1]
    with torch.no_grad():
        module[0].weight.mul_(2)
        module[1].running_mean.add_(1)
    after = captured(inputs(0))
    assert not torch.allclose(after, before)
    torch.testing.assert_close(after, module(inputs(0)), rtol=1e-12, atol=1e-13)
    assert len(on_cuda) == 1


@pytest.mark.parametrize("what", ["shape", "dtype", "weights", "training", "precision"])
def test_what_is_captured_anew(what: str, on_cuda: list[PretendGraph]) -> None:
    module = encoder()
    captured, x, precision = CapturedFunction(module, module), inputs(0), torch.get_float32_matmul_precision()
    for _ in range(2):
        captured(x)
    if what == "shape":
        x = inputs(0, count=5)
    elif what == "dtype":
        x, _ = x.float(), module.float()
    elif what == "weights":
        module[0].weight.data = 2 * module[0].weight.data
    elif what == "training":
        module.train()
    try:
        torch.set_float32_matmul_precision("medium" if what == "precision" else precision)
        captured(x)
        assert len(on_cuda) == 1
        found, expected = captured(x), module(x)
    finally:
        torch.set_float32_matmul_precision(precision)
    assert len(on_cuda) == 2
    torch.testing.assert_close(found, expected)


def test_large_inputs_run_eagerly(on_cuda: list[PretendGraph]) -> None:
    captured = CapturedFunction(torch.sin, nn.Linear(1, 1))
    for _ in range(3):
        captured(torch.zeros(MAX_INPUT_NUMBERS + 1))
    assert on_cuda == []
    for _ in range(2):
        captured(torch.zeros(MAX_INPUT_NUMBERS))
    assert len(on_cuda) == 1


def test_nothing_is_captured_where_it_is_switched_off(on_cuda: list[PretendGraph]) -> None:
    captured = CapturedFunction(torch.sin, nn.Linear(1, 1), captures=False)
    for _ in range(3):
        captured(torch.zeros(1))
    assert on_cuda == []


def test_nothing_is_captured_on_a_cpu(captured_graphs: list[PretendGraph]) -> None:
    captured = CapturedFunction(torch.sin, nn.Linear(1, 1))
    for _ in range(3):
        captured(torch.zeros(1))
    assert captured_graphs == []


@pytest.mark.usefixtures("on_cuda")
def test_a_failed_capture_is_told_once_and_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = []

    def fail(*_: object) -> None:
        attempts.append(1)
        raise RuntimeError("not permitted\nwhen capturing")

    monkeypatch.setattr("desp.capture.CapturedCall", fail)
    captured = CapturedFunction(torch.sin, nn.Linear(1, 1))
    for _ in range(4):
        assert torch.equal(captured(torch.ones(2)), torch.ones(2).sin())
    assert len(attempts) == 1
    assert [record.getMessage() for record in caplog.records] == [
        "inputs are encoded without a CUDA graph, as its capture failed: not permitted"
    ]


def test_a_copy_of_a_cache_is_empty() -> None:
    cache: GraphCache[object] = GraphCache()
    cache.seen_before(("a",))
    cache.get(("a",), lambda: lambda: None)  # no function without a name can be pickled
    for copied in (copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):  # noqa: S301 - our own
        assert len(copied) == 0
        assert not copied.seen_before(("a",))
    assert len(cache) == 1


def test_what_was_dropped_has_to_come_twice_again() -> None:
    cache: GraphCache[int] = GraphCache()
    for number in range(GRAPHS_KEPT + 1):
        cache.seen_before((number,))
        cache.get((number,), lambda number=number: number)
    assert len(cache) == GRAPHS_KEPT
    assert cache.seen_before((GRAPHS_KEPT,))
    assert not cache.seen_before((0,))


def test_what_is_used_often_is_not_forgotten_for_shapes_that_come_once() -> None:
    cache: GraphCache[int] = GraphCache()
    often = ("often",)
    assert not cache.seen_before(often)
    for number in range(3 * GRAPHS_KEPT):
        assert not cache.seen_before((number,))
        assert cache.seen_before(often)
        assert cache.get(often, lambda number=number: number) == 0


def test_a_graph_that_is_kept_is_used_whatever_came_in_between() -> None:
    cache: GraphCache[int] = GraphCache()
    for _ in range(2):
        cache.seen_before(("kept",))
    cache.get(("kept",), lambda: 1)
    for number in range(2 * GRAPHS_KEPT):
        cache.seen_before((number,))
    assert cache.seen_before(("kept",))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_feature_pyramid_is_the_same_eagerly_and_captured() -> None:
    from desp.settings import PyramidEncoderSettings

    settings = PyramidEncoderSettings(hidden=16, out=32)
    module = settings.load()(settings, (3, 64, 64)).cuda().eval()
    captured = CapturedFunction(module, module)
    images = [torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(seed)).cuda() for seed in range(3)]
    found = [captured(item) for item in [*images, images[0]]]
    assert len(captured.graphs) == 1
    with torch.no_grad():
        expected = [module(item) for item in [*images, images[0]]]
    torch.testing.assert_close(found, expected)
    assert torch.equal(found[0], found[3])


def test_work_on_the_host_is_done_between_two_graphs(on_cuda: list[PretendGraph]) -> None:
    """With what the first one computed, in every replay; and once where nothing is captured."""
    given, found, seen = torch.tensor([1.0, 2.0]), torch.zeros(2), list[list[float]]()

    def look(values: Tensor) -> None:
        seen.append(values.tolist())
        found.copy_(torch.tensor(values.tolist()[::-1]))

    def work() -> Tensor:
        doubled = 2 * given
        on_host(lambda: look(doubled))
        return found + doubled

    assert work().tolist() == [6, 6]
    assert seen == [[2, 4]]
    captured = CapturedCall(work, [])
    assert seen == [[2, 4]]  # not while it is captured
    assert len(on_cuda) == 2
    given.copy_(torch.tensor([5.0, 1.0]))
    assert captured().tolist() == [12, 12]
    given.copy_(torch.tensor([0.0, 3.0]))
    assert captured().tolist() == [6, 6]
    assert seen == [[2, 4], [10, 2], [0, 6]]


def test_a_capture_that_fails_after_work_on_the_host_leaves_nothing_open(on_cuda: list[PretendGraph]) -> None:
    def work() -> None:
        on_host(lambda: None)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        CapturedCall(work, [])
    called: list[int] = []
    on_host(lambda: called.append(1))
    assert called == [1]
    assert len(on_cuda) == 2
