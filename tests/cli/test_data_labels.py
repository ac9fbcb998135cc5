"""From a table of items to predicted subsets, as the page on methods shows it."""

import json
import runpy
import shlex
from pathlib import Path

import pytest

from desp.cli.main import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_subsets.py"
SMALL = ["--method.energy.hidden", "8", "--training.steps", "3", "--training.batch-size", "8", "--device", "cpu"]


def test_a_table_is_converted_trained_on_and_predicted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE))["main"](Path("fruit.csv"), 40)
    main(["data", "labels", "fruit.csv", "--output", "fruit.jsonl", "--label-columns", "by_colour", "by_size"])
    told = capsys.readouterr().out
    assert "fruit.jsonl: 40 sets of 4 to 6 items" in told
    assert "4 features: hue, diameter, price, day" in told
    command = told.split("To train: desp ")[1].split()
    assert command[-3:] == ["--task.description.aligned", "--use-method", "label-likelihood"]
    main([*command, *SMALL])
    main(["predict", "runs/fruit", "--input", "fruit.jsonl", "--samples", "3", "--output", "predicted.jsonl"])
    lines = [json.loads(line) for line in Path("predicted.jsonl").read_text().splitlines()]
    given = [json.loads(line) for line in Path("fruit.jsonl").read_text().splitlines()]
    assert len(lines) == len(given) == 40
    for line, item in zip(lines, given, strict=True):
        assert [len(sample["set"]) for sample in line["samples"]] == [len(item["input"])] * 3
        assert {round(row[0], 4) for sample in line["samples"] for row in sample["set"]} <= {0.0, 1.0}
    capsys.readouterr()


def test_the_command_to_train_can_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("items.csv").write_text("set,label,x\na,1,2\na,0,3\n")
    main(["data", "labels", "items.csv", "--output", "my items.jsonl"])
    command = shlex.split(capsys.readouterr().out.split("To train: ")[1])
    assert command[:7] == ["desp", "train", "custom", "--data", "my items.jsonl", "--run", "runs/my items"]


def test_the_table_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("set,label,x\na,1,2\na,0,3\n")
    with pytest.raises(SystemExit):
        main(["data", "labels", str(path), "--output", str(path)])
    assert path.read_text().startswith("set,label")


def test_the_answers_of_the_example_are_right() -> None:
    example = runpy.run_path(str(EXAMPLE))
    import torch

    generator = torch.Generator().manual_seed(3)
    for _ in range(50):
        features, answers = example["draw_fruit"](generator)
        for labels in answers:
            assert labels == [] or (3 <= sum(labels) < len(features) == len(labels))
