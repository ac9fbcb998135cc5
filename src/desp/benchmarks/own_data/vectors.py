"""Problems whose inputs are vectors, and whose elements are few numbers."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from desp.benchmarks.own_data.problem import as_sets, first_rows, normal, uniform, whole
from desp.comparison.examples import Examples, chosen
from desp.sets import SetBatch

PION_MASS = 0.14
KINDS = 6
PLACES = 20
LARGEST_NUMBER = 600
BINARY_DIGITS = 10
USELESS = 30
SENSOR_UNITS = (1e-3, 1e4, 1.0)
WRONG_STATE = 50


def events(count: int, generator: torch.Generator) -> Examples:
    """A momentum, and the particles that share it: any split is valid as long as momenta add up."""
    total = normal(generator, count, 3) * torch.tensor([3.0, 3.0, 20.0])
    return Examples(total, events_sets(total, generator))


def events_sets(total: Float[Tensor, "m 3"], generator: torch.Generator) -> SetBatch:
    """Particles (M, 6, 4) for momenta."""
    count = len(total)
    mask = first_rows(whole(generator, 2, 6, count), 6)
    weights = -torch.rand((count, 6), generator=generator).clamp(min=1e-6).log() * mask
    shares = (weights / weights.sum(dim=1, keepdim=True)).unsqueeze(-1)
    kicks = 0.5 * normal(generator, count, 6, 3) * mask.unsqueeze(-1)
    kicks = kicks - mask.unsqueeze(-1) * (kicks.sum(dim=1) / mask.sum(dim=1, keepdim=True)).unsqueeze(1)
    momenta = shares * total.unsqueeze(1) + kicks
    energy = (momenta.square().sum(dim=-1, keepdim=True) + PION_MASS**2).sqrt()
    return as_sets(torch.cat([momenta, energy], dim=-1), mask)


def missing_momentum(x: Tensor, sets: SetBatch) -> Float[Tensor, " m"]:
    """How far momenta are from adding up to the event's, relative to that."""
    added = (sets.elements[..., :3] * sets.mask.unsqueeze(-1)).sum(dim=1)
    return (added - x).norm(dim=1) / (1 + x.norm(dim=1))


def roots(count: int, generator: torch.Generator) -> Examples:
    """The coefficients of a polynomial of degree four, and its real roots: none, two or four."""
    real = uniform(generator, count, 2) < 0.6
    ends = uniform(generator, count, 2, 2, low=-1.0)
    middle, height = uniform(generator, count, 2, low=-1.0), uniform(generator, count, 2, low=0.2)
    linear = torch.where(real, -ends.sum(dim=2), -2 * middle)
    constant = torch.where(real, ends.prod(dim=2), middle.square() + height.square())
    coefficients = torch.stack(
        [
            linear.sum(dim=1),
            constant.sum(dim=1) + linear.prod(dim=1),
            linear[:, 0] * constant[:, 1] + linear[:, 1] * constant[:, 0],
            constant.prod(dim=1),
        ],
        dim=1,
    )
    sets = as_sets(ends.reshape(count, 4, 1), real.repeat_interleave(2, dim=1))
    return Examples(coefficients, sets, (sets,))


def polynomial_value(x: Tensor, sets: SetBatch) -> Float[Tensor, " m"]:
    """The largest absolute value of the polynomial at an element."""
    at = sets.elements[..., 0]
    value = torch.ones_like(at)
    for coefficient in x.unbind(dim=1):
        value = value * at + coefficient.unsqueeze(1)
    return (value.abs() * sets.mask).amax(dim=1)


def orders(count: int, generator: torch.Generator) -> Examples:
    """A demand, and the items that meet it: two of one assortment, or three of another."""
    start = whole(generator, 0, 2, count)
    demand, share = uniform(generator, count, low=1.0, high=10.0), uniform(generator, count, low=0.2, high=0.8)
    thirds = torch.stack([1 - share / 2, torch.ones(count), 1 + share / 2], dim=1) / 3
    halves = torch.stack([share, 1 - share, torch.zeros(count)], dim=1)
    answers = tuple(
        _items(start.unsqueeze(1) + torch.arange(first, first + 3), demand.unsqueeze(1) * parts, rows)
        for first, parts, rows in ((0, halves, 2), (2, thirds, 3))
    )
    x = torch.cat([F.one_hot(start, 3).float(), torch.stack([demand, share], dim=1)], dim=1)
    return Examples(x, chosen(whole(generator, 0, 1, count), answers), answers)


def _items(kinds: Tensor, amounts: Tensor, rows: int) -> SetBatch:
    """The first `rows` items as one-hot kinds with amounts."""
    elements = torch.cat([F.one_hot(kinds % KINDS, KINDS).float(), amounts.unsqueeze(-1)], dim=-1)
    return as_sets(elements, first_rows(torch.full((len(kinds),), rows), 3))


