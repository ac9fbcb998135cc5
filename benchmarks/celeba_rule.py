"""CelebA without a method: the rule of valid answers, applied to what the classifier says of each face.

It knows the rule and is told attributes, which methods are not, so it stands apart from them. Attributes are drawn
many times from the probabilities; the share of draws in which a subset is a valid answer is its score.
Predictions are the ten best subsets, as far as their share of all scores reaches a threshold. It is chosen on
validation sets, and so is a factor of the logits, as smoothed labels leave the classifier too unsure.

python benchmarks/celeba_rule.py --data-dir ~/data --record results/celeba/rule.json
"""

import argparse
import json
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.data.celeba_lists import Part
from desp.data.subsets import SET_SIZE, attribute_bits, candidate_subsets, valid_subsets
from desp.randomness import make_generator
from desp.runs.provenance import provenance
from desp.samplers.labels import choose_labellings
from desp.settings import CelebaSettings, LabelSamplerSettings
from desp.storage import write_json
from desp.tasks.celeba import PREDICTIONS, CelebaTask, ScoredSets, scores_by_ambiguity

DRAWS = 256
THRESHOLDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
FACTORS = (1.0, 1.5, 2.0, 3.0)


def validity(
    probabilities: Float[Tensor, "b n a"], generator: torch.Generator, draws: int
) -> Float[Tensor, "b s"]:
    """How probably each of `candidate_subsets` is a valid answer, if attributes are independent."""
    batch, size, attributes = probabilities.shape
    found = torch.zeros(batch, len(candidate_subsets(size)))
    for _ in range(draws):
        has = torch.rand(probabilities.shape, generator=generator) < probabilities
        bits = attribute_bits(has.flatten(end_dim=1)).view(batch, size)
        found += valid_subsets(bits, attributes)
    return found / draws


def predictions(valid: Float[Tensor, "b s"], threshold: float) -> Bool[Tensor, "b k n"]:
    """The inliers of ten predictions for each set."""
    logits, settings = valid.clamp(min=1e-6).log(), LabelSamplerSettings(threshold)
    chosen = choose_labellings(logits, settings, PREDICTIONS, torch.Generator())
    return candidate_subsets(SET_SIZE)[chosen]


def _sets(task: CelebaTask, part: Part, factor: float) -> tuple[ScoredSets, Float[Tensor, "b s"]]:
    protocol = task.protocol("full")
    count = protocol.validation_examples if part == "validation" else protocol.test_examples[0] or 0
    sets = task.scored_sets(part, count)
    probabilities = (factor * task.data.logits[part]).sigmoid()[sets.items]
    return sets, validity(probabilities, make_generator("celeba rule", part), DRAWS)


def measure_rule(task: CelebaTask) -> dict[str, float]:
    """Factor and threshold that are best on validation sets, their F1 there, and all scores on test sets."""
    found: dict[tuple[float, float], float] = {}
    for factor in FACTORS:
        sets, shares = _sets(task, "validation", factor)
        for threshold in THRESHOLDS:
            scores = scores_by_ambiguity(predictions(shares, threshold), sets.valid)
            found[factor, threshold] = scores["f1"]
    factor, threshold = best = max(found, key=lambda both: found[both])
    sets, shares = _sets(task, "test", factor)
    scores = scores_by_ambiguity(predictions(shares, threshold), sets.valid)
    return {"factor": factor, "threshold": threshold, "validation_f1": found[best], **scores}


def main() -> None:
    """Measure and print; record if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default="", help="where CelebA is; DESP_DATA if not given")
    parser.add_argument("--record", type=Path, help="also write the scores, with their provenance, to this file")
    given = parser.parse_args()
    task = CelebaTask(CelebaSettings(data_dir=given.data_dir))
    scores = measure_rule(task)
    facts = {"data": task.data_label, "classifier": task.data.scores, "checksum": task.data.checksum}
    if given.record:
        write_json(given.record, {"scores": scores, **facts, **provenance(torch.device("cpu"))})
    print(json.dumps(scores, indent=1))


if __name__ == "__main__":
    main()
