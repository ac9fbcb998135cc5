"""From a batch to gradients: plainly, or as one CUDA graph of chain, loss and backward pass."""

import logging

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from desp.estimators import Estimator
from desp.samplers.engine import borrowed_generator, inline_chains, warm_up
from desp.settings import Engine

logger = logging.getLogger(__name__)


class GradientStep:
    """Computes the loss of a batch and leaves its gradients in the parameters.

    Args:
        wrapped: the estimator as accelerate prepared it.
        accelerator: runs the backward pass.
        estimator: the bare estimator, which says whether it can be captured.
        engine: ``eager`` never captures; otherwise a lone CUDA process does, where the estimator allows it.
    """

    def __init__(self, wrapped: nn.Module, accelerator: Accelerator, estimator: Estimator, engine: Engine) -> None:
        self.wrapped, self.engine = wrapped, engine
        self.accelerator = accelerator
        alone_on_cuda = accelerator.device.type == "cuda" and accelerator.num_processes == 1
        self.captures = alone_on_cuda and engine != "eager" and estimator.capturable
        self.parameters = [item for item in estimator.parameters() if item.requires_grad]
        self._graph: _StepGraph | None = None

    def __call__(self, x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Replace all gradients by those of this batch; the results may be overwritten by the next call."""
        if not self.captures:
            self.clear()
            return self.compute(x, y, generator)
        if self._graph is None or not self._graph.fits(x, y):
            logger.info("capturing training steps for inputs %s, sets %s", tuple(x.shape), tuple(y.shape))
            try:
                self._graph = _StepGraph(self, x, y)
            except RuntimeError as error:  # such as an input encoder that looks at values on the host
                if self.engine == "graph":
                    raise
                logger.warning("training runs step by step, as capturing failed: %s", str(error).split("\n")[0])
                self.captures = False
                return self(x, y, generator)
        return self._graph.replay(x, y, generator)

    def clear(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def compute(self, x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Forward and backward, as they are."""
        loss, statistics = self.wrapped(x, y, generator)
        self.accelerator.backward(loss)
        return loss.detach(), statistics


class _StepGraph:
    """A captured forward and backward pass with its own copies of the batch."""

    def __init__(self, step: GradientStep, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x.clone(), y.clone()
        self.generator = torch.Generator(device=y.device)
        scratch = torch.Generator(device=y.device).manual_seed(0)
        with inline_chains():
            self._capture(step, scratch)

    def _capture(self, step: GradientStep, scratch: torch.Generator) -> None:
        warm_up(lambda: step.compute(self.x, self.y, scratch), times=2)
        step.clear()  # so that the capture allocates gradients of its own, overwritten by every replay
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.generator)
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.loss, self.statistics = step.compute(self.x, self.y, self.generator)

    def fits(self, x: Tensor, y: Tensor) -> bool:
        return (x.shape, x.dtype, y.shape, y.dtype) == (
            self.x.shape,
            self.x.dtype,
            self.y.shape,
            self.y.dtype,
        )

    def replay(self, x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        self.x.copy_(x)
        self.y.copy_(y)
        with borrowed_generator(self.generator, generator):
            self.graph.replay()
        return self.loss, self.statistics
