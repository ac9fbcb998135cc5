"""The precision of matrix products is one for all threads."""

import threading

import torch

from desp.precision import matmul_precision


def test_it_is_put_back_after_the_innermost() -> None:
    before = torch.get_float32_matmul_precision()
    with matmul_precision("high"):
        with matmul_precision("medium"), matmul_precision(None):
            assert torch.get_float32_matmul_precision() == "medium"
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


def test_it_stays_until_the_last_thread_leaves() -> None:
    before = torch.get_float32_matmul_precision()
    entered, leave = threading.Event(), threading.Event()

    def inside() -> None:
        with matmul_precision("high"):
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=inside)
    with matmul_precision("high"):
        thread.start()
        assert entered.wait(60)
    try:
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        leave.set()
        thread.join()
    assert torch.get_float32_matmul_precision() == before
