"""Threads of a training: one for small models, and as many as before afterwards; and its precision."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from tiny_problem import SHORT

from desp.errors import SettingsError
from desp.training.device import make_accelerator, suitable_threads

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("device", "hidden", "expected"), [("cpu", 64, 1), ("cpu", 256, 2), ("cuda", 64, 2)])
def test_small_models_take_one(device: str, hidden: int, expected: int) -> None:
    with suitable_threads(torch.device(device), batch_size=64, max_size=8, hidden=hidden):
        assert torch.get_num_threads() == expected
    assert torch.get_num_threads() == 2


def test_they_come_back_after_an_error() -> None:
    with pytest.raises(KeyboardInterrupt), suitable_threads(CPU, batch_size=1, max_size=1, hidden=1):
        raise KeyboardInterrupt
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("precision", ["no", "bf16", "fp16"])
def test_of_mixed_precisions_only_fp16_is_refused(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Launched(Accelerator):
        mixed_precision, device = precision, torch.device("cpu")

        def __init__(self, **_: Any) -> None:
            pass

    monkeypatch.setattr("desp.training.device.Accelerator", Launched)
    if precision == "fp16":
        with pytest.raises(SettingsError, match="fp16 is not supported"):
            make_accelerator("cpu", SHORT, None)
    else:
        assert isinstance(make_accelerator("cpu", SHORT, None), Launched)
