"""``desp train``"""

import threading
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import tyro

from desp.cli.common import busy, parse, parse_known
from desp.cli.run_arguments import value_of, with_data_dir, with_steps_given
from desp.cli.train_end import next_words, tell_troubles
from desp.cli.train_mistakes import advice_on, named_recipe
from desp.cli.train_seeds import SeveralSeeds, train_seeds
from desp.errors import MissingExtraError, SettingsError, TrainingInterrupted
from desp.paths import resolved_path
from desp.recipes import Recipe, all_recipes
from desp.runs.folder import RunFolder
from desp.runs.resume import resume_command
from desp.settings import EnergySettings, FilesSettings, MethodSettings, RunSettings, Variant
from desp.settings.own_data import ANSWERS, own_data_method

V = TypeVar("V", bound=Variant)

EXAMPLES = """  desp train polygons-desp --run runs/polygons --seed 1
  desp train polygons-desp --training.steps 500 --method.energy.hidden 64
  desp train polygons-desp --run runs/polygons --resume
  desp train polygons-desp --run runs/polygons --seeds 0 1 2 --jobs 3
  desp train custom --data my_sets.jsonl --run runs/mine
  desp train mnist-desp --data-dir ~/data --run runs/mnist
  desp train custom --data my_sets.jsonl --energy attention --method.energy.heads 8
  accelerate launch --num_processes 2 -m desp train polygons-desp --run runs/two-gpus"""


def _kinds(family: type[Variant]) -> str:
    """All kinds, with their summaries."""
    kinds = sorted(family.kinds().items())
    return "; ".join(f"{kind} ({item.summary})" if item.summary else kind for kind, item in kinds)


_USE_METHOD = (
    "Use another method than the recipe's, with its defaults; other settings stay the recipe's: "
    f"{_kinds(MethodSettings)}. Add --help to see its settings. Encoders and samplers have no such flag."
)
_ENERGY = (
    f"Another energy than the method's, with the same width (`hidden`): {_kinds(EnergySettings)}. `--energy "
    "KIND --help` shows its settings."
)


_ANSWERS = (
    "How many sets are right for an input of your data. several, the default: predictions differ as answers in "
    "the data do, in cardinality too. one: all predictions have the most probable cardinality. --best of predict "
    "gives the one that is nearest to all others. Not with --use-method."
)


@dataclass(frozen=True)
class _TrainArguments:
    """What to train, where and how."""

    settings: Annotated[RunSettings, tyro.conf.arg(name="")]
    run: Path | None = None
    """Folder of the run; runs/RECIPE-seedN if not given."""
    seed: int = 0
    """Seed of weights, noise and data."""
    seeds: tuple[int, ...] = ()
    """Train once with each of these seeds, in folders RUN-seedN. With --resume, unfinished runs go on, finished
    ones stay, and the others begin."""
    jobs: int = 1
    """With --seeds: how many at the same time, each in a process of its own, with its output in RUN-seedN.log."""
    streams: bool = False
    """With --seeds: all at the same time, in threads of one process, each on a CUDA stream of its own. For a GPU
    that one run does not keep busy; on a CPU take --jobs."""
    resume: bool = False
    """Go on from the newest checkpoint in the run folder."""
    method_kind: Annotated[str | None, tyro.conf.arg(name="use-method", help=_USE_METHOD)] = None
    energy: Annotated[str | None, tyro.conf.arg(help=_ENERGY)] = None
    answers: Annotated[Literal["one", "several"] | None, tyro.conf.arg(help=_ANSWERS)] = None
    minutes: float | None = None
    """Minutes of training, where it ends when validation no longer improves (own data): sets `training.minutes`,
    which is 5 in `custom`. The final decay of the learning rate may take a little longer."""
    data: Path | None = None
    """Your data (recipes `custom` and `custom-contrastive`): JSON lines, Parquet, Arrow, an npz file, or a folder
    of npy files, of tables `inputs` and `sets`, or of Hugging Face's datasets."""
    data_dir: Path | None = None
    """Folder with the dataset, for recipes that need one; DESP_DATA if not given, else ~/.local/share/desp."""


