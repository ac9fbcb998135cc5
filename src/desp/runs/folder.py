"""A run folder: settings, checkpoints, the trained predictor, what was measured.

Torch is loaded with the task or the predictor, not before: commands and reports look into folders without it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from desp.errors import CheckpointError, RunError, SettingsError
from desp.locks import LOCK, sole_use
from desp.older_results import migrate_training
from desp.paths import resolved_path
from desp.recipes import get_recipe
from desp.runs.resume import resume_words
from desp.settings import RunSettings, TaskSettings, differences, from_json, migrate_run, saved_run, to_json
from desp.storage import read_object, sweep, write_json

if TYPE_CHECKING:
    from desp.predictor import SetPredictor
    from desp.tasks import Task

# The command that writes each file, for messages and for the gaps of a report.
WRITTEN_BY = {
    "settings.json": "desp train",
    "log.jsonl": "desp train",
    "summary.json": "desp train",
    "evaluation.json": "desp evaluate RUN",
    "samples.json": "desp report RUN",
    "ablation.json": "desp ablate RUN",
    "ablation.png": "desp ablate RUN",
    "tuning.json": "desp tune RUN",
    "report.html": "desp report RUN",
}


@dataclass(frozen=True)
class LoadedRun:
    """A finished run, opened once: what every command that uses a trained model holds.

    Attributes:
        settings: as the run was begun; the predictor's own sampler may have been tuned since.
        seed: of the run.
        task: its data are read when they are first used.
        predictor: trained.
    """

    settings: RunSettings
    seed: int
    task: "Task"
    predictor: "SetPredictor"


class RunFolder:
    """The files of one run.

    ``settings.json`` what was asked for; ``checkpoints/`` and ``log.jsonl`` written while training;
    ``model/`` the predictor; ``summary.json`` how training went; ``evaluation.json`` scores; ``samples.json``
    predictions to look at; ``ablation.json`` and ``ablation.png``; ``tuning.json`` which sampler was chosen;
    ``report.html``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings_file = path / "settings.json"
        self.log_file = path / "log.jsonl"
        self.summary_file = path / "summary.json"
        self.evaluation_file = path / "evaluation.json"
        self.samples_file = path / "samples.json"
        self.ablation_file = path / "ablation.json"
        self.ablation_picture = path / "ablation.png"
        self.tuning_file = path / "tuning.json"
        self.report_file = path / "report.html"
        self.model = path / "model"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Use the folder alone, to train or to tune; it is made if needed, and removed if nothing was written.

        Raises:
            RunError: another process uses it, or it is a file.
            StorageError: it cannot be written to, or its links lead in a circle.
        """
        self._check_folder()
        with sole_use(self.path):
            if self.settings_file.exists():  # else it may be anything, with files of others in it
                for folder in (self.path, self.model):  # what a killed process left half-written
                    sweep(folder)
            yield

    def begin(self, settings: RunSettings, seed: int, fingerprint: str | None) -> None:
        """Make the folder for a new run on data with `fingerprint`.

        Raises:
            RunError: the folder is used already.
        """
        self._check_folder()
        begun = self.model.exists() or (self.path / "checkpoints").exists()
        if self.settings_file.exists() and begun:
            recipe = self.read_settings_file().get("recipe")
            raise RunError(
                f"{self.path} already holds a run of '{recipe}'. Continue it with --resume, or choose another "
                "folder with --run."
            )
        used = self.path.exists() and any(path.name != LOCK for path in self.path.iterdir())
        if used and not self.settings_file.exists():
            raise RunError(f"{self.path} is not empty and not a run folder. Choose another one with --run.")
        write_json(self.settings_file, saved_run(settings, seed, fingerprint))

    def _check_folder(self) -> None:
        path = resolved_path(self.path)
        if path.exists() and not path.is_dir():
            raise RunError(f"{self.path} is a file. Choose a folder with --run.")

    def check_same(self, settings: RunSettings, seed: int) -> None:
        """Check that a run to be resumed is the one that is asked for; only its length and the folder of its
        dataset may differ.

        Raises:
            RunError: the folder belongs to another recipe, seed, or other settings.
        """
        saved, saved_seed = self.load_settings()
        if self.model.is_dir() and not any((self.path / "checkpoints").glob("step-*.safetensors")):
            raise RunError(
                f"{self.path} has lost its checkpoints, so it cannot be resumed. Train in another folder."
            )
        if saved.recipe != settings.recipe:
            raise RunError(
                f"{self.path} belongs to recipe '{saved.recipe}', not '{settings.recipe}'. "
                "Choose another folder with --run."
            )
        if saved_seed != seed:
            raise RunError(f"{self.path} was begun with --seed {saved_seed}, not {seed}. Choose another folder.")
        longer = replace(saved, training=saved.training.of_length(settings.training.steps))
        if not saved.task.own_data:
            # Data may have moved; `check_data` tells whether they are the same.
            longer = replace(longer, task=saved.task.with_location(settings.task.location))
        different = differences(to_json(longer), to_json(settings))
        if different:
            raise RunError(
                f"{self.path} was begun with other settings ({'; '.join(different)}). Resume with the same ones "
                "(only --training.steps and --data-dir may change), or choose another folder with --run."
            )

    def set_length(self, steps: int) -> None:
        """Note the new length of a resumed run, so that its settings stay true."""
        values = self.read_settings_file()
        if values["settings"]["training"]["steps"] != steps:
            values["earlier_lengths"] = [
                *values.get("earlier_lengths", []),
                values["settings"]["training"]["steps"],
            ]
            training = values["settings"]["training"]
            training |= {"steps": steps} | ({"minutes": None} if "minutes" in training else {})
            write_json(self.settings_file, values)

    def note_data_folder(self, task: TaskSettings) -> str | None:
        """Note where the data are now; returns the folder if it is not the one noted last."""
        values = self.read_settings_file()
        field = task.location_field
        if (
            field is None
            or task.location is None
            or task.own_data
            or values["settings"]["task"].get(field) == task.location
        ):
            return None
        values["settings"]["task"][field] = task.location
        write_json(self.settings_file, values)
        return task.location

    def add_part(self, provenance: dict[str, Any], steps: int | None) -> None:
        """Note the commit, command and device that train this run from its newest checkpoint to `steps` (None: to
        an end that is not known yet): a resumed run has several `parts`."""
        saved = self.path.glob("checkpoints/step-*.safetensors")
        begins = max((int(path.stem.removeprefix("step-")) for path in saved), default=0)
        finished = self.summary_file.exists() if steps is None else begins >= steps
        if finished:
            return
        part = {"from_step": begins}
        part |= {name: provenance[name] for name in ("commit", "commit_source", "command", "device")}
        values = self.read_settings_file()
        write_json(self.settings_file, {**values, "parts": [*values.get("parts", []), part]})

    def parts(self) -> list[dict[str, Any]]:
        """What `add_part` noted, in order; nothing in older runs."""
        return list(self.read_settings_file().get("parts", []))

    def irregularities(self) -> list[str]:
        """How this run differs from its recipe in what settings do not say."""
        found = []
        earlier = self.read_settings_file().get("earlier_lengths", [])
        training = self.load_settings()[0].training
        if not all(steps is not None and training.is_exact_prefix(steps) for steps in earlier):
            found.append(f"training.steps: {earlier} before it was resumed with another length")
        processes = (self.read_summary() or {}).get("processes", 1)
        if processes != 1:
            found.append(f"processes: {processes}, each with its own batch")
        return found

    @property
    def measurements(self) -> tuple[Path, ...]:
        """Files that hold or show what was measured with the present weights and sampler, in the order in which
        they can be made anew."""
        ablation = self.ablation_file, self.ablation_picture
        return self.tuning_file, self.evaluation_file, *ablation, self.samples_file, self.report_file

    def load_settings(self) -> tuple[RunSettings, int]:
        """The settings and the seed.

        Raises:
            RunError: not a run folder, of a version whose settings are no longer known, or damaged.
        """
        values = self.read_settings_file()
        try:
            try:
                current = migrate_run(values["settings"])
            except SettingsError as error:  # of another version, and not damaged
                raise RunError(f"{self.settings_file} cannot be used: {error}") from error
            settings = from_json(RunSettings, current)
            return replace(settings, task=settings.task.in_run_folder(self.path)), int(values["seed"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(f"{self.settings_file} is damaged ({error}). Train again in another folder.") from error

    def load_task(self) -> "Task":
        """The task of the run; its data are looked at only when they are used."""
        from desp.tasks import make_task

        settings, seed = self.load_settings()
        return make_task(settings.task, seed)

    def check_data(self, task: "Task") -> None:
        """Check that the data are those the run was trained on.

        Raises:
            RunError: they changed; examples that were trained on could be among the held-out ones.
        """
        if self.read_settings_file().get("data_fingerprint") != task.fingerprint():
            raise RunError(
                f"{task.data_label} has changed since {self.path} was begun, or this version of desp makes "
                "something else of it, so its held-out part is no longer the same. Put the file back, or train "
                "again."
            )

    def check_trained(self) -> None:
        """Check that there is a trained model, without reading it.

        Raises:
            RunError: not a run, or training has not ended yet.
        """
        settings, _ = self.load_settings()
        if not self.model.is_dir():
            advice = resume_words(settings, self.path, "Finish it")
            raise RunError(f"{self.path} has no trained model yet. {advice}")

    def load_predictor(self) -> "SetPredictor":
        """The trained predictor.

        Raises:
            RunError: training has not ended yet.
        """
        from desp.predictor import SetPredictor

        self.check_trained()
        settings, _ = self.load_settings()
        try:  # wherever it was trained, it predicts on what this machine has
            return SetPredictor.from_pretrained(self.model, matmul_precision=settings.matmul_precision)
        except CheckpointError as error:
            advice = resume_words(settings, self.path, "To make it again from the last checkpoint")
            raise CheckpointError(f"The model of {self.path} cannot be read: {error} {advice}") from error

    def open(self, *, data: bool = True) -> LoadedRun:
        """The finished run in this folder.

        Args:
            data: whether its data will be used, so that they must be the ones it was trained on.

        Raises:
            RunError: not a run, not finished, or its data have changed.
        """
        settings, seed = self.load_settings()
        task, predictor = self.load_task(), self.load_predictor()
        if data:
            self.check_data(task)
        return LoadedRun(settings, seed, task, predictor)

    def read(self, file: Path) -> dict[str, Any] | None:
        """A JSON file of the run, or None if it is not there yet."""
        return read_object(file, recovery_hint(file)) if file.exists() else None

    def read_summary(self) -> dict[str, Any] | None:
        """How training went, under today's names; None while it goes on."""
        summary = self.read(self.summary_file)
        return None if summary is None else migrate_training(summary)

    def read_settings_file(self) -> dict[str, Any]:
        """What ``settings.json`` holds: recipe, seed, settings as they were saved, and the checksum of the data.

        Raises:
            RunError: not a run folder, or damaged.
        """
        values = self.read(self.settings_file)
        if values is None:
            raise RunError(f"{self.path} is no run folder: settings.json is missing. {self._hint()}")
        # Older versions wrote the checksum as `data`.
        return {"data_fingerprint" if name == "data" else name: value for name, value in values.items()}

    def _hint(self) -> str:
        """What to do about a folder that holds no run."""
        if not (self.path / "config.json").is_file():
            return "`desp train RECIPE --run DIR` makes one."
        run = self.path.parent
        if self.path.name == self.model.name and (run / self.settings_file.name).is_file():
            return f"It is a saved predictor. Did you mean its run folder, {run}?"
        return (
            "It is a saved predictor: load it in Python with SetPredictor.from_pretrained, or pass a run folder."
        )


def recovery_hint(file: Path) -> str:
    """How to get a whole file in place of a damaged one."""
    return f"Restore it, or delete it and run `{WRITTEN_BY[file.name]}` again."


def recipe_differences(settings: RunSettings) -> list[str]:
    """How settings differ from their recipe. Device, engine and data do not count: results name data by
    `data_slug`.

    A shorter run differs only if it is not an exact beginning of the recipe's; tables show its length.
    """
    original = get_recipe(settings.recipe).build()
    same = replace(original, engine=settings.engine, device=settings.device)
    steps, full = settings.training.steps, original.training.steps
    if steps is not None and full is not None and steps < full and original.training.is_exact_prefix(steps):
        same = replace(same, training=replace(same.training, steps=steps))
    same = replace(same, task=same.task.with_data_of(settings.task))
    return differences(to_json(same), to_json(settings), ("in the recipe", "in this run"))
