"""Training on a GPU: which device it takes, and what happens where capture fails."""

from dataclasses import replace

import pytest
import torch
from accelerate import Accelerator
from tiny_problem import SHORT, make_predictor, make_trainer
from torch import Tensor

from desp.training.device import default_device, make_accelerator
from desp.training.update import Update

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = "cuda"


def test_a_gpu_is_taken_unless_the_cpu_is_asked_for() -> None:
    assert default_device("auto").type == default_device("cuda").type == DEVICE
    assert default_device("cpu").type == "cpu"
    assert make_accelerator("auto", SHORT, None).device.type == DEVICE


def test_steps_that_cannot_be_captured_are_taken_plainly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A value that is read on the host breaks the capture off; weights and noise go on as if it had not been."""
    settings, ends = replace(SHORT, ema_decay=0.9, warmup_steps=3), []
    gradients = Update.gradients

    def reading(self: Update, *args: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        loss, statistics = gradients(self, *args)
        assert float(loss) == float(loss)
        return loss, statistics

    for engine in ("eager", "auto"):
        trainer = make_trainer(make_predictor("denoising", engine=engine), settings, accelerator=Accelerator())
        if engine == "auto":
            monkeypatch.setattr(Update, "gradients", reading)
        ends.append(trainer.fit().weights)
        assert not trainer.update.captures
    assert sum("training runs eagerly, as capturing the step failed" in line for line in caplog.messages) == 1
    for name, value in ends[0].items():
        torch.testing.assert_close(ends[1][name], value, rtol=1e-3, atol=1e-3)
