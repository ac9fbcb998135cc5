"""``desp reproduce``"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from desp.cli.common import parse
from desp.cli.run_arguments import check_seeds, with_data_dir
from desp.cli.under_way import RunsUnderWay
from desp.errors import RunError, SettingsError
from desp.paper.reproduce import Job, recipes_of
from desp.recipes import get_recipe
from desp.results import data_slug
from desp.runs.folder import RunFolder
from desp.runs.side_by_side import run_side_by_side
from desp.settings import RunSettings, TaskSettings
from desp.storage import make_folder

EXAMPLES = """  desp reproduce toy
  desp reproduce toy --seeds 0 1 2 --jobs 6 --results my-results
  desp reproduce toy --recipes polygons-desp digits-desp --seeds 0
  desp reproduce mnist --data-dir ~/data --seeds 0
  desp reproduce clevr --generated --seeds 1 2
  desp reproduce celeba --data-dir ~/data
  desp reproduce pedestrians --data-dir ~/data --seeds 0 --jobs 5"""


@dataclass(frozen=True)
class _ReproduceArguments:
    """Train, score and record every recipe of a table, for several seeds; scored by the protocol `full`.

    Each run is a process of its own. Unfinished runs are resumed, and what --results has is neither trained nor
    recorded again, so the same command goes on after any interruption. Where a result or run has other settings
    than its recipe has now, it is named and skipped, not trained anew. Several jobs share one GPU best under
    CUDA's multi-process service (`nvidia-cuda-mps-control -d`).
    """

    table: Annotated[str, tyro.conf.Positional]
    """Which table: toy, mnist, clevr, celeba or pedestrians; `desp recipes` lists their recipes."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds to run."""
    jobs: int = 1
    """Runs at the same time."""
    runs: Path = Path("runs")
    """Folder for run folders."""
    results: Path = Path("results")
    """Folder for recorded results. The project's own `results` has many already: name another to make them
    anew."""
    recipes: tuple[str, ...] = ()
    """Only these recipes; all of the table if not given."""
    data_dir: Path | None = None
    """Where the files of a table's dataset are, if it reads one; DESP_DATA if not given."""
    generated: bool = False
    """Generate data that recipes would read from files, where that is possible: scenes for clevr, simulated items
    for celeba, walkers for pedestrians. Runs have `generated` in their names, results `generated` or
    `simulated`."""
    same_code: bool = False
    """Refuse results and runs of another commit as well, or of none, in place of keeping them."""
    ablate: bool = True
    """Also make the S/T ablation of every run with stochastic steps."""


def run(arguments: list[str]) -> None:
    """Reproduce a table."""
    options = parse(_ReproduceArguments, arguments, "reproduce", EXAMPLES)
    names = recipes_of(options.table, options.recipes)
    _check(options, names)
    job = partial(
        Job,
        runs=options.runs,
        results=options.results,
        data_dir=options.data_dir,
        generated=options.generated,
        ablate=options.ablate,
    )
    jobs = _with_data([job(name, seed) for seed in options.seeds for name in names])
    conflicts = _conflicts(jobs, options.same_code)
    for item, problem in conflicts.items():
        print(f"{item.recipe} seed {item.seed}: {problem}", flush=True)
    jobs = [item for item in jobs if item not in conflicts]
    left = [item for item in jobs if any(item.commands())]
    for item in jobs:
        if item not in left:
            print(
                f"{item.recipe} seed {item.seed}: already recorded in {options.results}; not run again", flush=True
            )
    make_folder(options.runs)
    failed: list[Job] = []
    with RunsUnderWay[Job](lambda item: f"{item.recipe} seed {item.seed}", len(left)) as shown:

        def tell(job: Job, problem: str | None) -> None:
            failed.extend([job] if problem else [])
            shown.end(job, problem or "recorded")

        run_side_by_side(left, options.jobs, tell, on_command=shown.begin)
    if failed:
        raise RunError(f"{len(failed)} of {len(left)} runs failed; see their logs. The same command goes on.")
    if conflicts:
        raise RunError(f"{len(conflicts)} of {len(conflicts) + len(jobs)} runs were left out, as said above.")


def _check(options: _ReproduceArguments, recipes: list[str]) -> None:
    if options.data_dir and not any(_reads_data(name) for name in recipes):
        raise SettingsError(
            f"--data-dir goes with tables of datasets; the data of '{options.table}' are generated."
        )
    if not options.seeds:
        raise SettingsError("--seeds needs at least one number, e.g. --seeds 0 1 2.")
    check_seeds("--seeds", options.seeds)
    if options.jobs < 1:
        raise SettingsError(f"--jobs must be at least 1, got {options.jobs}.")
    if options.data_dir and options.generated:
        raise SettingsError("--data-dir and --generated: data are read or generated. Leave one of them out.")


def _conflicts(jobs: list[Job], same_code: bool) -> dict[Job, str]:
    """The jobs whose existing results or runs cannot be kept or resumed, and why.

    Raises:
        SettingsError: it is not known which code this is.
    """
    code = None
    if same_code:
        from desp.runs.provenance import commit

        code = commit()
        if code is None or code.endswith("-dirty"):
            raise SettingsError("--same-code needs a commit without changes. Commit them, or leave it out.")
    found = {job: job.conflict(code) for job in jobs}
    return {job: problem for job, problem in found.items() if problem}


def _reads_data(recipe: str) -> bool:
    return get_recipe(recipe).build().task.location_field is not None


def _with_data(jobs: list[Job]) -> list[Job]:
    """The jobs with the names of their data. Files are checked here, once: else every run would fail by itself.

    Raises:
        DataError: files are missing or damaged.
        SettingsError: data cannot be generated.
    """
    jobs = [replace(job, data=data_slug(job.settings())) for job in jobs]  # where the settings tell it
    left = {job for job in jobs if _reads_data(job.recipe) and any(job.commands())}
    settings = {job: with_data_dir(_settings(job), job.data_dir) for job in left}
    found = {task: _data_name(task) for task in {item.task for item in settings.values()}}
    return [
        replace(job, data=data_slug(settings[job], found[settings[job].task])) if job in left else job
        for job in jobs
    ]


def _data_name(task: TaskSettings) -> str | None:
    """The name of the data, read from the files where settings do not tell it; damaged files are an error."""
    from desp.tasks import make_task

    made = make_task(task, seed=0)
    made.fingerprint()
    return made.data_name


def _settings(job: Job) -> RunSettings:
    """The settings of the run folder, which remembers where its data are; if there is none, the recipe's."""
    if not (job.folder / "settings.json").exists():
        return job.settings()
    return RunFolder(job.folder).load_settings()[0]
