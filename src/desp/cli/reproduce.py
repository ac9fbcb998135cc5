"""``desp reproduce``"""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from desp.cli.common import parse
from desp.errors import RunError
from desp.recipes import all_recipes, get_recipe
from desp.results import result_path

EXAMPLES = """  desp reproduce toy
  desp reproduce toy --seeds 0 1 2 --jobs 6 --results results
  desp reproduce toy --recipes polygons-desp digits-desp --seeds 0"""


@dataclass(frozen=True)
class ReproduceArguments:
    """Train, score and record every recipe of one of the paper's tables, for several seeds.

    Each run is a process of its own. What is done already is skipped and what was begun is resumed, so the same
    command goes on after any interruption. Several jobs share one GPU best under CUDA's multi-process service
    (`nvidia-cuda-mps-control -d`).
    """

    table: Annotated[Literal["toy"], tyro.conf.Positional]
    """Which table."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds to run."""
    jobs: int = 1
    """Runs at the same time."""
    runs: Path = Path("runs")
    """Folder for run folders."""
    results: Path = Path("results")
    """Folder for recorded results."""
    recipes: tuple[str, ...] = ()
    """Only these recipes; all of the table if not given."""
    ablate: bool = True
    """Also make the S/T ablation of every DESP run."""


def run(arguments: list[str]) -> None:
    """Reproduce a table."""
    options = parse(ReproduceArguments, arguments, "reproduce", EXAMPLES)
    chosen = [get_recipe(name) for name in options.recipes] or all_recipes()
    names = [item.name for item in chosen if item.table == options.table]
    jobs = [(name, seed) for seed in options.seeds for name in names]
    failed = 0
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        futures = {pool.submit(_carry_out, options, name, seed): (name, seed) for name, seed in jobs}
        try:
            for future in as_completed(futures):
                name, seed = futures[future]
                message = future.result()
                failed += message is not None
                print(f"{name} seed {seed}: {message or 'recorded'}", flush=True)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)  # runs under way got the signal too, and save themselves
            raise
    if failed:
        raise RunError(f"{failed} of {len(jobs)} runs failed; see their logs. The same command goes on.")


def _carry_out(options: ReproduceArguments, recipe: str, seed: int) -> str | None:
    """Do what is left of one run; returns what went wrong, or None."""
    folder = options.runs / f"{recipe}-seed{seed}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = options.runs / f"{recipe}-seed{seed}.log"
    for command in _commands(options, recipe, seed, folder):
        with log.open("a", encoding="utf-8") as output:
            done = subprocess.run(  # noqa: S603 - our own command
                [sys.executable, "-m", "desp", *command], stdout=output, stderr=subprocess.STDOUT, check=False
            )
        if done.returncode != 0:
            return f"`desp {' '.join(command)}` ended with status {done.returncode}; see {log}"
    return None


def _commands(options: ReproduceArguments, recipe: str, seed: int, folder: Path) -> Iterator[list[str]]:
    if not (folder / "summary.json").exists():
        yield ["train", recipe, "--run", str(folder), "--seed", str(seed), "--resume"]
    if not result_path(options.results, recipe, seed).exists():
        yield ["evaluate", str(folder), "--record", str(options.results)]
    ablations = options.results / "ablations"
    varies = options.ablate and get_recipe(recipe).system == "desp"
    if varies and not result_path(ablations, recipe, seed).exists():
        yield ["ablate", str(folder), "--record", str(ablations)]
