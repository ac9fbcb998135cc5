"""Few predictions that stand for many."""

import torch

from desp.predictor.representatives import representatives


def test_each_cluster_has_its_mean() -> None:
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    drawn = torch.stack([centres[[0, 1, 2, 0, 1, 2, 0, 0, 1]] + 0.1 * torch.randn(9, 2, generator=generator)])
    found = representatives(drawn, 3)[0]
    for number, members in enumerate(([0, 3, 6, 7], [1, 4, 8], [2, 5])):
        torch.testing.assert_close(found[number], drawn[0, members].mean(dim=0))


def test_all_samples_stay_as_they_are() -> None:
    drawn = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(representatives(drawn, 5), drawn)


def test_the_nearest_representative_is_nearer_than_the_nearest_sample() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn, new = torch.randn(200, 80, 2, generator=generator), torch.randn(200, 1, 2, generator=generator)
    nearest = [
        float(torch.cdist(new, some).amin(dim=2).mean()) for some in (representatives(drawn, 8), drawn[:, :8])
    ]
    assert nearest[0] < 0.85 * nearest[1]


def test_equal_samples_leave_clusters_empty_and_nothing_is_nan() -> None:
    found = representatives(torch.ones(1, 6, 2), 3)
    assert torch.equal(found, torch.ones(1, 3, 2))
