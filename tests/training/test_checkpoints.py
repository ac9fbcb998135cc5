"""Checkpoints: exact, atomic, and honest about damage."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from desp.errors import CheckpointError
from desp.storage import write_together
from desp.training.checkpoints import (
    Checkpoint,
    CheckpointStore,
    fill_checkpoint,
    flatten_optimizer,
    load_checkpoint,
    restore_optimizer,
)

STATE = {"step": 7, "best_score": None, "seconds": 1.25, "name": "é", "list": [1, 2]}


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    write_together({path: partial(fill_checkpoint, checkpoint)})


def all_kinds() -> dict[str, Tensor]:
    """Tensors of every shape and type that a run could hold."""
    return {
        "a/matrix": torch.randn(3, 4),
        "a/scalar": torch.tensor(3.5),
        "a/empty": torch.empty(0, 5),
        "b/bf16": torch.randn(6).bfloat16(),
        "b/scalar_bf16": torch.tensor(0.1, dtype=torch.bfloat16),
        "b/double": torch.randn(2, dtype=torch.float64),
        "b/int": torch.tensor([2**62, -1]),
        "b/bool": torch.tensor([True, False]),
        "b/transposed": torch.randn(3, 4).T,
        "b/expanded": torch.randn(1, 4).expand(3, 4),
    }


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert (value.shape, value.dtype) == (second[name].shape, second[name].dtype), name
        assert torch.equal(value, second[name]), name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A checkpoint of one small tensor."""
    path = tmp_path / "one.safetensors"
    save_checkpoint(path, Checkpoint({"weight": torch.arange(6.0).view(2, 3)}, STATE))
    return path


def test_round_trip_is_exact(tmp_path: Path) -> None:
    tensors = all_kinds()
    save_checkpoint(tmp_path / "all.safetensors", Checkpoint(tensors, STATE))
    loaded = load_checkpoint(tmp_path / "all.safetensors")
    assert_same(loaded.tensors, tensors)
    assert loaded.state == STATE
    assert sorted(loaded.group("a")) == ["empty", "matrix", "scalar"]
    assert [item.name for item in tmp_path.iterdir()] == ["all.safetensors"]


def test_round_trip_of_nothing(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "none.safetensors", Checkpoint({}, {}))
    assert load_checkpoint(tmp_path / "none.safetensors") == Checkpoint({}, {})


def test_tensors_may_share_memory(tmp_path: Path) -> None:
    weight = torch.randn(4, 2)
    tied = {"in": weight, "out": weight, "part": weight[1:3]}
    save_checkpoint(tmp_path / "tied.safetensors", Checkpoint(tied, {}))
    assert_same(load_checkpoint(tmp_path / "tied.safetensors").tensors, tied)


def test_a_failing_write_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(temporary: Path, content: bytes) -> None:
        temporary.write_text(str(content[:9]))
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(path, Checkpoint({}, {"step": 8}))
    assert load_checkpoint(path).state == STATE
    assert list(path.parent.iterdir()) == [path]


def test_a_checkpoint_that_is_being_written_is_not_swept(path: Path) -> None:
    """It stays the file that its writer has locked."""
    store = CheckpointStore(path.parent)

    def sweep_meanwhile(temporary: Path) -> None:
        before = temporary.stat().st_ino
        fill_checkpoint(at(8), temporary)
        assert temporary.stat().st_ino == before
        store.sweep()

    write_together({path: sweep_meanwhile})
    assert load_checkpoint(path).state == {"step": 8}


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no checkpoint at .*nowhere\.safetensors"):
        load_checkpoint(tmp_path / "nowhere.safetensors")


@pytest.mark.parametrize("kept", [0, 4, 20, 0.5, -1])
def test_cut_short(path: Path, kept: float) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if isinstance(kept, float) else kept])
    with pytest.raises(CheckpointError, match=r"one\.safetensors is damaged"):
        load_checkpoint(path)


def test_flipped_byte_in_the_payload(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"one\.safetensors was changed.*checksum"):
        load_checkpoint(path)


@given(place=st.integers(0, 10_000), value=st.integers(0, 255))
def test_no_changed_byte_changes_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int
) -> None:
    path = tmp_path_factory.mktemp("flip") / "one.safetensors"
    checkpoint = Checkpoint({"weight": torch.arange(6.0).view(2, 3)}, {"step": 7})
    save_checkpoint(path, checkpoint)
    content = bytearray(path.read_bytes())
    content[place % len(content)] = value
    path.write_bytes(content)
    try:
        loaded = load_checkpoint(path)
    except CheckpointError:
        return
    assert_same(loaded.tensors, checkpoint.tensors)
    assert loaded.state == checkpoint.state


@pytest.mark.parametrize(("old", "new"), [(b'\\"step\\": 7', b'\\"step\\": 9'), (b"[2,3]", b"[3,2]")])
def test_changed_header(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))
    with pytest.raises(CheckpointError, match="checksum does not fit"):
        load_checkpoint(path)


def test_a_file_without_the_checksum_of_its_header(path: Path) -> None:
    with safe_open(path, framework="pt") as file:
        metadata, tensors = file.metadata(), {"weight": file.get_tensor("weight")}
    del metadata["header_digest"]
    save_file(tensors, path, metadata)
    with pytest.raises(CheckpointError, match="checksum"):
        load_checkpoint(path)


def test_other_formats(tmp_path: Path) -> None:
    path = tmp_path / "new.safetensors"
    save_file({"weight": torch.ones(2)}, path, {"format": "99", "state": "{}", "digest": ""})
    with pytest.raises(CheckpointError, match="format 99, this version reads 1"):
        load_checkpoint(path)


