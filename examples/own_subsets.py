"""Which items belong together? A table with a row for each item and a column for each answer.

A set has four to six fruit. Each is red or not and large or not; the table has both with noise (hue, diameter),
and two useless numbers (price, day). The red fruit of a set belong together if they are three or more and not all,
and so do the large ones; often both answers are valid. Sets without a valid answer are left out.

python examples/own_subsets.py --output fruit.csv --count 600
desp data labels fruit.csv --output fruit.jsonl --label-columns by_colour by_size
desp train custom --data fruit.jsonl --task.description.aligned --use-method label-likelihood --run runs/fruit \\
    --method.energy.hidden 64 --training.steps 1000
desp evaluate runs/fruit
desp predict runs/fruit --input fruit.jsonl --samples 5 --output predicted.jsonl
"""

import argparse
import csv
from pathlib import Path

import torch

SIZES = (4, 6)
ENOUGH = 3
NOISE = 0.15


def draw_fruit(generator: torch.Generator) -> tuple[list[list[float]], list[list[int]]]:
    """Features of some fruit, and the labels of each answer: 1 for red, and for large fruit; [] where that is no
    valid answer."""
    count = int(torch.randint(SIZES[0], SIZES[1] + 1, (1,), generator=generator))
    kinds = torch.randint(2, (count, 2), generator=generator)
    seen = kinds + NOISE * torch.randn(count, 2, generator=generator)
    features = torch.cat([seen, torch.rand(count, 2, generator=generator)], dim=1)
    answers = [kind.tolist() if ENOUGH <= int(kind.sum()) < count else [] for kind in kinds.T]
    return features.tolist(), answers


def main(output: Path, count: int = 600, seed: int = 0) -> None:
    """Write the table."""
    generator, written = torch.Generator().manual_seed(seed), 0
    with output.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["set", "by_colour", "by_size", "hue", "diameter", "price", "day"])
        while written < count:
            features, answers = draw_fruit(generator)
            if not any(answers):
                continue
            for index, item in enumerate(features):
                labels = [answer[index] if answer else "" for answer in answers]
                rows.writerow([written, *labels, *(round(value, 3) for value in item)])
            written += 1
    print(f"{output}: {count} sets of fruit")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="CSV file to write")
    parser.add_argument("--count", type=int, default=600, help="sets")
    parser.add_argument("--seed", type=int, default=0, help="of the fruit")
    given = parser.parse_args()
    main(given.output, given.count, given.seed)
