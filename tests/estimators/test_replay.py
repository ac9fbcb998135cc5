"""Chains that go on: the right sets for the right inputs."""

import pytest
import torch
from torch import Tensor

from desp.energies import default_input_encoder, make_energy
from desp.estimators import ContrastiveEstimator
from desp.estimators.replay import Replay
from desp.settings import ContrastiveSettings, DeepSetsSettings, LangevinSettings

LIKE = torch.zeros(4, 3, 2)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def inputs(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).unsqueeze(1).expand(-1, 5) + torch.arange(5)


def filled(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).view(-1, 1, 1).expand(-1, 3, 2)


def test_what_was_kept_for_an_input_is_found_by_it() -> None:
    replay = Replay(10)
    replay.keep(inputs(1, 2, 3), filled(10, 20, 30))
    starts = replay.starts(inputs(3, 1, 7, 2), LIKE, 1.0, seeded())
    assert torch.equal(starts, filled(30, 10, 0, 20))


def test_different_inputs_have_different_keys() -> None:
    binary = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 12)
    assert len(Replay._keys(binary).unique()) == len(binary)
    assert len(Replay._keys(torch.eye(50)).unique()) == 50


def test_nothing_is_found_at_first() -> None:
    assert torch.equal(Replay(10).starts(inputs(0, 1, 2, 3), LIKE, 1.0, seeded()), LIKE)


def test_any_of_several_is_taken() -> None:
    replay = Replay(10)
    replay.keep(inputs(1, 1, 1, 2), filled(1, 2, 3, 4))
    many = replay.starts(inputs(*[1] * 300), torch.zeros(300, 3, 2), 1.0, seeded())[:, 0, 0]
    values, counts = many.unique(return_counts=True)
    assert values.tolist() == [1, 2, 3]
    assert counts.min() > 60


def test_the_share_that_goes_on() -> None:
    replay = Replay(10)
    replay.keep(inputs(1), filled(5))
    starts = replay.starts(inputs(*[1] * 1000), torch.zeros(1000, 3, 2), 0.3, seeded())[:, 0, 0]
    assert float((starts == 5).double().mean()) == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 10])
def test_the_oldest_make_room(parts: int) -> None:
    replay = Replay(4)
    values = torch.arange(1.0, 11.0)
    for part in values.chunk(parts):
        replay.keep(inputs(*part.tolist()), filled(*part.tolist()))
    found = replay.starts(inputs(*values.tolist()), torch.zeros(10, 3, 2), 1.0, seeded())[:, 0, 0]
    assert torch.equal(found, torch.where(values > 6, values, 0.0))


def test_what_was_saved_goes_on() -> None:
    first, second = Replay(4), Replay(4)
    first.keep(inputs(1, 2), filled(1, 2))
    second.load(first.tensors, torch.device("cpu"))
    for replay in (first, second):
        replay.keep(inputs(3, 4, 5), filled(3, 4, 5))
    for name, value in first.tensors.items():
        torch.testing.assert_close(second.tensors[name], value, rtol=0, atol=0, equal_nan=True)


def make_estimator(**settings: float) -> ContrastiveEstimator:
    torch.manual_seed(0)
    energy = DeepSetsSettings(hidden=8)
    built = make_energy(energy, 2, (5,), default_input_encoder("vector", (5,), energy))
    chain = LangevinSettings(steps=3, stochastic_steps=3, noise_scale=0.05)
    return ContrastiveEstimator(built, ContrastiveSettings(chain=chain, **settings), "eager")


def test_chains_go_on_where_they_ended() -> None:
    estimator, x = make_estimator(replay=1.0), inputs(1, 2, 3, 4)
    starts: list[Tensor] = []
    run = estimator.engine.run

    def watched(sampler: object, code: Tensor, start: Tensor, generator: torch.Generator) -> object:
        starts.append(start)
        ended.append(run(sampler, code, start, generator)[0])
        return ended[-1], None

    ended: list[Tensor] = []
    estimator.engine.run = watched
    for _ in range(3):
        estimator(x, torch.rand(4, 3, 2, generator=seeded()), seeded())
    assert torch.equal(starts[0], torch.zeros(4, 3, 2))
    # Of all ends for the input so far, any may be taken: here those of the first or the second call.
    for start, *candidates in zip(starts[2], ended[0], ended[1], strict=True):
        assert any(torch.equal(start, candidate) for candidate in candidates)


def test_the_penalty_is_the_mean_square_of_all_energies() -> None:
    x, y = inputs(1, 2, 3, 4), torch.rand(4, 3, 2, generator=seeded())
    (plain, _), (held, _) = (make_estimator(energy_penalty=value)(x, y, seeded()) for value in (0.0, 0.5))
    estimator = make_estimator()
    noise = torch.randn(y.shape, generator=(generator := seeded()))
    code = estimator.energy.encode(x)
    sampled = estimator._sampled(x, code, y, generator)
    energies = torch.cat([estimator.energy.score(code, y + 0.02 * noise), estimator.energy.score(code, sampled)])
    expected = 0.5 * energies.square().mean()
    torch.testing.assert_close(held - plain, expected, rtol=1e-4, atol=0.0)
