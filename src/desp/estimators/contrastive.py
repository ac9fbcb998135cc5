"""Maximum likelihood by contrast (equations 3 to 5)."""

from typing import Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor

from desp.energies import SetEnergy
from desp.estimators.base import Estimator
from desp.estimators.replay import Replay
from desp.samplers import ChainEngine, LangevinSampler, eager_gradient
from desp.settings import ContrastiveSettings, Engine


class ContrastiveEstimator(Estimator):
    """Lowers the energy of real sets and raises that of the model's own.

    The gradient of log Z (equation 4) is estimated with one sample for each input, the end of a Langevin
    chain (equation 5) that starts at zero. Real sets carry noise, without which the density would be infinite
    on the data and flat elsewhere. Energies may be held near zero by a penalty, samples that run away
    left alone, and chains may go on where the last one for the same input ended.

    Args:
        energy: what is trained.
        settings: the chain, the noise on data.
        engine: how chains run.
        steps: how long training is, for the engine to choose.
    """

    def __init__(
        self, energy: SetEnergy, settings: ContrastiveSettings, engine: Engine = "auto", *, steps: int = 0
    ) -> None:
        super().__init__()
        self.energy = energy
        self.settings = settings
        self.engine = ChainEngine(energy, engine, gradients=steps * settings.chain.steps)
        self.replay = Replay(settings.replay_capacity)

    @property
    def engine_used(self) -> str:
        """How its chains ran last."""
        return self.engine.used or "eager"

    def go_on_with(self, engine: str) -> None:
        """Run chains on the CPU as before."""
        if engine in ("eager", "compiled"):
            self.engine.settled = cast(Literal["eager", "compiled"], engine)

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean energy of noised data minus mean energy of samples."""
        noise = torch.randn(y.shape, generator=generator, device=y.device, dtype=y.dtype)
        real = y + self.settings.data_noise * noise
        code = self.energy.encode(x)
        sampled = self._sampled(x, code.detach(), y, generator)
        energies = self.energy.score(torch.cat([code, code]), torch.cat([real, sampled]))
        of_real, of_sampled = energies.view(2, -1)
        statistics = {"energy_real": of_real.detach().mean(), "energy_sampled": of_sampled.detach().mean()}
        if self.settings.spare_runaways:
            runaways = self._runaways(code.detach(), sampled)
            statistics["runaways"] = runaways.to(of_real.dtype).mean()
            of_sampled = torch.where(runaways, of_sampled.detach(), of_sampled)
            # No chain goes on from there: it begins anew.
            sampled = torch.where(runaways.view(-1, 1, 1), 0.0, sampled)
        if self.settings.replay > 0:
            self.replay.keep(x, sampled)
        loss = of_real.mean() - of_sampled.mean()
        if self.settings.energy_penalty > 0:
            loss = loss + self.settings.energy_penalty * torch.cat([of_real, of_sampled]).square().mean()
        return loss, statistics

    def _sampled(self, x: Tensor, code: Tensor, like: Tensor, generator: torch.Generator) -> Tensor:
        """The ends of chains that start at zero, or where the last chain for the same input ended."""
        share, start = self.settings.replay, torch.zeros_like(like)
        if share > 0:
            start = self.replay.starts(x, like, share, generator)
        sampled, _ = self.engine.run(LangevinSampler(self.settings.chain), code, start, generator)
        return sampled

    @torch.no_grad()
    def _runaways(self, code: Tensor, sampled: Tensor) -> Tensor:
        """Which samples (B,) have an element whose next step would be longer than the chain's largest."""
        chain = self.settings.chain
        _, slope = eager_gradient(self.energy, code, sampled.shape[1])(sampled)
        longest = (chain.step_size * slope).norm(dim=2).amax(dim=1)
        return longest > cast(float, chain.largest_step)

    def failure(self, numbers: dict[str, float]) -> str | None:
        """Too many samples run away: the energy is too steep for prediction, too, and sparing does not mend it."""
        share = numbers.get("runaways", 0.0)
        if share <= self.settings.most_runaways:
            return None
        return (
            f"{share:.1%} of the samples run away and are spared, more than estimator.most_runaways: the energy "
            "is too steep for the chains' steps. Is estimator.chain.largest_step below the data's noise? Then "
            "raise it."
        )

    @property
    def memory(self) -> dict[str, Tensor]:
        """The sets that chains may go on from."""
        return self.replay.tensors

    def remember(self, memory: dict[str, Tensor], device: torch.device) -> None:
        """Go on with saved sets."""
        self.replay.load(memory, device)
