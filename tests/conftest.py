"""Shared by all tests: live shape checks, one thread, and the symmetry every set function must have."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import jaxtyping
import pytest
import torch

if TYPE_CHECKING:
    from pretend_cuda import PretendGraph

sys.path.insert(0, str(Path(__file__).parent))  # for modules that tests share with the scripts they start

import shape_checks
from tiny_mnist import write_tiny_mnist

# Shapes in annotations are checked while tests run. Compiled functions cannot be traced through the checks,
# so machines with a CUDA device, where chains are compiled, go without them.
if not torch.cuda.is_available():
    jaxtyping.jaxtyped = shape_checks.jaxtyped
    jaxtyping.install_import_hook("desp", "shape_checks.checked")

# A shell starts commands in the background with SIGINT ignored, and the processes of tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

if find_spec("hypothesis"):  # not on every machine that runs nothing but the tests marked gpu
    from hypothesis import settings

    settings.register_profile("desp", deadline=None, derandomize=True, max_examples=30)
    settings.load_profile("desp")


@pytest.fixture
def generator() -> torch.Generator:
    """A generator with a fixed seed."""
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Networks take their initial weights from torch's global generator."""
    torch.default_generator.manual_seed(0)  # those of other devices take a millisecond to seed
    shape_checks.Test.number += 1


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Switch the live shape checks off, for tests of what a user without them is told."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


SetFunction = Callable[..., torch.Tensor]


def check_invariance(
    function: SetFunction,
    sets: torch.Tensor,
    presence: torch.Tensor | None = None,
    *,
    tolerance: float = 1e-5,
) -> None:
    """Check that `function` of sets (B, N, D) does not depend on the order of elements.

    Args:
        function: from sets, and with a mask from sets and presence, to one row for each set.
        sets: (B, N, D).
        presence: (B, N); given, `function(sets, presence)` must also ignore what absent rows hold and how
            many of them there are.
        tolerance: absolute and relative.
    """
    extra = () if presence is None else (presence,)
    expected = function(sets, *extra)
    assert expected.shape[0] == sets.shape[0]
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        order = torch.randperm(sets.shape[1], generator=generator)
        mixed = function(sets[:, order], *(mask[:, order] for mask in extra))
        torch.testing.assert_close(mixed, expected, rtol=tolerance, atol=tolerance)
    if presence is None:
        return
    rubbish = 100 * torch.randn(sets.shape, generator=generator, dtype=sets.dtype)
    overwritten = torch.where(presence.unsqueeze(-1), sets, rubbish)
    torch.testing.assert_close(function(overwritten, presence), expected, rtol=tolerance, atol=tolerance)
    padded = torch.cat([rubbish[:, :3], sets], dim=1)
    mask = torch.nn.functional.pad(presence, (min(3, sets.shape[1]), 0))
    torch.testing.assert_close(function(padded, mask), expected, rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="session")
def assert_invariant() -> Callable[..., None]:
    """`check_invariance`: one symmetry check for every pool, encoder, energy and distance."""
    return check_invariance


# -- a tiny MNIST ----------------------------------------------------------------------------------------


@pytest.fixture
def tiny_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a tiny MNIST that passes for the official one, away from the user's own folders."""
    import desp.data.mnist_files

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home-data"))
    monkeypatch.delenv("DESP_DATA", raising=False)
    folder = tmp_path / "data"
    monkeypatch.setitem(desp.data.mnist_files.CHECKSUMS, "mnist", write_tiny_mnist(folder / "mnist"))
    return folder


@pytest.fixture
def tiny_fashion(tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same folder, with a Fashion-MNIST beside it that has fewer images."""
    import desp.data.mnist_files

    sums = write_tiny_mnist(tiny_mnist / "fashion", training=120, test=20)
    monkeypatch.setitem(desp.data.mnist_files.CHECKSUMS, "fashion", sums)
    return tiny_mnist


@pytest.fixture
def launch_two() -> Callable[..., str]:
    """A function that starts two processes with these arguments, as users do, and returns what they print."""
    # `accelerate launch --cpu` starts one process however many are asked for, so this is the launcher for several
    # devices; the variable keeps the processes themselves on the CPU.
    launcher = [str(Path(sys.executable).parent / "accelerate"), "launch", "--multi_gpu", "--num_processes", "2"]
    launcher += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    launcher += ["--main_process_port", "0"]  # any that is free
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}

    def launch(*arguments: str) -> str:
        command = [*launcher, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return launch


@pytest.fixture
def start_two() -> Callable[..., str]:
    """The same without a launcher, which takes seconds itself."""

    def start(*arguments: str) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
        shared |= {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
        started = [
            subprocess.Popen(
                [sys.executable, *arguments],
                env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            told = [process.communicate(timeout=200) for process in started]
        finally:
            for process in started:
                process.kill()
        assert [process.returncode for process in started] == [0, 0], "\n".join(item[-3000:] for _, item in told)
        return "".join(item for item, _ in told)

    return start


@pytest.fixture
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra `viz` were not installed."""
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


PICTURES = {"svg": b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>', "png": b"\x89PNG"}


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made but come out empty: drawing takes a second a page, for tests that read the words around."""
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "savefig", lambda _, buffer, *, format, **__: buffer.write(PICTURES[format]))


@pytest.fixture
def captured_graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list["PretendGraph"]]:
    """CUDA graphs are captured and replayed on the CPU in a test that asks for these; see `pretend_cuda`."""
    from pretend_cuda import pretended_cuda

    with pretended_cuda(monkeypatch) as made:
        yield made
