"""The table of the page on own-data problems is what is recorded.

After new records, print it anew: python tests/benchmarks/own_data/test_recorded.py
"""

import re
from pathlib import Path
from typing import Any

from desp.benchmarks.own_data.problems import PROBLEMS
from desp.benchmarks.own_data.run import read_record

ROOT = Path(__file__).parents[3]
SYSTEMS = ("desp", "oracle", "knn", "random", "mlp")


def difference(system: dict[str, Any]) -> str:
    away = system["minus_knn"]
    return f"{away['energy_score']:+.4f} ± {away['energy_score_se']:.4f}"


def results_table() -> str:
    head = "| problem | desp | oracle | 10-NN | random | MLP | desp - 10-NN | verdict | oracle - 10-NN | steps |"
    lines = [head + " single: desp | MLP |", "|" + "---|" * 12]
    for problem in PROBLEMS:
        name = problem.name
        path = ROOT / "results" / "own-data" / f"{name}.json"
        if not path.is_file():
            continue
        record = read_record(path)
        desp = record["systems"]["desp"]
        scores = " | ".join(f"{record['systems'][system]['energy_score']:.3f}" for system in SYSTEMS)
        label = f"`{name}`, held out" if problem.held_out else f"`{name}`"
        cells = difference(desp), record["verdict"], difference(record["systems"]["oracle"]), str(desp["steps"])
        cells += tuple(f"{record['systems'][system]['single_error']:.3f}" for system in ("desp", "mlp"))
        lines.append(f"| {label} | {scores} | {' | '.join(cells)} |")
    return "\n".join(lines)


def test_the_table_is_what_is_recorded() -> None:
    page = (ROOT / "docs" / "own-data-benchmark.md").read_text()
    (shown,) = re.findall(r"<!-- recorded -->\n(.*?)\n<!-- end -->", page, re.DOTALL)
    assert shown == results_table()


if __name__ == "__main__":
    print(results_table())  # noqa: T201
