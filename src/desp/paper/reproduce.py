"""Which commands are left to train, score and record the recipes of a table."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from desp.errors import DespError, SettingsError
from desp.recipes import all_recipes, get_recipe, get_table
from desp.results import result_path
from desp.run_lengths import recorded_settings
from desp.runs.folder import RunFolder, recipe_differences
from desp.runs.side_by_side import Work
from desp.settings import LangevinSettings, MethodSettings, RunSettings
from desp.storage import read_object


def stochastic_sampler(method: MethodSettings) -> LangevinSettings | None:
    """The sampler of predictions, where its fraction of stochastic steps can be varied; else None."""
    sampler = method.prediction_sampler
    return sampler if isinstance(sampler, LangevinSettings) else None


def recipes_of(table: str, only: tuple[str, ...] = ()) -> list[str]:
    """The names of a table's recipes; of these only the ones in `only`, if it has any.

    Raises:
        SettingsError: there is no such table or recipe, or a recipe is not in the table.
    """
    names = [item.name for item in all_recipes() if item.table == get_table(table).name]
    if not names:
        known = dict.fromkeys(item.table for item in all_recipes() if item.table)
        raise SettingsError(f"No recipe measures the table '{table}'. Tables with recipes: {', '.join(known)}.")
    others = [name for name in only if get_recipe(name).name not in names]
    if others:
        raise SettingsError(f"Not in the table '{table}': {', '.join(others)}. `desp recipes` lists tables.")
    return list(dict.fromkeys(only)) or names


@dataclass(frozen=True)
class Job(Work):
    """One recipe and seed.

    Attributes:
        recipe: its name.
        seed: of the run.
        runs: folder for run folders.
        results: folder for recorded results.
        data_dir: folder of the dataset; None for the usual one, and where there is no dataset.
        generated: whether data that the recipe reads from files are generated instead.
        data: which data, as part of the names of results; None for the recipe's own.
        ablate: whether to vary the fraction of stochastic steps, if there are any.
    """

    recipe: str
    seed: int
    runs: Path
    results: Path
    data_dir: Path | None = None
    generated: bool = False
    data: str | None = None
    ablate: bool = True

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.runs / f"{self.recipe}{'-generated' if self.generated else ''}-seed{self.seed}"

    def settings(self) -> RunSettings:
        """The settings of a new run.

        Raises:
            SettingsError: data cannot be generated.
        """
        settings = get_recipe(self.recipe).build()
        task = settings.task.on_synthetic_data() if self.generated else settings.task
        if task is None:
            raise SettingsError(
                f"--generated: '{self.recipe}' has no choice of data that are read or generated. Leave it out."
            )
        return replace(settings, task=task)

    def _task_flags(self) -> list[str]:
        """The settings of the task that are not the recipe's."""
        usual, own = (vars(item.task) for item in (get_recipe(self.recipe).build(), self.settings()))
        changed = [name for name in own if own[name] != usual[name]]
        return [part for name in changed for part in (f"--task.{name.replace('_', '-')}", str(own[name]))]

    def _measured(self) -> dict[str, Path]:
        """The folder of results of each command that measures the run."""
        varies = self.ablate and stochastic_sampler(get_recipe(self.recipe).build().method) is not None
        return {"evaluate": self.results} | ({"ablate": self.results / "ablations"} if varies else {})

    def commands(self) -> Iterator[list[str]]:
        """The commands that are left to do; none where all results are there, with or without the run."""
        data = ["--data-dir", str(self.data_dir)] if self.data_dir else []
        left = [
            [command, str(self.folder), "--record", str(results), *data]
            for command, results in self._measured().items()
            if not result_path(results, self.recipe, self.seed, self.data).exists()
        ]
        if left and not (self.folder / "summary.json").exists():
            begun = ["--resume"] if (self.folder / "settings.json").exists() else self._task_flags()
            yield ["train", self.recipe, "--run", str(self.folder), "--seed", str(self.seed), *begun, *data]
        yield from left

    def conflict(self, commit: str | None = None) -> str | None:
        """Why an existing result or run folder of this job cannot be kept or resumed: other settings than the
        recipe's, or another commit, where one is named. None if there is no conflict."""
        paths = [result_path(item, self.recipe, self.seed, self.data) for item in self._measured().values()]
        problems = [_result_conflict(path, commit) for path in paths if path.exists()]
        if any(self.commands()):  # they would use the run
            problems.append(self._run_conflict(commit))
        return next((problem for problem in problems if problem), None)

    def _run_conflict(self, commit: str | None) -> str | None:
        """The same for the run folder; checked before training, as recording would refuse it hours later."""
        folder = RunFolder(self.folder)
        if not folder.settings_file.exists():
            return None
        try:
            changed = recipe_differences(folder.load_settings()[0])
            training = (folder.read_summary() or {}) | {"parts": folder.parts()}
        except DespError:  # its own command says what is wrong with it
            return None
        # Without both it was begun and never trained, which this commit will do.
        trained = bool(training["parts"]) or folder.summary_file.exists()
        return _problem(self.folder, changed, training if trained else {"commit": commit}, commit, "--runs")


def _result_conflict(path: Path, commit: str | None) -> str | None:
    result = read_object(path, "Record it again, or remove it.")
    settings = recorded_settings(result)
    changed = recipe_differences(settings) if settings else []
    return _problem(path, changed, result.get("training") or {}, commit, "--results")


def _problem(
    path: Path, changed: list[str], training: dict[str, Any], commit: str | None, flag: str
) -> str | None:
    """What is wrong with a result or a run: its changed settings, or the commits it was trained by."""
    if changed:
        return _other(path, f"other settings ({'; '.join(changed)})", flag)
    found = [part.get("commit") for part in training.get("parts") or [training]]
    others = dict.fromkeys(item or "unknown" for item in found if item != commit)
    return _other(path, f"another commit ({', '.join(others)})", flag) if commit is not None and others else None


def _other(path: Path, what: str, flag: str) -> str:
    return f"{path} is of {what}. Name another folder with {flag}, or move it away"
