"""Digits: predict a point cloud of a one or a seven."""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from desp.data.base import Batch
from desp.data.digits import DIGITS, POINTS, draw_digits
from desp.errors import DataError
from desp.metrics import DigitTemplates
from desp.predictor import DataShape, SetPredictor
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import DigitsSettings, SamplerSettings
from desp.tasks.base import Evaluation, Example, GeneratedTask
from desp.tasks.judgement import CALIBRATED, calibration_scores, compared_sets, distribution_scores

TESTS = 4000
STYLES = 1000


class DigitsTask(GeneratedTask):
    """Score: the smaller Chamfer distance to one draw of each style, mean over tests and ten draws.

    The number of points differs with the style, and both styles are right; so set sizes have no error here,
    and the shares of the styles say whether both answers are found.
    """

    name = "digits"
    compares_collections = True
    score_name = "Chamfer distance to the nearer style"

    def __init__(self, settings: DigitsSettings, seed: int = 0) -> None:
        del settings, seed
        self.axes = {"names": ["row", "column"], "closed": False, "image_rows": True}

    def draw(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Ones and sevens in both styles."""
        return draw_digits(batch_size, generator)

    def shape(self, max_size: int | None, scaling: bool) -> tuple[DataShape, None]:
        """64 points."""
        del max_size, scaling
        return DataShape((len(DIGITS),), features=2, max_size=POINTS), None

    def read_input(self, value: Any, where: str, folder: Path, shape: DataShape) -> Tensor:
        """0 for one, 1 for seven."""
        del folder, shape
        if isinstance(value, bool) or value not in (0, 1):
            raise DataError(f"{where}: expected 0 (a one) or 1 (a seven), got {value!r}.")
        return _one_hot([int(value)])[0]

    def examples(self, seed: int) -> list[Example]:
        """Both digits, with four true clouds each."""
        truth = draw_digits(40, make_generator(seed, "examples"))
        kinds = truth.x.argmax(dim=1)
        sets = truth.sets.to_ragged()
        return [
            Example(
                label=digit.name,
                input=kind,
                x=_one_hot([kind])[0],
                truth=[sets[i] for i in (kinds == kind).nonzero().flatten()[:4].tolist()],
            )
            for kind, digit in enumerate(DIGITS)
        ]

    def evaluate(
        self, predictor: SetPredictor, *, seed: int, samples: int, sampler: SamplerSettings | None = None
    ) -> Evaluation:
        """Score, and the shares of both styles."""
        del samples
        templates = DigitTemplates(predictor.device)
        kinds = torch.arange(TESTS, device=predictor.device) % len(DIGITS)
        generator = make_generator(seed, "test chains", device=predictor.device)
        x = _one_hot(kinds)
        code = predictor.encode(x)
        raw, _ = predictor.sample(code, generator, sampler=sampler)
        sets = predictor.decode_sets(raw).packed()
        returned = sets.elements
        real = self.draw(TESTS, make_generator("real digits"))
        real_sets, real_kinds = (
            real.sets.elements.to(predictor.device),
            real.x.argmax(dim=1).to(predictor.device),
        )
        shares = _style_shares(returned, kinds, templates)
        rarest = min(share for styles in shares.values() for share in styles.values())
        compared = compared_sets(predictor, self.compared_by)
        spread, spread_details = distribution_scores(
            _by_digit(real.sets.to(predictor.device), real_kinds, compared),
            _by_digit(sets, kinds, compared),
            self.compared_by,
        )
        ranks, rank_details = self._calibration(predictor, seed, sampler)
        return Evaluation(
            raw={"score": float(templates.score(raw[..., :2], kinds).mean())},
            returned={
                "score": float(templates.score(returned, kinds).mean()),
                "rarest_style": rarest,
                **spread,
                **ranks,
            },
            real_data={"score": float(templates.score(real_sets, real_kinds).mean())},
            details={
                "style_shares": shares,
                "style_shares_real": _style_shares(real_sets, real_kinds, templates),
                "distribution": spread_details,
                "calibration": rank_details,
            },
            energy=float(predictor.raw_energy(code, raw).mean()),
        )

    def _calibration(
        self, predictor: SetPredictor, seed: int, sampler: SamplerSettings | None
    ) -> tuple[dict[str, float], dict[str, Any]]:
        truth = self.draw(CALIBRATED[predictor.device.type], make_generator(seed, "calibration digits"))
        return calibration_scores(predictor, truth.x, truth.sets, seed=seed, sampler=sampler)


def _by_digit(sets: SetBatch, kinds: Tensor, count: int) -> dict[str, SetBatch]:
    """The first `count` sets of each digit."""
    return {
        digit.name: SetBatch(sets.elements[kinds == kind], sets.presence[kinds == kind]).first(count)
        for kind, digit in enumerate(DIGITS)
    }


def _style_shares(sets: Tensor, kinds: Tensor, templates: DigitTemplates) -> dict[str, dict[str, float]]:
    """The share of each style among the first 1,000 sets of each digit."""
    shares = {}
    for kind, digit in enumerate(DIGITS):
        some = sets[kinds == kind][:STYLES]
        second = float(templates.style(some, torch.full((len(some),), kind, device=some.device)).double().mean())
        shares[digit.name] = {digit.styles[0]: 1 - second, digit.styles[1]: second}
    return shares


def _one_hot(kinds: Tensor | list[int]) -> Tensor:
    return F.one_hot(torch.as_tensor(kinds), len(DIGITS)).float()
