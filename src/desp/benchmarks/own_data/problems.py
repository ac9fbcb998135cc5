"""The problems by which the library's defaults are judged."""

from desp.benchmarks.own_data import structured, vectors
from desp.benchmarks.own_data.problem import Problem
from desp.errors import SettingsError
from desp.settings import DataDescription

PROBLEMS = (
    Problem(
        "events",
        "a momentum to the particles that share it",
        vectors.events,
        count=5000,
        sizes=(2, 6),
        features=4,
        valid="continuum",
        rule=vectors.missing_momentum,
        rule_limit=1e-4,
    ),
    Problem(
        "roots",
        "coefficients to the real roots of a polynomial",
        vectors.roots,
        count=3000,
        sizes=(0, 4),
        features=1,
        valid="one",
        rule=vectors.polynomial_value,
        rule_limit=1e-4,
    ),
    Problem(
        "orders",
        "a demand to items of some kinds with amounts: two assortments are right",
        vectors.orders,
        count=2000,
        sizes=(2, 3),
        features=7,
        valid="few",
        description=DataDescription(categories=((0, 6),)),
    ),
    Problem(
        "ellipse",
        "parameters of an ellipse to 500 points on it",
        structured.ellipse,
        count=1000,
        sizes=(500, 500),
        features=2,
        valid="continuum",
        tests=50,
        rule=structured.off_ellipse,
        rule_limit=1e-4,
    ),
    Problem(
        "boxes",
        "a small image to the boxes of its rectangles",
        structured.boxes,
        count=2000,
        sizes=(1, 3),
        features=4,
        valid="one",
        description=DataDescription(boxes=((0, 4),)),
    ),
    Problem(
        "groups",
        "items to a label for each: 1 for one of two groups, whichever (aligned)",
        structured.groups,
        count=2000,
        sizes=(4, 7),
        features=1,
        valid="few",
        description=DataDescription(aligned=True),
    ),
    Problem(
        "repeated",
        "one of twenty inputs, each seen many times, to one element or to three others",
        vectors.repeated,
        count=2000,
        sizes=(1, 3),
        features=2,
        valid="continuum",
        split="examples",
    ),
    Problem(
        "few",
        "a vector to three points on its ray, from 100 examples",
        vectors.few,
        count=100,
        sizes=(3, 3),
        features=2,
        valid="continuum",
    ),
    Problem(
        "useless",
        "two useful numbers among 30 useless ones to points on a spiral",
        vectors.useless,
        count=2000,
        sizes=(2, 4),
        features=2,
        valid="continuum",
    ),
    Problem(
        "incomes",
        "a household to incomes and hours of its earners, with heavy tails",
        vectors.incomes,
        count=5000,
        sizes=(0, 3),
        features=2,
        valid="continuum",
    ),
    Problem(
        "sensors",
        "a machine's state to readings, units differ by 1e6, with outliers",
        vectors.sensors,
        count=1000,
        sizes=(1, 5),
        features=3,
        valid="continuum",
    ),
    Problem(
        "clusters",
        "a set of points to the centres of its clusters and their spreads",
        structured.clusters,
        count=3000,
        sizes=(1, 4),
        features=3,
        valid="one",
        description=DataDescription(input_kind="set"),
    ),
    Problem(
        "spectra",
        "a mixture to the spectra of its parts, 30 features each",
        structured.spectra,
        count=1500,
        sizes=(1, 4),
        features=30,
        valid="continuum",
    ),
    Problem(
        "polygons",
        "corners and radius to a polygon at any rotation, from 50,000 examples",
        vectors.polygons,
        count=50_000,
        sizes=(3, 6),
        features=2,
        valid="continuum",
        rule=vectors.off_circle,
        rule_limit=1e-4,
    ),
    Problem(
        "divisors",
        "a number to its divisors",
        vectors.divisors,
        count=1000,
        sizes=(1, 24),
        features=1,
        valid="one",
        split="examples",
        rule=vectors.remainder,
        held_out=True,
    ),
    Problem(
        "stars",
        "a small image to places and brightness of its dots",
        structured.stars,
        count=3000,
        sizes=(0, 5),
        features=3,
        valid="one",
        held_out=True,
    ),
    Problem(
        "baskets",
        "a customer among useless facts to goods of some kinds with amounts and prices",
        vectors.baskets,
        count=4000,
        sizes=(0, 8),
        features=12,
        valid="continuum",
        description=DataDescription(categories=((0, 10),)),
        held_out=True,
    ),
)


def choose_problems(names: tuple[str, ...]) -> list[Problem]:
    """The problems of these names, in the order of `PROBLEMS`; all of them without any.

    Raises:
        SettingsError: there is none of a name.
    """
    known = [problem.name for problem in PROBLEMS]
    for name in names:
        if name not in known:
            raise SettingsError(f"There is no problem '{name}'. There are: {', '.join(known)}.")
    return [problem for problem in PROBLEMS if not names or problem.name in names]
