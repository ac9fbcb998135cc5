"""The chains of the paper's five tasks, with random weights and inputs: ours, and the reference's."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from desp.benchmarks.measure import OUR_PRECISION, REFERENCE_PRECISION, BenchOptions, Row, make_row, measure
from desp.benchmarks.reference import reference_chain
from desp.capture import CapturedCall, warm_up
from desp.energies import SetEnergy
from desp.precision import matmul_precision
from desp.randomness import make_generator, seeded_weights
from desp.samplers import ChainEngine, LangevinSampler
from desp.settings import DeepSetsSettings, EnergySettings, LangevinSettings, SetEncoderEnergySettings


@dataclass(frozen=True)
class ChainCase:
    """The training-time chain of one task (S = T).

    Attributes:
        task: its name.
        batch: B.
        size: N.
        channels: C.
        code_features: H, numbers of the code h(x).
        steps: T.
        noise_scale: standard deviation of the noise of a step.
        energy: the network.
        code_each: whether every element has a code of its own, (B, N, H) in place of (B, H).
    """

    task: str
    batch: int
    size: int
    channels: int
    code_features: int
    steps: int
    noise_scale: float
    energy: EnergySettings
    code_each: bool = False

    @property
    def code_shape(self) -> tuple[int, ...]:
        """The shape of one input's code."""
        return (self.size, self.code_features) if self.code_each else (self.code_features,)

    def build(self, device: torch.device, seed: int = 0) -> SetEnergy:
        """The energy with weights drawn from `seed`; its inputs are codes already."""
        with seeded_weights(seed, "bench", self.task, "weights"):
            energy: SetEnergy = self.energy.load()(self.energy, self.channels, self.code_shape)
        return energy.to(device)

    def code(self, device: torch.device, seed: int = 0) -> Float[Tensor, "b *code"]:
        """Random codes, uniform in [0, 1]."""
        generator = make_generator(seed, "bench", self.task, "code", device=device)
        return torch.rand((self.batch, *self.code_shape), generator=generator, device=device)

    def start(self, device: torch.device) -> Float[Tensor, "b n c"]:
        """Where the chain starts: at zero."""
        return torch.zeros(self.batch, self.size, self.channels, device=device)

    def chain(self, steps: int | None = None) -> LangevinSettings:
        """The chain, or its first `steps` steps."""
        length = steps or self.steps
        return LangevinSettings(steps=length, stochastic_steps=length, noise_scale=self.noise_scale)


_TOY = DeepSetsSettings(hidden=256, element_layers=3, set_layers=3, divide_by_size=True)
_MNIST = SetEncoderEnergySettings(hidden=256, layers=3, latent=64, divide_by_size=False)
_CLEVR = SetEncoderEnergySettings(hidden=512, layers=2, latent=512, divide_by_size=True)  # of clevr-desp-simple
_CELEBA = DeepSetsSettings(hidden=256, element_layers=2, set_layers=2, divide_by_size=False)

CHAINS = (
    ChainCase("polygons", 100, 8, 2, code_features=5, steps=100, noise_scale=0.01, energy=_TOY),
    ChainCase("digits", 100, 64, 2, code_features=2, steps=100, noise_scale=0.01, energy=_TOY),
    ChainCase("mnist", 100, 342, 3, code_features=64, steps=500, noise_scale=0.005, energy=_MNIST),
    ChainCase("clevr", 100, 10, 5, code_features=512, steps=200, noise_scale=0.0025, energy=_CLEVR),
    ChainCase("celeba", 64, 5, 1, code_features=128, steps=50, noise_scale=0.1, energy=_CELEBA, code_each=True),
)

# The engine is chosen as for a whole training: 4,000 chains of 100 steps, which is the shortest of the paper.
GRADIENTS_OF_A_TRAINING = 400_000
# A whole reference chain takes minutes on a CPU; there this many of its steps are measured and scaled up.
STEPS_ON_CPU = 20


def sampler_rows(options: BenchOptions) -> list[Row]:
    """One row a task.

    With `options.steps`, or by default on the CPU, only the first steps of each chain are measured, and the
    time is scaled to the whole chain; `measured_steps` says so.
    """
    tasks = options.chosen([case.task for case in CHAINS])
    return [options.tell(_row(case, options)) for case in CHAINS if case.task in tasks]


def _row(case: ChainCase, options: BenchOptions) -> Row:
    energy = case.build(options.device, options.seed)
    wanted = options.steps or (case.steps if options.device.type == "cuda" else STEPS_ON_CPU)
    measured = min(wanted, case.steps)
    with matmul_precision(OUR_PRECISION):
        ours, engine = time_our_chain(case, energy, options, measured)
    with matmul_precision(REFERENCE_PRECISION):
        reference = measure(_reference(case, energy, options, measured), options.device, options.repeats)
    captured = _time_captured(case, energy, options, measured) if options.device.type == "cuda" else None
    for timing in filter(None, (ours, reference, captured)):  # of the whole chain
        for name in ("ms", "spread_ms"):
            timing[name] *= case.steps / measured
    return make_row(
        case.task,
        engine,
        options.device,
        ours,
        reference,
        captured,
        steps=case.steps,
        measured_steps=measured,
        batch=case.batch,
        size=case.size,
    )


def time_our_chain(case: ChainCase, energy: SetEnergy, options: BenchOptions, steps: int) -> tuple[Row, str]:
    """The time of `steps` steps of our chain, and the engine that ran it."""
    engine = ChainEngine(energy, options.engine, expected_gradients=GRADIENTS_OF_A_TRAINING)
    code, start = case.code(options.device, options.seed), case.start(options.device)
    generator, sampler = _generator(case, options), LangevinSampler(case.chain(steps))
    timing = measure(lambda: engine.run(sampler, code, start, generator), options.device, options.repeats)
    return timing, engine.name(options.device)


def _reference(case: ChainCase, energy: SetEnergy, options: BenchOptions, steps: int) -> Callable[[], object]:
    code, start = case.code(options.device, options.seed), case.start(options.device)
    generator = _generator(case, options)
    return lambda: reference_chain(energy, code, start, generator, steps=steps, noise_scale=case.noise_scale)


def _time_captured(case: ChainCase, energy: SetEnergy, options: BenchOptions, steps: int) -> Row:
    """The reference, unchanged but for what anybody would do first on a GPU: captured as one CUDA graph, with tf32
    products."""
    code, start = case.code(options.device, options.seed), case.start(options.device)
    generator = _generator(case, options)

    def work() -> Tensor:
        return reference_chain(energy, code, start, generator, steps=steps, noise_scale=case.noise_scale)

    with matmul_precision(OUR_PRECISION):
        warm_up(work)
        captured = CapturedCall(work, [generator])
        return measure(captured, options.device, options.repeats)


def _generator(case: ChainCase, options: BenchOptions) -> torch.Generator:
    return make_generator(options.seed, "bench", case.task, "noise", device=options.device)
