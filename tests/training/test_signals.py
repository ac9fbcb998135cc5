"""Ctrl-C at a moment that suits the loop."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from desp.training.progress import deferred_signals


@pytest.fixture(autouse=True)
def _outlives_signals() -> Iterator[None]:
    """A SIGTERM that nobody handles would end the process, and with it the report of what failed."""
    old = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, old)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_asks_and_second_interrupts(number: signal.Signals) -> None:
    before = [signal.getsignal(item) for item in (signal.SIGINT, signal.SIGTERM)]
    with deferred_signals() as asked_to_stop:
        assert not asked_to_stop()
        os.kill(os.getpid(), number)
        assert asked_to_stop()
        with pytest.raises(KeyboardInterrupt, match="second signal"):
            os.kill(os.getpid(), number)
    assert [signal.getsignal(item) for item in (signal.SIGINT, signal.SIGTERM)] == before


def test_handlers_of_others_come_back() -> None:
    seen: list[int] = []
    old = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        with deferred_signals() as asked_to_stop:
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, old)
    assert asked_to_stop()
    assert seen == [signal.SIGTERM]


def test_other_threads_can_train_too() -> None:
    handler = signal.getsignal(signal.SIGINT)
    outcome: list[object] = []

    def work() -> None:
        with deferred_signals() as asked_to_stop:
            outcome.extend([asked_to_stop(), signal.getsignal(signal.SIGINT)])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert outcome == [False, handler]
    assert signal.getsignal(signal.SIGINT) is handler
