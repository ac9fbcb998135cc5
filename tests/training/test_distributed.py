"""Two processes train one model: gradients are averaged, weights agree, and one process writes."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny_problem import Kind, make_predictor, make_trainer
from torch import Tensor

from desp.randomness import make_generator

SCRIPT = Path(__file__).parent / "distributed_script.py"


@dataclass(frozen=True)
class Launched:
    """What two processes left behind."""

    kind: Kind
    folder: Path
    tensors: list[dict[str, Tensor]]
    told: list[dict[str, Any]]

    def group(self, rank: int, prefix: str) -> dict[str, Tensor]:
        items = self.tensors[rank].items()
        return {name.removeprefix(prefix): value for name, value in items if name.startswith(prefix)}


def collect(kind: Kind, folder: Path) -> Launched:
    """What two processes wrote."""
    tensors = [load_file(folder / f"rank-{rank}.safetensors") for rank in range(2)]
    told = [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]
    return Launched(kind, folder, tensors, told)


def check_there_are_two_and_their_data_differ(launched: Launched) -> None:
    assert [told["processes"] for told in launched.told] == [2, 2]
    first, second = (tensors["batches"] for tensors in launched.tensors)
    for step in range(len(first)):
        assert not torch.equal(first[step], second[step]), step


def own_gradients(launched: Launched, rank: int, noise_of: int) -> dict[str, Tensor]:
    """What the first step's gradient of one process alone is, with the noise of any."""
    trainer = make_trainer(make_predictor(launched.kind))
    trainer.method.train()  # batch norm measures each batch
    x, y = (launched.tensors[rank][name] for name in ("x", "y"))
    trainer.update.gradients(x, y, make_generator(0, "train", 0, 0, noise_of))
    return {name: value.grad for name, value in trainer.method.named_parameters()}


def check_gradients_are_the_mean_of_those_with_each_process_s_own_noise(launched: Launched) -> None:
    first, second = (own_gradients(launched, rank, noise_of=rank) for rank in range(2))
    averaged = [launched.group(rank, "noisy/") for rank in range(2)]
    assert averaged[0].keys() == averaged[1].keys() == first.keys()
    for name in first:
        assert torch.equal(averaged[0][name], averaged[1][name]), name
        torch.testing.assert_close(averaged[0][name], (first[name] + second[name]) / 2, rtol=1e-4, atol=1e-6)
    if launched.kind == "set-risk":
        return  # nothing is random
    # Were the noise of both the same, the mean would be far from this.
    same = own_gradients(launched, rank=1, noise_of=0)
    apart = max(float((averaged[0][name] - (first[name] + same[name]) / 2).abs().max()) for name in first)
    assert apart > 1e-4


def check_gradients_are_those_of_the_joined_batch(launched: Launched) -> None:
    trainer = make_trainer(make_predictor(launched.kind, noise=0.0))
    x, y = (torch.cat([tensors[name] for tensors in launched.tensors]) for name in ("x", "y"))
    trainer.update.gradients(x, y, torch.Generator())
    averaged = [launched.group(rank, "quiet/") for rank in range(2)]
    parameters = dict(trainer.method.named_parameters())
    assert averaged[0].keys() == averaged[1].keys() == parameters.keys()
    for name, parameter in parameters.items():
        assert torch.equal(averaged[0][name], averaged[1][name]), name
        torch.testing.assert_close(averaged[0][name], parameter.grad, rtol=1e-5, atol=1e-6)
    # Were each process left with its own gradients, they would be far from these.
    trainer.update.gradients(x[:8], y[:8], torch.Generator())
    apart = max(float((averaged[0][name] - own.grad).abs().max()) for name, own in parameters.items())
    assert apart > 1e-4


