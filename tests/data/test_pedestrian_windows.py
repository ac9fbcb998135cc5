"""Recordings of pedestrians: where they are found, and the windows in them."""

import math
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import desp.data.pedestrian_files as files
from desp.data.folders import data_folder
from desp.data.pedestrian_files import (
    SCENES,
    check_recordings,
    fetch_recordings,
    pedestrian_folder,
    read_recording,
)
from desp.data.pedestrian_windows import (
    FRAMES,
    OBSERVED,
    Windows,
    augmented,
    some_people,
    split_in_time,
    windows_of,
)
from desp.data.pedestrians import WindowTable, load_pedestrians, simulated_pedestrians, some_of
from desp.errors import DataError
from walkers import straight_walkers, write_recordings


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small recordings that pass for the published ones."""
    monkeypatch.setattr(files, "CHECKSUMS", write_recordings(tmp_path / "pedestrians"))
    return tmp_path


def test_recordings_are_found_in_the_folder_or_below_it(recordings: Path) -> None:
    assert pedestrian_folder(recordings) == recordings / "pedestrians"
    assert pedestrian_folder(recordings / "pedestrians") == recordings / "pedestrians"


def test_what_is_missing_is_named_with_how_to_get_it(recordings: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"are not there.*desp data pedestrians.*--task.source simulated"):
        pedestrian_folder(tmp_path / "nowhere")
    (recordings / "pedestrians" / "biwi_eth.txt").unlink()
    with pytest.raises(DataError, match=r"not complete: biwi_eth\.txt missing"):
        pedestrian_folder(recordings)


def test_a_changed_recording_is_refused(recordings: Path) -> None:
    folder = recordings / "pedestrians"
    whole = check_recordings(folder)
    assert check_recordings(folder) == whole
    with (folder / "biwi_hotel.txt").open("a") as file:
        file.write("1\t2\t3\t4\n")
    with pytest.raises(DataError, match=rf"biwi_hotel.txt: expected the MD5 .* --data-dir {folder}"):
        load_pedestrians("eth", recordings)


def test_only_what_is_missing_is_fetched(recordings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = []
    monkeypatch.setattr(files, "download", lambda target, md5, *_: fetched.append((target, md5)))
    (recordings / "pedestrians" / "students001.txt").unlink()
    assert fetch_recordings(recordings) == recordings / "pedestrians"
    target = recordings / "pedestrians" / "students001.txt"
    assert fetched == [(target, files.CHECKSUMS["students001.txt"])]


@pytest.mark.parametrize("text", ["1\t2\t3\n", "1\t2\t3\tx\n", "1\t2\t3\tnan\n"])
def test_lines_that_are_no_positions_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "walk.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=re.escape(f"{path}: expected")):
        read_recording(path)


def test_a_window_has_who_is_there_throughout() -> None:
    rows = straight_walkers(3, FRAMES + 2)
    gone = (rows[:, 1] == 2) & (rows[:, 0] == 10.0 * 20)  # the second is missing in the frame before the last
    found = windows_of(rows[~gone])
    assert [len(window) for window in found] == [3, 2, 2]
    expected = rows[rows[:, 1] == 1][:FRAMES, 2:]
    torch.testing.assert_close(found[0][0], torch.tensor(expected).float())
    expected = rows[rows[:, 1] == 3][1 : FRAMES + 1, 2:]
    torch.testing.assert_close(found[1][1], torch.tensor(expected).float())


def test_a_gap_between_frames_ends_a_window() -> None:
    rows = straight_walkers(1, 2 * FRAMES)
    rows[rows[:, 0] >= 10.0 * FRAMES, 0] += 50
    assert len(windows_of(rows)) == 2
    assert windows_of(straight_walkers(2, FRAMES - 1)) == []


def test_parts_of_a_recording_share_no_frame() -> None:
    rows = straight_walkers(2, 100)
    first, last = split_in_time(rows, 0.15)
    assert (len(np.unique(first[:, 0])), len(np.unique(last[:, 0]))) == (85, 15)
    assert first[:, 0].max() < last[:, 0].min()
    assert len(first) + len(last) == len(rows)


def test_padding() -> None:
    paths = [torch.ones(2, FRAMES, 2), torch.ones(1, FRAMES, 2)]
    windows = Windows.of(paths, 4)
    assert windows.paths.shape == (2, 4, FRAMES, 2)
    assert windows.mask.sum(dim=1).tolist() == [2, 1]


def test_the_scene_that_is_left_out_is_the_test(recordings: Path) -> None:
    folder = recordings / "pedestrians"
    for scene, names in SCENES.items():
        data = load_pedestrians(scene, recordings)
        assert len(data.test.x) == sum(len(windows_of(read_recording(folder / name))) for name in names)
        training = [windows_of(split_in_time(read_recording(folder / name), 0.15)[0]) for name in files.CHECKSUMS]
        left_out = [number for number, name in enumerate(files.CHECKSUMS) if name in names]
        counts = [len(item) for number, item in enumerate(training) if number not in left_out]
        assert len(data.training) == sum(counts)
        assert data.data_label == "ETH/UCY"
        assert data.training.mask.shape[1] == data.test.x.shape[1] == data.max_size


def test_some_windows_are_spread_over_all() -> None:
    batch = simulated_pedestrians("eth").test
    some = some_of(batch, 3)
    assert torch.equal(some.x, batch.x[[0, (len(batch.x) - 1) // 2, len(batch.x) - 1]])
    assert some_of(batch, None) is batch
    assert some_of(batch, 10**6) is batch


def test_augmented_windows_are_turned_mirrored_and_scaled() -> None:
    windows, scale = crowd((3, 1, 12)), 1.4
    found = augmented(windows, torch.Generator().manual_seed(1), scale)
    chance = torch.rand(5, 3, 1, 1, generator=torch.Generator().manual_seed(1))
    angle, mirrored = 2 * math.pi * chance[0].flatten(), chance[1].flatten() >= 0.5
    assert mirrored.any()
    assert not mirrored.all()
    turn = torch.stack([angle.cos(), angle.sin(), -angle.sin(), angle.cos()], dim=1).view(3, 1, 2, 2)
    flips = torch.where(mirrored, -1.0, 1.0).view(3, 1, 1)
    paths = windows.paths * torch.stack([torch.ones(3, 1, 1), flips], dim=-1)
    factors = scale ** (2 * chance[2].view(3, 1, 1, 1) - 1)
    assert bool(((factors > 1 / scale) & (factors < scale)).all())
    torch.testing.assert_close(found.paths, factors * (paths @ turn))
    assert torch.equal(found.mask, windows.mask)


def test_noise_is_on_what_was_seen_in_half_of_the_windows() -> None:
    windows = crowd((3, 1, 12) * 20)
    plain, noisy = (augmented(windows, torch.Generator().manual_seed(1), 1.4, noise) for noise in (0.0, 0.5))
    assert torch.equal(noisy.paths[:, :, OBSERVED:], plain.paths[:, :, OBSERVED:])
    moved = (noisy.paths - plain.paths)[:, :, :OBSERVED]
    deviations = moved[windows.mask].flatten(1)
    assert 15 < int((moved.flatten(1).abs().amax(dim=1) > 1e-4).sum()) < 45
    assert 0.05 < float(deviations.std()) < 0.5
    assert float(deviations[:, -2:].std()) == pytest.approx(float(deviations.std()), rel=0.2)
    assert bool((noisy.paths[~windows.mask] == 0).all())


@pytest.mark.parametrize("people", [1, 3, 20])
def test_some_people_of_a_window_are_each_there_once(people: int) -> None:
    windows = crowd((5, 1, 8) * 40)
    found = some_people(windows, people, torch.Generator().manual_seed(0))
    assert found.mask.shape[1] == min(people, 8)
    assert found.mask.sum(dim=1).tolist() == [min(people, size) for size in (5, 1, 8)] * 40
    places = set[int]()
    for some, every, mask in zip(found.paths.flatten(2), windows.paths.flatten(2), found.mask, strict=True):
        distances = torch.cdist(some[mask], every)
        assert float(distances.amin(dim=1).max()) < 1e-3
        assert len(set(distances.argmin(dim=1).tolist())) == int(mask.sum())
        places |= set(distances.argmin(dim=1).tolist())
    assert places == set(range(8))
    drawn = WindowTable(windows, people=people).draw(4, torch.Generator().manual_seed(0))
    assert drawn.x.shape[:2] == drawn.sets.elements.shape[:2] == (4, min(people, 8))


def crowd(sizes: tuple[int, ...]) -> Windows:
    """People who walk at random."""
    generator = torch.Generator().manual_seed(0)
    steps = [0.3 * torch.randn(size, FRAMES, 2, generator=generator) for size in sizes]
    return Windows.of(
        [5 * torch.rand(len(item), 1, 2, generator=generator) + item.cumsum(dim=1) for item in steps]
    )


def _there() -> bool:
    base = data_folder()
    return any((place / "biwi_eth.txt").is_file() for place in (base, base / "pedestrians"))


@pytest.mark.skipif(not os.environ.get("DESP_DATA") or not _there(), reason="DESP_DATA has no pedestrians")
def test_the_real_recordings_have_as_many_windows_as_others_count() -> None:
    found = {scene: len(load_pedestrians(scene).test.x) for scene in SCENES}
    assert found == {"eth": 253, "hotel": 445, "univ": 947, "zara1": 705, "zara2": 998}
