"""Labels for given elements, from the command line: element i of the output belongs to element i of the input."""

import json
from pathlib import Path

import pytest

from desp.cli.main import main


def test_train_score_predict_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    inputs = [[[k / 12, i / 3] for i in range(1 + k % 3)] for k in range(12)]
    records = [{"input": x, "set": [[element[1]] for element in x]} for x in inputs]
    Path("data.jsonl").write_text("\n".join(map(json.dumps, records)))
    small = ["--method.energy.hidden", "8", "--method.sampler.steps", "2", "--training.batch-size", "4"]
    data = ["--data", "data.jsonl", "--task.description.aligned"]
    main(["train", "custom", *data, "--run", "run", "--training.steps", "3", "--device", "cpu", *small])
    main(["evaluate", "run", "--samples", "2"])
    asked = [{"input": [[0.5, 0.1]]}, {"input": [[0.5, 0.1], [0.2, 0.9], [0.4, 0.4]]}]
    Path("inputs.jsonl").write_text("\n".join(map(json.dumps, asked)))
    main(["predict", "run", "--input", "inputs.jsonl", "--output", "out.jsonl", "--samples", "2"])
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [[len(sample["set"]) for sample in line["samples"]] for line in lines] == [[1, 1], [3, 3]]
    main(["report", "run"])
    page = Path("run/report.html").read_text()
    shown = json.loads(Path("run/samples.json").read_text())["examples"][0]
    assert [len(sample["set"]) for sample in shown["samples"]] == [len(shown["elements"])] * len(shown["samples"])
    # A shown chain has the elements of its input as well.
    presence = [row[-1] for row in shown["chain"]["frames"][-1]]
    assert presence == [1.0] * len(shown["elements"]) + [0.0] * (3 - len(shown["elements"]))
    table = page[page.index("held-out example 1") :].split("</table>")[0]
    assert table.count("<tr>") == 1 + len(shown["elements"])
    for sample in shown["samples"]:
        assert f"{abs(sample['set'][-1][0]):.4g}"[:4] in table
    capsys.readouterr()