def repeated(count: int, generator: torch.Generator) -> Examples:
    """One of twenty inputs, each seen many times: the answer is a single element, or three others."""
    angle = whole(generator, 0, PLACES - 1, count) * (2 * math.pi / PLACES)
    centre = torch.stack([angle.cos(), angle.sin()], dim=1)
    return Examples(centre, repeated_sets(centre, generator))


def repeated_sets(centre: Float[Tensor, "m 2"], generator: torch.Generator) -> SetBatch:
    """Sets (M, 3, 2) for inputs."""
    count = len(centre)
    place = (torch.atan2(centre[:, 1], centre[:, 0]) * (PLACES / (2 * math.pi))).round() % PLACES
    around = torch.tensor([[0.3, 0.0], [-0.15, 0.26], [-0.15, -0.26]])
    noise = 0.03 * normal(generator, count, 3, 2)
    single = as_sets(centre.unsqueeze(1) + noise, first_rows(torch.full((count,), 1), 3))
    three = as_sets(around - centre.unsqueeze(1) + noise, first_rows(torch.full((count,), 3), 3))
    return chosen(torch.bernoulli(0.2 + 0.03 * place, generator=generator).long(), (single, three))


def few(count: int, generator: torch.Generator) -> Examples:
    """A direction and a length, and three points on that ray, with a little noise."""
    x = uniform(generator, count, 2, low=-1.0)
    return Examples(x, few_sets(x, generator))


def few_sets(x: Float[Tensor, "m 2"], generator: torch.Generator) -> SetBatch:
    """Points (M, 3, 2) for directions."""
    at = torch.tensor([0.5, 1.0, 1.5]).view(1, 3, 1) * x.unsqueeze(1) + 0.02 * normal(generator, len(x), 3, 2)
    return as_sets(at, first_rows(torch.full((len(x),), 3), 3))


def useless(count: int, generator: torch.Generator) -> Examples:
    """Two useful numbers among thirty that say nothing, and two to four points on a spiral."""
    useful = uniform(generator, count, 2)
    sets = useless_sets(useful, generator)
    return Examples(torch.cat([useful, normal(generator, count, USELESS)], dim=1), sets)


def useless_sets(x: Float[Tensor, "m h"], generator: torch.Generator) -> SetBatch:
    """Points (M, 4, 2) for the first two numbers of inputs."""
    useful = x[:, :2]
    sizes = 2 + (useful[:, 0] * 3).long()
    angle = (2 * math.pi) * useful[:, 1:] + torch.arange(4)
    radius = 0.4 + 0.2 * torch.arange(4) + 0.3 * useful[:, :1]
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1)
    return as_sets(points + 0.02 * normal(generator, len(x), 4, 2), first_rows(sizes, 4))


def incomes(count: int, generator: torch.Generator) -> Examples:
    """A household, and the incomes and hours of its earners: incomes have heavy tails."""
    age, schooling = uniform(generator, count, low=20.0, high=80.0), uniform(generator, count, low=8.0, high=20.0)
    region = F.one_hot(whole(generator, 0, 2, count), 3).float()
    x = torch.cat([torch.stack([age, schooling], dim=1), region], dim=1)
    return Examples(x, incomes_sets(x, generator))


def incomes_sets(x: Float[Tensor, "m 5"], generator: torch.Generator) -> SetBatch:
    """Incomes and hours (M, 3, 2) for households."""
    (age, schooling), region, count = x[:, :2].unbind(dim=1), x[:, 2:].argmax(dim=1), len(x)
    working = torch.where(age < 65, 0.75, 0.15).unsqueeze(1).expand(count, 3)
    mask = torch.bernoulli(working, generator=generator).bool()
    middle = 9.5 + 0.12 * (schooling - 8) + 0.3 * region
    income = (middle.unsqueeze(1) + 0.7 * normal(generator, count, 3)).exp()
    lucky = uniform(generator, count, 3) < 0.05
    income = torch.where(lucky, income * uniform(generator, count, 3).clamp(min=1e-4).pow(-1 / 1.2), income)
    hours = (38 + 6 * normal(generator, count, 3)).clamp(5, 70)
    return as_sets(torch.stack([income, hours], dim=-1), mask)


def sensors(count: int, generator: torch.Generator) -> Examples:
    """The state of a machine, and one to five readings of it; units differ by 1e6, and some values are wrong."""
    load, speed = uniform(generator, count), uniform(generator, count)
    elements = _readings(load, speed, generator)
    x = torch.stack([load, speed, uniform(generator, count)], dim=1) * torch.tensor(SENSOR_UNITS)
    x = torch.where(uniform(generator, count, 1) < 0.01, WRONG_STATE * x, x)
    return Examples(x, as_sets(elements, first_rows(_reading_counts(load, generator), 5)))


