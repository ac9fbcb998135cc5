"""The table of the page on own-data problems is what is recorded.

After new records, print it anew: python tests/benchmarks/own_data/test_recorded.py
"""

import json
import re
from pathlib import Path

from desp.benchmarks.own_data.problems import PROBLEMS

ROOT = Path(__file__).parents[3]
SYSTEMS = ("desp", "knn", "random", "mlp")


def results_table() -> str:
    lines = ["| problem | desp | 10-NN | random | MLP | desp - 10-NN | verdict | steps |", "|" + "---|" * 8]
    for problem in PROBLEMS:
        name = problem.name
        path = ROOT / "results" / "own-data" / f"{name}.json"
        if not path.is_file():
            continue
        record = json.loads(path.read_text())
        desp = record["systems"]["desp"]
        scores = " | ".join(f"{record['systems'][system]['energy_score']:.3f}" for system in SYSTEMS)
        away = desp["minus_knn"]
        label = f"`{name}`, held out" if problem.held_out else f"`{name}`"
        difference = f"{away['energy_score']:+.4f} ± {away['energy_score_se']:.4f}"
        lines.append(f"| {label} | {scores} | {difference} | {record['verdict']} | {desp['steps']} |")
    return "\n".join(lines)


def test_the_table_is_what_is_recorded() -> None:
    page = (ROOT / "docs" / "own-data-benchmark.md").read_text()
    (shown,) = re.findall(r"<!-- recorded -->\n(.*?)\n<!-- end -->", page, re.DOTALL)
    assert shown == results_table()


if __name__ == "__main__":
    print(results_table())  # noqa: T201
