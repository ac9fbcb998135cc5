"""Where will they walk? Simulated people: training on four places, test on a fifth.

Outputs are aligned with inputs: element i of a predicted set is the future of person i. The argument is the number
of training steps.

python examples/pedestrians.py 1000
"""

import sys

import torch

from desp import DataDescription, EngressionSettings, SetPredictor, TrainingSettings
from desp.data.pedestrian_elements import as_batch, futures
from desp.data.pedestrians import simulated_pedestrians
from desp.metrics.joint_paths import path_scores


def main(steps: int) -> None:
    """Train, predict 20 joint futures for each window of a place that was not trained on, and score them."""
    data = simulated_pedestrians("zara1")
    training = as_batch(data.training)
    pairs = list(zip(training.x, training.sets.to_ragged(), strict=True))
    predictor = SetPredictor(EngressionSettings())
    described = DataDescription(input_kind="set", aligned=True)
    predictor.fit(pairs, TrainingSettings(steps=steps, batch_size=32), description=described)

    windows = data.test.x[::10]
    truth = futures(windows, data.test.sets.elements[::10])
    predicted = torch.zeros(len(windows), 20, *truth.shape[1:])
    for number, prediction in enumerate(predictor.predict(windows, samples=20)):
        for sample, elements in enumerate(prediction.sets):
            people = windows[number, : len(elements)]
            predicted[number, sample, : len(elements)] = futures(people, elements)
    straight_on = futures(windows, torch.zeros_like(data.test.sets.elements[::10])).unsqueeze(1)
    for name, paths in (("predicted", predicted), ("constant velocity", straight_on)):
        scores = path_scores(paths, truth, data.test.sets.mask[::10])
        print(f"{name}: energy score {scores['energy_score']:.2f} m, best of K {scores['joint_ade']:.2f} m")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
