"""One problem from its data to a record, and the records of several."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import desp
from desp.benchmarks.own_data.defaults import UserRun
from desp.benchmarks.own_data.problem import Problem
from desp.comparison.baselines import nearest_neighbours, random_training_sets
from desp.comparison.mlp import TrainingBudget, plain_mlp
from desp.comparison.scoring import SystemPredictions, score
from desp.comparison.set_distance import StandardisedDistance
from desp.comparison.words import verdict
from desp.errors import SettingsError
from desp.older_results import migrate_benchmark
from desp.recipes import get_recipe
from desp.runs.provenance import provenance
from desp.settings import SCHEMA, FilesSettings, RunSettings, differences, to_json
from desp.storage import read_object, write_json
from desp.training.device import default_device

RECIPE = "custom"
Record = dict[str, Any]
Tell = Callable[[str], None]


@dataclass(frozen=True)
class SuiteOptions:
    """How problems are run.

    Attributes:
        settings: of the library's run; the settings of the recipe `custom` are the defaults that are judged.
        minutes: of training at most, which may cut the number of steps; the MLP gets the time that training took.
        samples: K.
        seed: of data, runs and draws.
        variant: a name for settings that are not the recipe's.
    """

    settings: RunSettings
    minutes: float = 3.0
    samples: int = 10
    seed: int = 0
    variant: str | None = None

    def __post_init__(self) -> None:
        if self.minutes <= 0:
            raise SettingsError(f"--minutes must be above 0, got {self.minutes}.")
        if self.samples < 2:
            raise SettingsError(f"--samples must be at least 2, got {self.samples}.")
        if self.settings.task != FilesSettings():
            raise SettingsError("Data and their description are the problem's own. Leave --task.* out.")
        training, usual = self.settings.training, get_recipe(RECIPE).build().training
        if training.steps is None and training.minutes != usual.minutes:  # with steps there are none
            raise SettingsError("Minutes of training are given by --minutes. Leave --training.minutes out.")
        if self.changes and self.variant is None:
            changes = "; ".join(self.changes)
            raise SettingsError(f"These are not the defaults ({changes}). Give them a name: --variant NAME.")
        if self.variant is not None and not self.changes:
            raise SettingsError("These settings are the defaults. Leave --variant out.")

    @property
    def changes(self) -> list[str]:
        """How settings differ from the defaults; device and engine do not count."""
        usual = replace(get_recipe(RECIPE).build(), device=self.settings.device, engine=self.settings.engine)
        return differences(to_json(usual), to_json(self.settings), ("by default", "here"))

    def path(self, folder: Path, problem: Problem) -> Path:
        """Where a problem's record goes."""
        return folder / f"{problem.name}{f'-{self.variant}' if self.variant else ''}.json"


def run_problem(problem: Problem, options: SuiteOptions, tell: Tell) -> Record:
    """Let all systems predict the tests of a problem, and score them."""
    began, seed, samples = time.perf_counter(), options.seed, options.samples
    tests = problem.test_examples(seed)
    with TemporaryDirectory() as folder:
        user = UserRun(problem, options.settings, seed, Path(folder))
        split, file = user.split, user.examples
        reference, training, validation = (
            file.part(item) for item in (split.reference, split.training, split.validation)
        )
        set_distance = StandardisedDistance.of(reference.sets, problem.description, problem.sizes[1])
        kind = problem.input_kind(reference)
        tell(f"{problem.name}: neighbours")
        predictions: dict[str, SystemPredictions] = {
            "knn": nearest_neighbours(set_distance, kind, reference, tests, samples, seed),
            "random": random_training_sets(set_distance, reference, tests, samples, seed),
            "oracle": problem.oracle(set_distance, tests, samples, seed),
        }
        tell(f"{problem.name}: desp")
        predictions["desp"] = user.predict(tests, samples, 60 * options.minutes)
        tell(f"{problem.name}: MLP")
        budget = TrainingBudget(predictions["desp"].train_seconds)
        predictions["mlp"] = plain_mlp(set_distance, kind, training, validation, tests, samples, seed, budget)
    tell(f"{problem.name}: scores")
    scores = {name: score(set_distance, tests, item, seed, problem.rule) for name, item in predictions.items()}
    systems = {name: item.row(None if name == "knn" else scores["knn"]) for name, item in scores.items()}
    systems["desp"]["energy_scores"] = [round(value, 5) for value in scores["desp"].energy_score.tolist()]
    paired = systems["desp"]["minus_knn"]
    device = default_device(options.settings.device)
    return {
        "benchmark": "own-data",
        "problem": problem.name,
        "summary": problem.summary,
        "held_out": problem.held_out,
        "examples": {"training": len(training), "validation": len(validation), "tests": len(tests)},
        "distance": set_distance.distance_name,
        "verdict": verdict(paired["energy_score"], paired["energy_score_se"]),
        "systems": systems,
        "wall_seconds": round(time.perf_counter() - began, 2),
        **_conditions(options),
        **provenance(device),
    }


def _conditions(options: SuiteOptions) -> Record:
    """What a record must have so that the problem need not be run again."""
    return {
        "seed": options.seed,
        "samples": options.samples,
        "minutes": options.minutes,
        "variant": options.variant,
        "changed_settings": options.changes,
        "settings": json.loads(json.dumps({"schema": SCHEMA, **to_json(options.settings)})),  # as it is read again
        "code": code_checksum(),
    }


def code_checksum() -> str:
    """A checksum of the library's source: a record of the same code need not be made again."""
    root, total = Path(desp.__file__).parent, hashlib.blake2b(digest_size=8)
    for path in sorted(root.rglob("*.py")):
        total.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def run_problems(
    problems: list[Problem], options: SuiteOptions, folder: Path | None, *, again: bool, tell: Tell
) -> list[Record]:
    """The records of problems: those that `folder` has of the same code and settings, and new ones.

    Args:
        problems: which.
        options: how.
        folder: where records are kept; None: nowhere.
        again: run all problems anew.
        tell: called with what is done now.
    """
    records = []
    for number, problem in enumerate(problems, start=1):
        path = None if folder is None else options.path(folder, problem)
        found = None if path is None or again else recorded(path, options)
        where = f"[{number}/{len(problems)}] "
        if found is not None:
            tell(f"{where}{problem.name}: recorded already")
        else:
            found = run_problem(problem, options, lambda text, where=where: tell(where + text))  # type: ignore[misc]
            if path is not None:
                write_json(path, found)
        records.append(found)
    return records


def read_record(path: Path) -> Record:
    """A record of any version, under today's names.

    Raises:
        RunError: it is damaged.
    """
    return migrate_benchmark(read_object(path, "Delete it, and run `desp bench own-data` again."))


def recorded(path: Path, options: SuiteOptions) -> Record | None:
    """A record of the same code, settings and seed, if there is one."""
    if not path.exists():
        return None
    found = read_record(path)
    wanted = _conditions(options)
    return found if all(found.get(name) == value for name, value in wanted.items()) else None
