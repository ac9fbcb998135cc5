"""What is measured on a GPU, and where it says that it comes from."""

import pytest
import torch

from desp.benchmarks.chains import sampler_rows
from desp.benchmarks.measure import BenchOptions, measure
from desp.runs.provenance import provenance

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = torch.device("cuda")


def test_time_and_memory_are_the_gpus() -> None:
    kept = torch.ones(2**24, device=DEVICE)  # 64 MB, which the work did not ask for
    timing = measure(lambda: kept[: 2**23] + 1, DEVICE, repeats=3)
    assert 31 < timing["peak_mb"] < 60
    assert timing["ms"] > 0
    queued = measure(lambda: torch.cuda._sleep(20_000_000), DEVICE, repeats=1)  # returns at once, lasts 10 ms
    assert queued["ms"] > 2


def test_provenance_names_the_gpu_and_what_was_allocated_there() -> None:
    torch.cuda.reset_peak_memory_stats()
    kept = torch.ones(2**24, device=DEVICE)
    facts = provenance(DEVICE)
    assert facts["device"] == torch.cuda.get_device_name()
    assert facts["versions"]["cuda"]
    assert facts["peak_memory_mb"] >= kept.numel() * 4 / 2**20


def test_the_reference_is_also_measured_as_one_graph() -> None:
    """It computes what the plain loop does, and is faster than that."""
    (row,) = sampler_rows(BenchOptions(DEVICE, engine="graph", tasks=("celeba",), repeats=3))
    assert 0 < row["captured_ms"] < row["reference_ms"]
    assert row["captured_speedup"] == pytest.approx(row["captured_ms"] / row["ms"])
    assert row["captured_spread_ms"] >= 0
