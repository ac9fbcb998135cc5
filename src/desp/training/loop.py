"""The training loop, on accelerate: one process or many, any method."""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import Tensor

from desp.data.base import Batch, BatchSource
from desp.errors import CheckpointError, RunError, SettingsError, TrainingError, TrainingInterrupted
from desp.locks import sole_use
from desp.methods import Method
from desp.randomness import derive_seed
from desp.settings import Engine, TrainingSettings
from desp.training.checkpoints import (
    Checkpoint,
    CheckpointStore,
    flatten_optimizer,
    restore_optimizer,
)
from desp.training.convergence import checked_scores, mean_and_error
from desp.training.keeping import Keeper, with_advice
from desp.training.monitor import Monitor
from desp.training.processes import any_process, average_buffers, broadcast_from_first, mean_of_processes
from desp.training.progress import TrainingCallback, add_to_log, deferred_signals, rewind_log
from desp.training.schedule import Schedule
from desp.training.state import TrainingOutcome, TrainingState, Window
from desp.training.update import Feed, Update

logger = logging.getLogger(__name__)

MAX_ROLLBACKS = 5


class Trainer:
    """Fits a method to batches.

    Args:
        method: the loss and the modules it trains.
        source: where batches come from; a pure function of the step.
        prepare: from a batch to the tensors (x, y) that the method takes, on the right device.
        settings: how long, how fast, what to save.
        accelerator: where to run; see `desp.training.device.make_accelerator`.
        seed: of all noise in training.
        folder: where checkpoints and the log go; None keeps everything in memory.
        validate: gives a score with the weights as they are at the moment, or one for each of the same examples,
            by which the noise of their mean is known; may be None.
        callback: called at each event of training.
        engine: ``auto`` and ``graph`` capture whole training steps as a CUDA graph, where that is possible.
    """

    def __init__(
        self,
        method: Method,
        source: BatchSource,
        prepare: Callable[[Batch], tuple[Tensor, Tensor]],
        settings: TrainingSettings,
        accelerator: Accelerator,
        *,
        seed: int = 0,
        folder: Path | None = None,
        validate: Callable[[], float | Tensor] | None = None,
        callback: TrainingCallback | None = None,
        engine: Engine = "auto",
    ) -> None:
        self.method = method.to(accelerator.device)
        self.settings, self.seed, self.accelerator, self.validate = settings, seed, accelerator, validate
        self.callback = callback or TrainingCallback()
        self.update = Update(method, source, prepare, settings, accelerator, engine)
        self.optimizer, self.average = self.update.optimizer, self.update.average
        self.monitor = Monitor(accelerator)
        self.schedule = Schedule(settings, validates=validate is not None)
        self.state = TrainingState()
        self.store = CheckpointStore(folder / "checkpoints") if folder else None
        self.log = folder / "log.jsonl" if folder and accelerator.is_main_process else None
        self.keeper = Keeper(self.store, accelerator, rolls_back=settings.on_divergence == "rollback")

    def fit(self, resume: bool = False) -> TrainingOutcome:
        """Train to the end, or on from the newest checkpoint.

        Raises:
            TrainingError: the loss or its gradient was not finite, or training has diverged.
            TrainingInterrupted: a signal asked to stop; everything is saved, if there is a folder.
            RunError: the folder holds another run already, or another process uses it.
            StorageError: the disk is full, or cannot be written to; checkpoints before are still there.
        """
        with sole_use(self.store.folder.parent) if self.store and self.log else nullcontext():
            return self._fit(resume)

    def _fit(self, resume: bool) -> TrainingOutcome:
        self.method.train()
        resumed = self._begin(resume)
        try:
            with deferred_signals() as asked_to_stop:
                self._announce()
                if resumed:
                    self._catch_up(asked_to_stop)
                stopped_early = self.schedule.out_of_patience(self.state)
                while not self.schedule.at_end(self.state) and not stopped_early:
                    try:
                        stopped_early = self._train_until_done(asked_to_stop)
                    except TrainingError as error:
                        self._recover(error)
        finally:
            self.callback.on_end()
            # Not end_training: it would also end the processes' group, which callers still need.
            for tracker in self.accelerator.trackers:
                tracker.finish()
        return self._outcome(stopped_early)

    def _begin(self, resume: bool) -> bool:
        """Restore what was saved, and clean up after it; whether there was something."""
        if resume and self.store is None:
            raise SettingsError("There is nothing to resume without a folder. Pass the folder of the run.")
        saved = self.store.latest() if self.store else None
        if saved is not None and not resume:
            raise RunError(
                f"{self.store.folder.parent if self.store else ''} already holds a run, at step "
                f"{saved.state['step']}. Continue it with --resume (in Python: resume=True), "
                "or choose another folder."
            )
        if saved is not None:
            self._restore(saved)
        self.keeper.begin(self.state, self._snapshot)
        if self.settings.tensorboard:
            self.accelerator.init_trackers("tensorboard")
        if self.store and self.log:
            self.store.sweep()
            rewind_log(self.log, self.state.step, self.state.validated_step)
        return saved is not None

    def _announce(self) -> None:
        """Tell how many steps there are, and of a resumed run that has more already, that it ends with these."""
        step, end = self.state.step, self.schedule.end(self.state)
        longer = end is not None and step > end
        if longer and self.log:
            logger.warning(
                "The run has %d steps already, more than the %d that are asked for: no more are done, and none "
                "undone. To train %d steps, take another folder.",
                *(step, end, end),
            )
        self.callback.on_start(step, step if longer else end)

    def _catch_up(self, asked_to_stop: Callable[[], bool]) -> None:
        """Do the validation that was to follow what was saved, if it was interrupted."""
        if self.schedule.validation_is_due(self.state):
            self._validate()
            self._save(interrupted=True)
            if any_process(self.accelerator, asked_to_stop()):
                self._interrupt()

    def _train_until_done(self, asked_to_stop: Callable[[], bool]) -> bool:
        """Run steps until the last one (false) or until patience runs out (true)."""
        began, before = time.monotonic(), self.state.seconds
        for feed in self.update.feeds(self.state.step, self.state.attempt):
            self._step(feed)
            self.state.seconds = before + time.monotonic() - began
            self.callback.on_step(self.state.step)
            if self._after_step():
                return True
            # All stop after the same step, whoever got the signal.
            if any_process(self.accelerator, asked_to_stop()):
                self._interrupt()
            if self.schedule.at_end(self.state):
                return False
        raise RunError(f"The data ended after {self.schedule.progress(self.state)} steps.")

    def _step(self, feed: Feed) -> None:
        step = self.state.step
        noise = derive_seed(self.seed, "train", self.state.attempt, step, self.accelerator.process_index)
        loss, norm, statistics = self.update(feed, noise, step, self.schedule.rate(step, self.state))
        self.state.step += 1
        self.monitor.add(step, loss, norm, statistics)

    def _after_step(self) -> bool:
        """Log, validate and save when it is time; true when patience has run out."""
        step, settings = self.state.step, self.settings
        # Depends on wall time, so it is saved at once: a resumed run could not repeat it.
        save_now = self.schedule.look_at_clock(self.state, self.accelerator)
        if save_now:
            self.callback.on_length(self.schedule.end(self.state))
        validate_now = self.schedule.validation_is_due(self.state)
        save_now = save_now or step % settings.checkpoint_every == 0 or self.schedule.at_end(self.state)
        if validate_now or save_now:
            self._average_buffers()
        if step % settings.log_every == 0 or validate_now or save_now:
            self._report()
        if save_now:
            self._judge(self.state.window)
            self.state.window = Window()
        if validate_now and save_now:
            self._save()  # before it, too: a validation may take long, and be interrupted
        try:
            out_of_patience = validate_now and self._validate()
        except SettingsError:  # a validation without scores: what was trained is not lost
            self._save()
            raise
        if save_now or out_of_patience or self.schedule.at_end(self.state):
            self._save()
        return out_of_patience

    def _average_buffers(self) -> None:
        """Make buffers the same in all processes, before they are used for prediction or saved."""
        names = [name for name, _ in self.method.named_buffers()]
        averaged = [self.average.tensors[name] for name in names] if self.average else []
        average_buffers(self.accelerator, [*self.method.buffers(), *averaged])

    def _report(self) -> None:
        steps, numbers = self.monitor.count, self.monitor.flush()
        if not numbers:
            return
        self.state.window = self.state.window.plus(numbers, steps)
        numbers["learning_rate"] = self.schedule.rate(self.state.step - 1, self.state)
        self.callback.on_log(self.state.step, numbers)
        if self.log:
            seconds = round(self.state.seconds, 3)
            add_to_log(self.log, {"step": self.state.step, **numbers, "seconds": seconds})
        if self.settings.tensorboard:
            self.accelerator.log(numbers, step=self.state.step)

    def _judge(self, window: Window) -> None:
        """Raise a TrainingError instead of saving, if training has diverged since the last checkpoint."""
        failure = self.method.divergence_reason(mean_of_processes(self.accelerator, window.means))
        if failure is not None:
            raise TrainingError(f"By step {self.state.step}, {failure}", self.state.step)

    def _validate(self) -> bool:
        """Score the present weights; true when patience has run out."""
        if self.validate is None:
            return False
        self.callback.on_validation_start(self.state.step)
        with torch.no_grad(), self._prediction_weights():
            # Were each process to trust its own score, one might stop without the others.
            scores = broadcast_from_first(self.accelerator, checked_scores(self.validate()))
            score, error = mean_and_error(scores)
            sign = self.schedule.sign
            # A NaN score is never better than anything.
            better = score == score and (
                self.state.best_score is None or sign * score < sign * self.state.best_score
            )
            if better:
                self.state.best_score, self.state.best_step = score, self.state.step
                self.state.ending.best = scores
                self.keeper.best = Checkpoint(self._weights(), {"step": self.state.step, "score": score})
        self.state.validated_step = self.state.step
        self.state.validations_without_improvement = (
            0 if better else self.state.validations_without_improvement + 1
        )
        if self.schedule.look_at_scores(self.state, scores):
            self.callback.on_length(self.schedule.end(self.state))
        known = {"validation_score_se": error} if len(scores) > 1 else {}
        if self.log:
            add_to_log(self.log, {"step": self.state.step, "validation_score": score, **known})
        self.callback.on_validation_standard_error(self.state.step, known.get("validation_score_se"))
        self.callback.on_validation_end(self.state.step, score, better)
        return self.schedule.out_of_patience(self.state)

    def _prediction_weights(self) -> AbstractContextManager[None]:
        return self.average.applied() if self.average else nullcontext()

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().cpu().clone() for name, value in self.method.state_dict().items()}

    def _snapshot(self) -> Checkpoint:
        tensors = {f"model/{name}": value for name, value in self._weights().items()}
        optimizer = flatten_optimizer(self.optimizer)
        tensors |= {f"optimizer/{name}": value.detach().cpu().clone() for name, value in optimizer.items()}
        if self.average:
            tensors |= {f"ema/{name}": value.cpu().clone() for name, value in self.average.tensors.items()}
        tensors |= {f"monitor/{name}": value.cpu() for name, value in self.monitor.tensors().items()}
        if self.state.step > 0:
            self.state.engine = self.method.training_engine_used
        return Checkpoint(tensors, asdict(self.state))

    def _restore(self, checkpoint: Checkpoint) -> None:
        try:
            self.method.load_state_dict(checkpoint.group("model"))
            restore_optimizer(self.optimizer, checkpoint.group("optimizer"))
            self.update.forget()
            if self.average:
                self.average.load(checkpoint.group("ema"))
            self.monitor.load(checkpoint.group("monitor"))
            self.state = TrainingState.of(checkpoint.state)
            if self.state.engine is not None:
                self.method.resume_engine(self.state.engine)
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            raise CheckpointError(
                f"The checkpoint does not fit these settings ({error}). Resume with the settings the run was "
                "begun with, or choose another folder."
            ) from error

    def _save(self, *, interrupted: bool = False) -> None:
        self.keeper.save(self.state, self._snapshot, interrupted=interrupted)

    def _recover(self, error: TrainingError) -> None:
        """Roll back to the last good state, or say what to try."""
        final = self.settings.on_divergence == "stop" or self.state.attempt >= MAX_ROLLBACKS
        good = None if final else self.keeper.roll_back()
        if good is None:
            raise with_advice(error, self.settings, self.store, self.state.attempt) from error
        attempt, seconds = self.state.attempt + 1, self.state.seconds
        logger.warning("%s Rolling back to step %d with half the learning rate.", error, good.state["step"])
        self._restore(good)
        self.state.attempt, self.state.seconds = attempt, seconds
        if self.log:
            rewind_log(self.log, self.state.step, self.state.validated_step)
        self.callback.on_rollback(error.step, self.state.step)

    def _interrupt(self) -> None:
        self.monitor.check()
        self._judge(self.state.window.plus(self.monitor.means(), self.monitor.count))
        self._average_buffers()
        self._save(interrupted=True)
        kept = (
            f"saved in {self.store.folder}. Continue with --resume (in Python: fit(..., resume=True))."
            if self.store
            else "nothing is saved, as there is no run folder."
        )
        raise TrainingInterrupted(f"Stopped after step {self.schedule.progress(self.state)}; {kept}")

    def _outcome(self, stopped_early: bool) -> TrainingOutcome:
        state, ending = self.state, self.state.ending
        last = self.schedule.keeps_last(state)
        if self.keeper.best is not None and not last:
            weights = self.keeper.best.tensors
        else:
            with self._prediction_weights():
                weights = self._weights()
        scores = ending.last if last else ending.best
        gain = ending.recent_gain()
        return TrainingOutcome(
            weights=weights,
            steps=state.step,
            score=mean_and_error(scores)[0] if last else state.best_score,
            score_step=state.step if last else state.best_step,
            seconds=state.seconds,
            engine="graph" if self.update.captures else self.method.training_engine_used,
            stopped_early=stopped_early,
            rollbacks=state.attempt,
            score_standard_error=mean_and_error(scores)[1] if len(scores) > 1 else None,
            stop_reason=ending.stop_reason,
            recent_gain=None if gain is None else self.schedule.sign * gain,
        )