def check_weights_agree_after_training_on_different_data(launched: Launched) -> None:
    first, second = (launched.group(rank, "weight/") for rank in range(2))
    start = make_predictor(launched.kind).method.state_dict()
    assert first.keys() == second.keys() == start.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []
    assert not all(torch.equal(first[name], start[name]) for name in first)
    averages = [launched.group(rank, "average/") for rank in range(2)]
    assert averages[0].keys() == averages[1].keys() == start.keys()
    assert averages[0]
    assert [name for name in averages[0] if not torch.equal(averages[0][name], averages[1][name])] == []
    assert not all(torch.equal(averages[0][name], first[name]) for name in averages[0])


def check_running_statistics_are_of_all_data(launched: Launched) -> None:
    """Of one training step: the mean of what batch norm measured in each process, and not one of them."""
    (name,) = (name for name in launched.group(0, "first/") if name.endswith("running_mean"))
    first, second = (launched.group(rank, "first/")[name] for rank in range(2))
    assert torch.equal(first, second)
    own = []
    for rank in range(2):
        trainer = make_trainer(make_predictor(launched.kind))
        trainer.method.train()
        x, y = (launched.tensors[rank][part] for part in ("x", "y"))
        trainer.update.gradients(x, y, make_generator(0))
        own.append(dict(trainer.method.named_buffers())[name])
    torch.testing.assert_close(first, (own[0] + own[1]) / 2)
    assert not torch.allclose(first, own[0], rtol=1e-3)


def check_they_decide_together(launched: Launched) -> None:
    for told in launched.told:
        assert told["together"] == [True, False, {"share": 0.5, "two": 2}, [-1, 5]]


def check_all_stop_after_the_same_step(launched: Launched) -> None:
    for told in launched.told:
        assert told["step"] == 7
        assert told["message"].startswith("Stopped after step 7 of 12")


def check_all_believe_the_same_score(launched: Launched) -> None:
    expected = [[2, 3.0, True], [4, 2.0, True], [6, 1.0, True]]
    assert [told["scores"] for told in launched.told] == [expected, expected]


def check_only_the_first_process_writes(launched: Launched) -> None:
    names = {path.name for path in (launched.folder / "run-0" / "checkpoints").iterdir()}
    checkpoints = {"best", "step-00000004", "step-00000007"}  # none for a roll-back, which these settings rule out
    assert names == {f"{name}.safetensors" for name in checkpoints}
    assert (launched.folder / "run-0" / "log.jsonl").exists()
    assert not (launched.folder / "run-1").exists()


def check_no_thread_is_left_to_be_killed_at_exit(folder: Path) -> None:
    for rank in range(2):
        threads = json.loads((folder / f"threads-{rank}.json").read_text())
        exchanging = {when: [name for name in names if "gloo" in name] for when, names in threads.items()}
        assert exchanging["before"]  # or the next line would say nothing
        assert exchanging["after"] == []


@pytest.mark.parametrize(
    "kinds",
    [
        ("contrastive", "tspn"),  # chains, and batch norm
        pytest.param(("set-risk", "denoising", "denoiser"), marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_two_processes(tmp_path: Path, start_two: Callable[..., str], kinds: tuple[Kind, ...]) -> None:
    """One start, which costs seconds, serves several kinds and all checks."""
    start_two(str(SCRIPT), str(tmp_path), *kinds)
    for kind in kinds:
        launched = collect(kind, tmp_path / kind)
        check_there_are_two_and_their_data_differ(launched)
        if kind in ("contrastive", "set-risk"):  # their noise can be switched off
            check_gradients_are_those_of_the_joined_batch(launched)
        check_gradients_are_the_mean_of_those_with_each_process_s_own_noise(launched)
        if kind == "tspn":  # the one with batch norm
            check_running_statistics_are_of_all_data(launched)
        check_weights_agree_after_training_on_different_data(launched)
        check_they_decide_together(launched)
        check_all_stop_after_the_same_step(launched)
        check_all_believe_the_same_score(launched)
        check_only_the_first_process_writes(launched)
    check_no_thread_is_left_to_be_killed_at_exit(tmp_path)
