"""One optimiser step: batch, gradients, clipping, Adam, EMA; eagerly, or captured as CUDA graphs."""

import logging
from collections.abc import Callable, Iterator

import torch
from accelerate import Accelerator
from torch import Tensor

from desp.capture import CapturedCall, warm_up
from desp.data.base import Batch, BatchSource, DeviceSource
from desp.methods import Method
from desp.samplers.engine import inline_chains
from desp.settings import Engine, TrainingSettings
from desp.training.ema import WeightAverage

logger = logging.getLogger(__name__)

Feed = Batch | int
"""A batch, or the seed with which the source draws it."""
Outcome = tuple[Tensor, Tensor, dict[str, Tensor]]
"""Loss, norm of the gradient before clipping, and what the method reports."""


class Update:
    """Changes the weights by one batch.

    A single CUDA process captures the step, where the method allows it, as one CUDA graph, or as several with work
    on the host between them (`CapturedCall`): with the drawing of the batch if the source draws on the device,
    else from a copy of the batch. The first step of a shape runs eagerly, which compiles what is compiled and
    makes the optimiser's state; the second is captured.

    Args:
        method: what is trained, and whether it can be captured.
        source: where batches come from.
        prepare: from a batch to the tensors (x, y) that the method takes.
        settings: learning rate, clipping, averaging.
        accelerator: where to run.
        engine: ``eager`` and ``compiled`` never capture whole steps; with ``graph`` a failed capture is an error.
    """

    def __init__(
        self,
        method: Method,
        source: BatchSource,
        prepare: Callable[[Batch], tuple[Tensor, Tensor]],
        settings: TrainingSettings,
        accelerator: Accelerator,
        engine: Engine,
    ) -> None:
        device = accelerator.device
        # Prepared first: with several processes this gives all of them the weights of the first.
        self.wrapped = accelerator.prepare(method)
        self.accelerator, self.prepare, self.engine = accelerator, prepare, engine
        self.parameters = [item for item in method.parameters() if item.requires_grad]
        self.source, self.drawn_from = source, source if isinstance(source, DeviceSource) else None
        if self.drawn_from is not None and torch.device(self.drawn_from.device).type != device.type:
            self.drawn_from = None  # another device's random numbers would be other data
        alone_on_cuda = device.type == "cuda" and accelerator.num_processes == 1
        self.captures = alone_on_cuda and engine in ("auto", "graph") and method.capturable
        self.limit = settings.clip_norm or float("inf")
        # A captured step reads these from the device, where the host writes them before each replay.
        self._rate = torch.tensor(settings.learning_rate, device=device) if self.captures else None
        self._ema_weight = torch.zeros((), device=device) if self.captures else None
        self.optimizer = torch.optim.Adam(
            self.parameters,
            lr=settings.learning_rate if self._rate is None else self._rate,
            betas=settings.betas,
            fused=device.type == "cuda",
            capturable=self.captures,
        )
        self.average = WeightAverage(method, settings.ema_decay) if settings.ema_decay else None
        self._noise, self._data = torch.Generator(device=device), torch.Generator(device=device)
        self._batch: tuple[Tensor, Tensor] | None = None  # what a captured step reads; none if it draws
        self._warm_for: object = None
        self._captured: CapturedCall[Outcome] | None = None

    def feeds(self, step: int, attempt: int) -> Iterator[Feed]:
        """What steps from `step` on take: batches, or their seeds where drawing is part of a step."""
        if self.captures and self.drawn_from is not None:
            return self.drawn_from.seeds(step, attempt)
        return self.source.batches(step, attempt)

    def __call__(self, feed: Feed, noise: int, step: int, rate: float) -> Outcome:
        """Take step number `step`; the results may be overwritten by the next one.

        Args:
            feed: the batch or its seed.
            noise: seed of the method's noise.
            step: counted from 0.
            rate: the learning rate.
        """
        self._set_rate(rate)
        ema_weight = self.average.weight(step + 1) if self.average else 0.0
        if self.captures:
            try:
                return self._captured_step(feed, noise, ema_weight)
            except RuntimeError as error:
                self._give_up(error)
        self._noise.manual_seed(noise)
        return self._step(*self._prepared(feed), ema_weight)

    def gradients(self, x: Tensor, y: Tensor, noise: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Replace all gradients by those of this batch; returns the loss and what the method reports."""
        for parameter in self.parameters:
            parameter.grad = None
        loss, statistics = self.wrapped(x, y, noise)
        self.accelerator.backward(loss)
        return loss.detach(), statistics

    def forget(self) -> None:
        """Capture anew: the optimiser's state was replaced."""
        self._captured, self._warm_for = None, None
        if self._rate is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = self._rate

    def _set_rate(self, rate: float) -> None:
        if self._rate is not None:
            self._rate.fill_(rate)
            return
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def _prepared(self, feed: Feed) -> tuple[Tensor, Tensor]:
        if isinstance(feed, Batch):
            return self.prepare(feed)
        self._data.manual_seed(feed)
        return self._drawn()

    def _drawn(self) -> tuple[Tensor, Tensor]:
        if self.drawn_from is None:
            raise TypeError("a seed needs a source that draws with it")
        return self.prepare(self.drawn_from.draw_with(self._data))

    def _step(self, x: Tensor, y: Tensor, ema_weight: float | Tensor) -> Outcome:
        loss, statistics = self.gradients(x, y, self._noise)
        norm = self.accelerator.clip_grad_norm_(self.parameters, self.limit)
        self.optimizer.step()
        if self.average:
            self.average.update(ema_weight)
        return loss, norm, statistics

    def _captured_step(self, feed: Feed, noise: int, ema_weight: float) -> Outcome:
        """Take the step by replaying it; a shape's first step runs eagerly, and is captured before its second.

        Raises:
            RuntimeError: it could not be compiled or captured; no weight has changed.
        """
        shape = self._take_in(feed)
        self._noise.manual_seed(noise)
        if self._ema_weight is not None:
            self._ema_weight.fill_(ema_weight)
        with inline_chains():
            if shape != self._warm_for:
                self._captured, self._warm_for = None, shape
                return warm_up(self._work)
            if self._captured is None:
                logger.info("capturing training steps for %s", shape)
                self._captured = CapturedCall(self._work, [self._noise, self._data])
        return self._captured()

    def _give_up(self, error: RuntimeError) -> None:
        """Take eager steps from now on; with the engine ``graph``, or where a replay failed, raise the error."""
        if self.engine == "graph" or self._captured is not None:  # a replay that fails is no matter of capturing
            raise error
        logger.warning("training runs eagerly, as capturing the step failed: %s", str(error).split("\n")[0])
        self.captures = False
        # A capture that was broken off leaves its generators unusable.
        device = self.accelerator.device
        self._noise, self._data = torch.Generator(device=device), torch.Generator(device=device)

    def _take_in(self, feed: Feed) -> object:
        """Put the batch where the captured step reads it; returns what must not change between replays."""
        if isinstance(feed, int):
            self._data.manual_seed(feed)
            self._batch = None
            return "drawn"
        x, y = self.prepare(feed)
        shape = (x.shape, x.dtype, y.shape, y.dtype)
        if self._batch is None or shape != self._warm_for:
            self._batch = x.clone(), y.clone()
        for own, given in zip(self._batch, (x, y), strict=True):
            own.copy_(given)
        return shape

    def _work(self) -> Outcome:
        x, y = self._batch or self._drawn()
        return self._step(x, y, 0.0 if self._ema_weight is None else self._ema_weight)