@pytest.mark.parametrize("metadata", [None, {"other": "x"}, {"format": "1", "state": "{not json"}])
def test_safetensors_files_of_others(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    path = tmp_path / "other.safetensors"
    save_file({"weight": torch.ones(2)}, path, metadata)
    with pytest.raises(CheckpointError, match=r"other\.safetensors is damaged or not a checkpoint"):
        load_checkpoint(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip file", json.dumps({"a": 1}).encode() * 30])
def test_not_safetensors_at_all(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"notes\.safetensors is damaged or not a checkpoint"):
        load_checkpoint(path)


def test_a_file_that_cannot_be_read_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("Permission denied")

    monkeypatch.setattr("desp.training.checkpoints.safe_open", refuse)
    with pytest.raises(CheckpointError, match=rf"{path.name}.*Permission denied"):
        load_checkpoint(path)


def at(step: int) -> Checkpoint:
    return Checkpoint({"weight": torch.full((2,), float(step))}, {"step": step})


def test_store_keeps_the_newest_and_the_best(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints")
    assert store.latest() is None
    assert store.paths() == []
    for step in (8, 9, 10, 101):
        store.save(step, at(step))
        if step == 9:
            save_checkpoint(store.best_path, at(step))
    assert [item.name for item in store.paths()] == ["step-00000010.safetensors", "step-00000101.safetensors"]
    assert store.latest().state == {"step": 101}
    assert load_checkpoint(store.best_path).state == {"step": 9}
    assert len(list(store.folder.iterdir())) == 3


def test_store_ignores_what_a_crash_left(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(3, at(3))
    (tmp_path / ".step-00000009.safetensors.k3j2.tmp").write_bytes(b"half")
    (tmp_path / "step-00000009.safetensors.tmp").write_bytes(b"half")
    (tmp_path / "step-notes.safetensors").write_bytes(b"half")
    assert store.latest().state == {"step": 3}
    assert len(store.paths()) == 1


def test_store_sweeps_out_what_a_crash_left_and_nothing_else(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(3, at(3))
    save_checkpoint(store.best_path, at(3))
    for name in (".step-00000009.safetensors.k3j2.tmp", ".best.safetensors.a_b1.tmp", ".tmpQ3xkZ0"):
        (tmp_path / name).write_bytes(b"half")
    others = {".notes.tmp", ".tmp-notes", ".tmpnotes12"}
    for name in others:
        (tmp_path / name).write_bytes(b"of somebody else")
    store.sweep()
    names = {*others, "best.safetensors", "step-00000003.safetensors"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_store_drops_old_ones_only_when_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(tmp_path)
    for step in (1, 2):
        store.save(step, at(step))

    def full_disk(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(OSError, match="No space left"):
        store.save(3, at(3))
    assert [load_checkpoint(path).state["step"] for path in store.paths()] == [1, 2]


def test_store_names_the_damaged_newest(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(3, at(3))
    store.save(4, at(4))
    newest = store.paths()[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"step-00000004\.safetensors is damaged"):
        store.latest()
    newest.unlink()  # what the message asks for
    assert store.latest().state == {"step": 3}


def trained(steps: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A module after some optimiser steps; one parameter never gets a gradient."""
    torch.manual_seed(0)
    module = nn.ModuleDict({"used": nn.Linear(3, 2), "unused": nn.Linear(1, 1)})
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(steps):
        step(module, optimizer)
    return module, optimizer


def step(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    module["used"](torch.ones(4, 3)).square().mean().backward()
    optimizer.step()


@pytest.mark.parametrize("steps", [0, 3])
def test_optimizer_state_survives_a_file(tmp_path: Path, steps: int) -> None:
    module, optimizer = trained(steps)
    save_checkpoint(tmp_path / "it.safetensors", Checkpoint(flatten_optimizer(optimizer), {}))
    saved = load_checkpoint(tmp_path / "it.safetensors").tensors
    other, restored = trained(5)  # something else that must go
    other.load_state_dict(module.state_dict())
    restore_optimizer(restored, saved)
    assert_same(flatten_optimizer(restored), flatten_optimizer(optimizer))
    for _ in range(2):
        step(module, optimizer)
        step(other, restored)
    assert_same(dict(other.state_dict()), dict(module.state_dict()))


def test_restored_tensors_stay_as_they_were() -> None:
    """What was saved once may be restored again and again: it must not be the optimiser's own memory."""
    module, optimizer = trained(2)
    saved = {name: value.clone() for name, value in flatten_optimizer(optimizer).items()}
    kept = {name: value.clone() for name, value in saved.items()}
    restore_optimizer(optimizer, saved)
    step(module, optimizer)
    assert_same(saved, kept)


def test_restored_moments_have_the_memory_layout_of_their_parameter() -> None:
    """Files hold contiguous tensors; fused Adam refuses them as moments of channels_last weights."""
    weights = [nn.Parameter(torch.rand(4, 3, 2, 2).to(memory_format=torch.channels_last)) for _ in range(2)]
    saved: dict[str, torch.Tensor] = {}
    for weight in weights:
        optimizer = torch.optim.Adam([weight], fused=True)
        if saved:
            restore_optimizer(optimizer, saved)
            assert_same(flatten_optimizer(optimizer), saved)
        weight.square().sum().backward()
        optimizer.step()
        for name in ("exp_avg", "exp_avg_sq"):
            assert optimizer.state[weight][name].stride() == weight.stride()
        saved = {name: value.contiguous() for name, value in flatten_optimizer(optimizer).items()}
