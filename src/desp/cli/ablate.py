"""``desp ablate``"""

import json
from dataclasses import dataclass

from desp.cli.common import busy, number, parse, show_table
from desp.cli.evaluate import shown_protocol
from desp.cli.run_arguments import ScoreArguments
from desp.results import ablation_headings
from desp.storage import write_bytes

EXAMPLES = """  desp ablate runs/polygons
  desp ablate runs/polygons --ratios 0 0.5 0.8 1 --json"""


@dataclass(frozen=True)
class _AblateArguments(ScoreArguments):
    """Score and energy against S/T, the fraction of prediction steps with noise, as table and picture.

    Always with one chain per prediction (no restarts). As in the paper's figure "Effect of stochastic prediction",
    the sampler's raw output is scored; for your own data, the returned sets. Needs the extra `viz`.
    """

    ratios: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0)
    """Values of S/T."""


def run(arguments: list[str]) -> None:
    """Vary S/T."""
    options = parse(_AblateArguments, arguments, "ablate", EXAMPLES)
    from desp.extras import require
    from desp.report.figures.plots import ablation_picture

    require("matplotlib", "viz", "draw pictures")
    from desp.paper.ablation import ablate_run

    folder = options.folder()
    protocol = options.protocol_for(folder)
    with busy("predicting and scoring for every S/T; on a CPU this may take minutes") as say:
        ablation = ablate_run(
            folder, options.ratios, protocol=protocol, on_ratio=lambda ratio: say(f"S/T {ratio}: done")
        )
    write_bytes(folder.ablation_picture, ablation_picture(ablation, "png"))
    options.keep(ablation)
    if options.json:
        print(json.dumps(ablation, indent=2))
        return
    assigned = any(row["hungarian"] is not None for row in ablation["rows"])
    columns = tuple(name for name in ablation["rows"][0] if assigned or name != "hungarian")
    rows = [tuple(number(row[name]) for name in columns) for row in ablation["rows"]]
    of, headings = f"{ablation['recipe']}, seed {ablation['seed']}", ablation_headings(ablation)
    columns = tuple(headings.get(name, name) for name in columns)
    show_table(f"{of}: S/T of T = {ablation['steps']} ({ablation['data']})", columns, rows)
    print(shown_protocol(ablation["protocol"], ablation["rows"][0], folder.load_task().compares_collections))
    print(f"picture: {folder.ablation_picture}")
