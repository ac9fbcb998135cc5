"""How a predictor runs its chains: in parts of one size, in order, on record."""

import torch
from torch import Tensor

from desp.data.base import Batch
from desp.predictors import EnergyPredictor
from desp.randomness import make_generator
from desp.samplers import ChainInfo
from desp.sets import SetBatch
from desp.settings import LangevinSettings, PredictorSettings, TrainingSettings

Pairs = list[tuple[Tensor, Tensor]]


def test_chains_beyond_a_thousand_run_in_parts(fitted: EnergyPredictor, pairs: Pairs) -> None:
    """The first thousand of 1,500 use the same noise as a run of exactly a thousand, and then it goes on."""
    x = pairs[0][0].expand(1500, -1)
    long, info = fitted.sample(x, make_generator(1), record="trace")
    short, _ = fitted.sample(x[:1000], make_generator(1))
    assert long.shape == (1500, 4, 2)
    assert info.energies is not None
    assert info.energies.shape == (4, 1500)
    torch.testing.assert_close(long[:1000], short, rtol=0, atol=0)
    assert not torch.equal(long[1000:], short[:500])


def test_the_parts_of_many_inputs_stay_in_order(fitted: EnergyPredictor) -> None:
    """Without noise a set depends on its input alone, so the 1,203rd of many is what it is by itself."""
    quiet = LangevinSettings(steps=3, stochastic_steps=0)
    x = torch.linspace(-3, 3, 1204).unsqueeze(1).repeat(1, 3)
    together, _ = fitted.sample(x, make_generator(0), sampler=quiet)
    for index in (0, 999, 1000, 1203):
        alone, _ = fitted.sample(x[index : index + 1], make_generator(0), sampler=quiet)
        torch.testing.assert_close(together[index : index + 1], alone, rtol=1e-4, atol=1e-5)


def test_record_of_a_prediction_chain(variant: PredictorSettings, pairs: Pairs, short: TrainingSettings) -> None:
    predictor = EnergyPredictor(variant, device="cpu")
    predictor.fit(pairs, short)
    steps, channels = 4 if variant.estimator.kind == "contrastive" else 3, predictor.padding.channels(2)
    raw, info = predictor.sample(torch.stack([x for x, _ in pairs[:2]]), make_generator(0), record="trajectory")
    if not predictor.network.scores_sets:  # sets are made in one pass
        assert info == ChainInfo()
        return
    assert info.trajectory is not None
    assert info.energies is not None
    assert info.trajectory.shape == (steps + 1, 2, 4, channels)
    assert info.energies.shape == (steps, 2)
    torch.testing.assert_close(info.trajectory[-1], raw)


def test_prepare_brings_a_batch_to_the_networks_tensors(fitted: EnergyPredictor, pairs: Pairs) -> None:
    batch = Batch(torch.stack([x for x, _ in pairs]).double(), SetBatch.from_ragged([y for _, y in pairs]))
    x, y = fitted.prepare(batch, torch.device("cpu"))
    assert (x.dtype, y.dtype) == (torch.float32, torch.float32)
    assert (x.shape, y.shape) == ((12, 3), (12, 4, 2))
