"""What baselines learn from."""

import torch

from desp.comparison.baseline_data import MOST_EXAMPLES, BaselineData, most_examples, read_pairs, repeats_agree
from desp.comparison.set_distance import StandardisedDistance
from desp.data.shape import DataShape

SHAPE = DataShape((1,), 1, 2)


def pairs(count: int, first: float = 0.0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.tensor([first + index]), torch.tensor([[first + index]])) for index in range(count)]


def test_training_and_validation_are_kept_apart_and_together() -> None:
    data = BaselineData.read(pairs(6), pairs(2, 100.0), SHAPE, 0)
    assert (len(data.training), len(data.validation), len(data.all)) == (6, 2, 8)
    assert data.validation.inputs.flatten().tolist() == [100.0, 101.0]
    alone = BaselineData.read(pairs(6), [], SHAPE, 0)
    assert alone.validation is alone.training


def test_of_too_many_a_random_part_is_read() -> None:
    data = BaselineData.read(pairs(3 * MOST_EXAMPLES), pairs(3), SHAPE, 0)
    assert len(data.all) == MOST_EXAMPLES
    places = data.training.inputs.flatten()
    assert bool((places[1:] > places[:-1]).all())
    assert float(places.max()) > 2.9 * MOST_EXAMPLES
    again = BaselineData.read(pairs(3 * MOST_EXAMPLES), pairs(3), SHAPE, 0)
    assert torch.equal(again.training.inputs, data.training.inputs)


def test_large_inputs_and_sets_are_fewer() -> None:
    assert most_examples(SHAPE) == MOST_EXAMPLES
    image = DataShape((3, 512, 512), 1, 2, input_kind="image")
    assert most_examples(image) == 100
    assert 100 < most_examples(DataShape((64, 4), 1, 2, input_kind="set")) < MOST_EXAMPLES
    assert 100 < most_examples(DataShape((1,), 3, 5000)) < MOST_EXAMPLES


def test_elements_of_input_sets_come_first() -> None:
    x = torch.tensor([[0.0, 0.0], [5.0, 1.0], [7.0, 1.0]])  # presence last
    shape = DataShape((3, 2), 1, 2, input_kind="set")
    found = read_pairs([(x, torch.tensor([[1.0], [2.0]]))], shape)
    assert found.inputs[0].tolist() == [[5.0, 1.0], [7.0, 1.0], [0.0, 0.0]]


def test_equal_inputs_tell_whether_one_answer_is_right() -> None:
    set_distance = StandardisedDistance(torch.zeros(1), torch.ones(1), 2, False)
    same = BaselineData.read(pairs(12) + pairs(12), [], SHAPE, 0)
    assert repeats_agree(set_distance, same, 0.1) is True
    other = [(x, -10 - y) for x, y in pairs(12)]
    assert repeats_agree(set_distance, BaselineData.read(pairs(12) + other, [], SHAPE, 0), 0.1) is False
    assert repeats_agree(set_distance, BaselineData.read(pairs(12) + pairs(2), [], SHAPE, 0), 0.1) is None