def run(arguments: list[str]) -> None:
    """Train a recipe."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return
    recipe = named_recipe(arguments)
    default = with_steps_given(_with_variants(recipe.build(), arguments[1:]), arguments[1:])
    options = _parse(recipe, arguments[1:], _TrainArguments(default))
    given = options.settings.recipe
    if given != recipe.name:  # a setting like others, but it is named already
        raise SettingsError(
            f"The recipe is '{recipe.name}', so --recipe {given} has no place here. To train that one: "
            f"desp train {given}"
        )
    of_several = {"--seeds", "--jobs", "--streams"}  # with or without values
    if any(item.partition("=")[0] in of_several for item in arguments):
        several = SeveralSeeds(
            recipe.name,
            arguments[1:],
            options.seeds,
            options.jobs,
            streams=options.streams,
            device=options.settings.device,
            own_data=options.settings.task.own_data,
        )
        train_seeds(several, options.run)
        return
    path = options.run or Path("runs") / f"{recipe.name}-seed{options.seed}"
    if options.resume:
        # Settings that are not given again stay as they were when the run was begun.
        saved, seed = RunFolder(path).load_settings()
        varied = _with_variants(saved, arguments[1:])
        default = with_steps_given(varied, arguments[1:])
        options = _parse(recipe, arguments[1:], _TrainArguments(default, seed=seed))
        if varied != saved and options.settings.method != saved.method:  # other flags may make them the same again
            raise SettingsError(
                f"{path} has its method and energy already. Leave --use-method, --energy and --answers out."
            )
    settings = _with_data(replace(options.settings, recipe=recipe.name), options.data)
    settings = _with_minutes(settings, options.minutes)
    _check_answers(settings, options.answers)
    settings = with_data_dir(settings, options.data_dir)
    if not train(settings, path, options.seed, options.resume):
        return
    if settings.task.own_data:
        _finish_custom(path)
    else:
        print(next_words(path, own_data=False))


def _with_variants(settings: RunSettings, arguments: list[str]) -> RunSettings:
    """The recipe with the method and energy that flags name: these come first, as they decide which settings there
    are.

    Raises:
        SettingsError: there is none of that name, or the method has no energy to choose.
    """
    method, energy, answers = (value_of(flag, arguments) for flag in ("--use-method", "--energy", "--answers"))
    if answers is not None:
        settings = _with_answers(settings, answers, method)
    if method is not None and method != settings.method.kind:
        settings = replace(settings, method=_variant(MethodSettings, method, "--use-method")())
    if energy is None:
        return settings
    kind = _variant(EnergySettings, energy, "--energy")
    same_width = {"hidden": settings.method.width} if "hidden" in {item.name for item in fields(kind)} else {}
    chosen = settings.method.with_part("energy", kind(**same_width))
    current = getattr(settings.method, "energy", None)
    return settings if current is not None and current.kind == energy else replace(settings, method=chosen)


def _with_answers(settings: RunSettings, answers: str, method: str | None) -> RunSettings:
    own = own_data_method().kind
    if settings.recipe == "custom" and settings.method.kind != own:
        raise SettingsError(
            f"--answers goes with {own}; this run has {settings.method.kind}. Leave --answers out."
        )
    if not settings.task.own_data or settings.method.kind != own:
        raise SettingsError(
            f"--answers goes with 'custom'; the recipe '{settings.recipe}' fixes its method. Leave --answers out."
        )
    if method is not None:
        raise SettingsError("--answers chooses a method, and so does --use-method. Leave one of them out.")
    if answers not in ANSWERS:
        raise SettingsError(f"--answers must be one or several, got {answers!r}.")
    return settings if _answers_of(settings) == answers else replace(settings, method=own_data_method(answers))


def _answers_of(settings: RunSettings) -> str:
    """The value of --answers that gives the method of these settings."""
    return "one" if getattr(settings.method.prediction_sampler, "cardinality", None) == "mode" else "several"


def _takes_answers(settings: RunSettings) -> bool:
    """Whether the flag --answers can choose the method of such data."""
    aligned = isinstance(settings.task, FilesSettings) and settings.task.description.aligned
    return settings.recipe == "custom" and settings.method.kind == own_data_method().kind and not aligned


def _check_answers(settings: RunSettings, answers: str | None) -> None:
    """Raises a SettingsError where the cardinality is no question."""
    if answers is not None and not _takes_answers(settings):
        raise SettingsError(
            "--answers is about the cardinality of predictions, which the input gives where outputs are aligned "
            "with it. Leave it out."
        )


def _with_minutes(settings: RunSettings, minutes: float | None) -> RunSettings:
    """Raises a SettingsError where the length is given by steps."""
    if minutes is None:
        return settings
    if settings.training.steps is not None:
        raise SettingsError(
            f"--minutes limits training that ends by itself; here there are {settings.training.steps} steps. "
            "Leave --minutes out, or use --training.steps None (with --training.lr-schedule wsd and "
            "--training.validate-every N)."
        )
    return replace(settings, training=replace(settings.training, minutes=minutes))


def _variant(family: type[V], kind: str, flag: str) -> type[V]:
    known = family.kinds()
    if kind not in known:
        raise SettingsError(f"{flag} must be one of {', '.join(sorted(known))}, got {kind!r}.")
    return known[kind]


def _parse(recipe: Recipe, arguments: list[str], default: _TrainArguments) -> _TrainArguments:
    command, about = f"train {recipe.name}", recipe.build.__doc__
    parsed, unknown = parse_known(_TrainArguments, arguments, command, EXAMPLES, default=default, about=about)
    if not unknown:
        return parsed
    if advice := advice_on(unknown, recipe, default.settings, arguments):
        raise SettingsError(advice)
    return parse(_TrainArguments, arguments, command, EXAMPLES, default=default, about=about)  # refuses them


def train(settings: RunSettings, path: Path, seed: int, resume: bool) -> bool:
    """Train, and keep predictions to look at; false in processes other than the first, which have nothing more to
    do."""
    from accelerate.state import PartialState

    from desp.runs.evaluate import sample_run
    from desp.runs.train import train_run
    from desp.training.bar import ProgressBar
    from desp.training.processes import leave_processes

    folder = RunFolder(path)
    main_process = PartialState(cpu=settings.device == "cpu").is_main_process
    # Bars of several threads would overwrite each other.
    shows_progress = main_process and threading.current_thread() is threading.main_thread()
    callback = ProgressBar() if shows_progress else None
    try:
        outcome = train_run(settings, seed, folder, resume=resume, callback=callback)
    except TrainingInterrupted as stop:
        leave_processes()
        raise TrainingInterrupted(f"{stop} The command: {resume_command(settings.recipe, path)}") from stop
    # Not after other errors: they may be of one process alone, and leaving waits for all.
    leave_processes()
    if not main_process:
        return False
    # First of all: what follows may take long on a busy machine, and whoever stops it has a trained model.
    print(f"trained {outcome.steps} steps in {outcome.seconds:.0f} s: {path}", flush=True)
    tell_troubles(outcome, settings.training.keep)
    with busy("predicting examples for the report") if shows_progress else nullcontext():
        sample_run(folder)
    return True


def _answers_hint(path: Path) -> str | None:
    """How many sets are right for an input by the data, and the flag for it if the run has the other one."""
    from desp.tasks import make_task
    from desp.tasks.files import FilesTask

    settings, seed = RunFolder(path).load_settings()
    task = make_task(settings.task, seed)
    found = task.answers_hint() if isinstance(task, FilesTask) else None
    if found is None:
        return None
    fits = "several" if found.several else "one"
    other = _answers_of(settings) != fits and _takes_answers(settings)
    advice = f": --answers {fits}, in another folder" if other else ""
    return f"{found.text}, so {fits} seem{'' if found.several else 's'} right{advice}"


def _finish_custom(path: Path) -> None:
    """Score and report at once: for own data there is no table to look a score up in."""
    from desp.cli.evaluate import run as evaluate
    from desp.cli.report import report

    if hint := _answers_hint(path):
        print(hint)
    evaluate([str(path)])
    try:
        report(path)
    except MissingExtraError as missing:  # the model is there all the same
        print(f"no report: {missing}")
    print(next_words(path, own_data=True))


def _with_data(settings: RunSettings, data: Path | None) -> RunSettings:
    task, name = settings.task, settings.recipe
    takes = task.location_flag == "--data"
    if data is None:
        if takes and not task.location:
            raise SettingsError(f"The recipe '{name}' needs your data: desp train {name} --data FILE")
        return settings
    if not takes:
        instead = f"takes {task.location_flag}" if task.location_flag else "makes its own data"
        raise SettingsError(f"--data goes with the recipes 'custom' and 'custom-contrastive'; '{name}' {instead}.")
    return replace(settings, task=task.with_location(str(resolved_path(data))))


def _usage() -> str:
    width = max(len(item.name) for item in all_recipes())
    recipes = "\n".join(f"  {item.name:<{width}}  {item.summary}" for item in all_recipes())
    return (
        "usage: desp train RECIPE [--run DIR] [--seed N | --seeds N ...] [--resume] [--any.setting VALUE]\n\n"
        "Train a recipe. `desp train RECIPE --help` shows all its settings.\n\n"
        f"recipes:\n{recipes}\n\nexamples:\n{EXAMPLES}"
    )
