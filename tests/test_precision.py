"""The precision of matrix products, and the number of threads, are one for all threads."""

import threading

import torch

from desp.constants import constant
from desp.precision import matmul_precision
from desp.training.device import one_thread


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


def test_the_number_of_threads_is_put_back_whoever_leaves_last() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert torch.get_num_threads() == 1
        second.__exit__(None, None, None)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_threads_get_the_same_constant() -> None:
    together, found = threading.Barrier(8), []

    def ask() -> None:
        together.wait(60)
        found.append(constant((3, 1, 4, 1, 5), torch.device("cpu"), torch.int64))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(item) for item in found}) == 1
