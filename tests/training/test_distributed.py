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


def check_gradients_are_those_of_the_joined_batch(launched: Launched) -> None:
    trainer = make_trainer(make_predictor(launched.kind, noise=0.0))
    x, y = (torch.cat([tensors[name] for tensors in launched.tensors]) for name in ("x", "y"))
    trainer.gradients(x, y, torch.Generator())
    averaged = [launched.group(rank, "gradient/") for rank in range(2)]
    parameters = dict(trainer.estimator.named_parameters())
    assert averaged[0].keys() == averaged[1].keys() == parameters.keys()
    for name, parameter in parameters.items():
        assert torch.equal(averaged[0][name], averaged[1][name]), name
        torch.testing.assert_close(averaged[0][name], parameter.grad, rtol=1e-5, atol=1e-6)
    # Were each process left with its own gradients, they would be far from these.
    trainer.gradients(x[:8], y[:8], torch.Generator())
    apart = max(float((averaged[0][name] - own.grad).abs().max()) for name, own in parameters.items())
    assert apart > 1e-4


def check_weights_agree_after_training_on_different_data(launched: Launched) -> None:
    first, second = (launched.group(rank, "weight/") for rank in range(2))
    start = make_predictor(launched.kind).network.state_dict()
    assert first.keys() == second.keys() == start.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []
    assert not all(torch.equal(first[name], start[name]) for name in first)


def check_they_decide_together(launched: Launched) -> None:
    for told in launched.told:
        assert told["together"] == [True, False, {"share": 0.5, "two": 2}]


def check_all_stop_after_the_same_step(launched: Launched) -> None:
    for told in launched.told:
        assert told["step"] == 7
        assert told["message"].startswith("Stopped after step 7 of 12")


def check_all_believe_the_same_score(launched: Launched) -> None:
    expected = [[2, 3.0, True], [4, 2.0, True], [6, 1.0, True]]
    assert [told["scores"] for told in launched.told] == [expected, expected]


def check_only_the_first_process_writes(launched: Launched) -> None:
    names = {path.name for path in (launched.folder / "run-0" / "checkpoints").iterdir()}
    assert names == {"best.safetensors", "step-00000004.safetensors", "step-00000007.safetensors"}
    assert (launched.folder / "run-0" / "log.jsonl").exists()
    assert not (launched.folder / "run-1").exists()


def check_no_thread_is_left_to_be_killed_at_exit(launched: Launched) -> None:
    for rank in range(2):
        threads = json.loads((launched.folder / f"threads-{rank}.json").read_text())
        exchanging = {when: [name for name in names if "gloo" in name] for when, names in threads.items()}
        assert exchanging["before"]  # or the next line would say nothing
        assert exchanging["after"] == []


@pytest.mark.parametrize("kind", ["contrastive", "set-risk"])  # their noise can be switched off
def test_two_processes(tmp_path: Path, kind: Kind, launch_two: Callable[..., str]) -> None:
    """One launch, which costs seconds, serves all checks."""
    launch_two(str(SCRIPT), str(tmp_path), kind)
    launched = collect(kind, tmp_path)
    check_there_are_two_and_their_data_differ(launched)
    check_gradients_are_those_of_the_joined_batch(launched)
    check_weights_agree_after_training_on_different_data(launched)
    check_they_decide_together(launched)
    check_all_stop_after_the_same_step(launched)
    check_all_believe_the_same_score(launched)
    check_only_the_first_process_writes(launched)
    check_no_thread_is_left_to_be_killed_at_exit(launched)
