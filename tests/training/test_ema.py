"""The moving average of weights."""

import pytest
import torch
from torch import Tensor, nn

from desp.training.ema import WeightAverage


def weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.named_parameters()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("decay", [0.3, 0.999])
def test_average_follows_its_formula(decay: float) -> None:
    """Step k counts with min(decay, (1 + k) / (10 + k)): 0.3 is reached in the third step, 0.999 never."""
    module = nn.Linear(2, 3)
    average = WeightAverage(module, decay)
    expected = {name: value.double() for name, value in weights(module).items()}
    for step in range(1, 8):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter))
        average.update(average.weight(step))
        keep = min(decay, (1 + step) / (10 + step))
        for name, value in weights(module).items():
            expected[name] = keep * expected[name] + (1 - keep) * value.double()
            torch.testing.assert_close(average.tensors[name].double(), expected[name], rtol=1e-5, atol=1e-6)


def test_running_statistics_are_averaged_with_the_weights() -> None:
    """They belong to weights: those of the last step would not fit the averaged ones."""
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    average = WeightAverage(module, 0.5)
    expected = module[1].running_mean.clone()
    for step in range(1, 5):
        module(torch.randn(8, 2))
        share = average.weight(step)
        average.update(share)
        expected = torch.lerp(expected, module[1].running_mean, share)
    torch.testing.assert_close(average.tensors["1.running_mean"], expected)
    assert int(average.tensors["1.num_batches_tracked"]) == 4
    live = module[1].running_mean.clone()
    with average.applied():
        torch.testing.assert_close(module[1].running_mean, expected)
    assert torch.equal(module[1].running_mean, live)


def test_averages_saved_without_buffers_are_continued() -> None:
    module = nn.BatchNorm1d(2)
    module(torch.randn(8, 2))
    average = WeightAverage(module, 0.9)
    average.load({name: value.detach() + 1 for name, value in module.named_parameters()})
    assert torch.equal(average.tensors["weight"], module.weight + 1)
    assert torch.equal(average.tensors["running_mean"], module.running_mean)


def test_the_random_start_is_forgotten_quickly() -> None:
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, 1000.0)
    average = WeightAverage(module, 0.9999)
    nn.init.constant_(module.weight, 1.0)
    for step in range(1, 51):
        average.update(average.weight(step))
    assert average.tensors["weight"].item() == pytest.approx(1.0, abs=1e-2)


def test_updates_leave_the_weights_alone() -> None:
    module = nn.Linear(2, 3)
    average = WeightAverage(module, 0.9)
    before = weights(module)
    average.update(average.weight(1))
    assert same(weights(module), before)


@pytest.mark.parametrize("fails", [False, True])
def test_swapping_in_and_out_is_exact(fails: bool) -> None:
    module = nn.Linear(2, 3)
    average = WeightAverage(module, 0.9)
    with torch.no_grad():
        module.weight.mul_(1.7)
        module.bias.fill_(float("nan"))  # whatever is there comes back
    live = {name: value.view(torch.int32) for name, value in weights(module).items()}
    averaged = {name: value.clone() for name, value in average.tensors.items()}
    places = [parameter.data_ptr() for parameter in module.parameters()]

    def use() -> None:
        with average.applied():
            assert same(weights(module), averaged)
            if fails:
                raise ZeroDivisionError

    if fails:
        with pytest.raises(ZeroDivisionError):
            use()
    else:
        use()
    assert same({name: value.view(torch.int32) for name, value in weights(module).items()}, live)
    assert same(average.tensors, averaged)
    assert [parameter.data_ptr() for parameter in module.parameters()] == places  # captured graphs stay valid


def test_saved_averages_are_continued() -> None:
    module = nn.Linear(2, 3)
    first, second = WeightAverage(module, 0.9), WeightAverage(module, 0.9)
    nn.init.zeros_(module.weight)
    first.update(first.weight(5))
    second.load({name: value.clone() for name, value in first.tensors.items()})
    assert same(first.tensors, second.tensors)
    with pytest.raises(KeyError):
        second.load({})