def sensors_sets(x: Float[Tensor, "m 3"], generator: torch.Generator) -> SetBatch:
    """Readings (M, 5, 3) for states: none is above 1 in its unit but wrong ones."""
    state = x / torch.tensor(SENSOR_UNITS)
    state = torch.where(state.amax(dim=1, keepdim=True) > 1, state / WRONG_STATE, state)
    load, speed, _ = state.unbind(dim=1)
    return as_sets(_readings(load, speed, generator), first_rows(_reading_counts(load, generator), 5))


def _readings(load: Tensor, speed: Tensor, generator: torch.Generator) -> Float[Tensor, "m 5 3"]:
    count = len(load)
    place = (torch.arange(5) + uniform(generator, count, 5)) / 5
    volts = 1e-3 * (1 + load.unsqueeze(1) + place + 0.05 * normal(generator, count, 5))
    hertz = 1e3 * (1 + 2 * speed.unsqueeze(1) * place + 0.05 * normal(generator, count, 5))
    kelvin = 290 + 40 * load.unsqueeze(1) * place + normal(generator, count, 5)
    wrong = uniform(generator, count, 5) < 0.02
    return torch.stack([torch.where(wrong, 10 * volts, volts), hertz, kelvin], dim=-1)


def _reading_counts(load: Tensor, generator: torch.Generator) -> Int[Tensor, " m"]:
    return (1 + 4 * load + uniform(generator, len(load))).long().clamp(1, 5)


def polygons(count: int, generator: torch.Generator) -> Examples:
    """A number of corners and a radius, and that regular polygon at any rotation."""
    corners, radius = whole(generator, 3, 6, count), uniform(generator, count, low=0.3)
    x = torch.stack([corners.float(), radius], dim=1)
    return Examples(x, polygons_sets(x, generator))


def polygons_sets(x: Float[Tensor, "m 2"], generator: torch.Generator) -> SetBatch:
    """Corners (M, 6, 2) for their number and radius."""
    corners, radius, turn = x[:, 0].long(), x[:, 1], uniform(generator, len(x))
    angle = (2 * math.pi) * (turn.unsqueeze(1) + torch.arange(6)) / corners.unsqueeze(1)
    points = radius.view(-1, 1, 1) * torch.stack([angle.cos(), angle.sin()], dim=-1)
    return as_sets(points, first_rows(corners, 6))


def off_circle(x: Tensor, sets: SetBatch) -> Float[Tensor, " m"]:
    """How far corners are from the circle of the radius, at most, and sizes from the number of corners."""
    off = ((sets.elements.norm(dim=-1) - x[:, 1:]).abs() * sets.mask).amax(dim=1)
    return off + (sets.sizes - x[:, 0]).abs()


def divisors(count: int, generator: torch.Generator) -> Examples:
    """A number up to 600 with its binary digits, and all its divisors."""
    number = whole(generator, 1, LARGEST_NUMBER, count)
    candidates = torch.arange(1, LARGEST_NUMBER + 1)
    divides = number.unsqueeze(1) % candidates == 0
    order = divides.int().argsort(dim=1, descending=True, stable=True)[:, :24]
    sets = as_sets(candidates[order].unsqueeze(-1).float(), divides.gather(1, order))
    digits = (number.unsqueeze(1) >> torch.arange(BINARY_DIGITS)) & 1
    return Examples(torch.cat([number.unsqueeze(1), digits], dim=1).float(), sets, (sets,))


def remainder(x: Tensor, sets: SetBatch) -> Float[Tensor, " m"]:
    """The largest remainder of the number by an element, rounded."""
    by = sets.elements[..., 0].round().clamp(min=1)
    return ((x[:, :1] % by) * sets.mask).amax(dim=1)


def baskets(count: int, generator: torch.Generator) -> Examples:
    """A customer among useless facts, and a basket: up to eight goods of ten kinds, their amounts and prices."""
    taste = uniform(generator, count, 3)
    sets = baskets_sets(taste, generator)
    return Examples(torch.cat([taste, normal(generator, count, 5)], dim=1), sets)


def baskets_sets(x: Float[Tensor, "m h"], generator: torch.Generator) -> SetBatch:
    """Goods (M, 8, 12) for the first three numbers of customers."""
    taste, count = x[:, :3], len(x)
    sizes = (7 * taste[:, 0] + 2 * uniform(generator, count)).long().clamp(max=8)
    liked = (taste[:, 1:2] * 8).long() + whole(generator, 0, 2, count, 8)
    amount = (normal(generator, count, 8) + 2 * taste[:, 2:]).exp()
    price = 100.0 * (1 + liked) * (1 + 0.1 * normal(generator, count, 8)).clamp(min=0.1)
    elements = torch.cat([F.one_hot(liked, 10).float(), torch.stack([amount, price], dim=-1)], dim=-1)
    return as_sets(elements, first_rows(sizes, 8))
