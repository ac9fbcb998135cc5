"""Numbers of training steps, gathered on the device and read seldom."""

import torch
from accelerate import Accelerator
from torch import Tensor

from desp.errors import TrainingError


class Monitor:
    """Averages what steps report, and remembers the first step with a non-finite loss or gradient.

    Reading a number from a GPU waits for it; so numbers stay there until `flush`.

    Args:
        accelerator: of the training; all its processes flush and check at the same steps.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.bad_step = torch.full((), -1, dtype=torch.int64, device=accelerator.device)
        """Counted from 0; -1 while there is none."""
        self._sums: dict[str, Tensor] = {}
        self.count = 0
        """Steps since the last flush."""

    def add(self, step: int, loss: Tensor, gradient_norm: Tensor, statistics: dict[str, Tensor]) -> None:
        """Take in the numbers of step `step`, counted from 0."""
        bad = ~torch.isfinite(loss + gradient_norm) & (self.bad_step < 0)
        self.bad_step.masked_fill_(bad, step)
        for name, value in {"loss": loss, "gradient_norm": gradient_norm, **statistics}.items():
            total = self._sums.get(name)
            self._sums[name] = value.clone() if total is None else total + value
        self.count += 1

    def flush(self) -> dict[str, float]:
        """The means since the last flush.

        Raises:
            TrainingError: one of these steps was not finite, in this process or another.
        """
        try:
            self.check()
            return self.means()
        finally:
            self.reset()

    def means(self) -> dict[str, float]:
        """The means since the last flush, without flushing."""
        return {name: float(total) / self.count for name, total in self._sums.items()}

    def check(self) -> None:
        """Raise what `flush` would raise, and keep everything gathered."""
        bad_steps = self.accelerator.gather(self.bad_step.reshape(1)).tolist()
        bad = min((step for step in bad_steps if step >= 0), default=None)
        if bad is not None:
            number = bad + 1  # as logs and checkpoints count
            raise TrainingError(f"The loss or its gradient became NaN or infinite in step {number}.", number)

    def reset(self) -> None:
        """Forget everything gathered."""
        self.bad_step.fill_(-1)
        self._sums, self.count = {}, 0

    def tensors(self) -> dict[str, Tensor]:
        """What was gathered from finite steps, to save; nothing right after a flush."""
        if self.count == 0:
            return {}
        sums = {f"sum/{name}": total for name, total in self._sums.items()}
        return {"count": torch.tensor(self.count), **sums}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `tensors` gave, so that means of a resumed run cover the same steps."""
        self.reset()
        for name, value in tensors.items():
            if name.startswith("sum/"):
                self._sums[name.removeprefix("sum/")] = value.to(self.bad_step.device)
        self.count = int(tensors.get("count", 0))
