"""Runs versions of a ``fit`` call: on their own input, on batches from memory, several at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from uncork.core.edits.edit import LoaderCache, LoaderEdit
from uncork.core.edits.pipeline import AutotuneOff
from uncork.core.edits.step import StepEdit, StepsPerExecution, batches_in_one, is_graph, on_device
from uncork.engine.fit.primed_runner import PrimedRunner
from uncork.engine.subject.subject import Subject
from uncork.measure.benchmark.interleave import Block
from uncork.measure.profile.python_overhead import op_time, outside_ops, watched_python
from uncork.training.input.array_feed import is_array_feed
from uncork.training.input.feed import Feed
from uncork.training.input.loader_edits import edited_loader, of_py_dataset
from uncork.training.inspect.replicas import several_times
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot
from uncork.training.variant import Version, VersionRunner

# Resident steps longer than this are not grouped to find the time between them: compiling the group
# would take longer than the time between such steps could be worth.
_LONG_STEP_S: Final = 0.05
_GROUP: Final = 16
_WATCHED_STEPS: Final = 3


class FitRuns(Subject):
    """The steps of one ``fit`` call, run as ``fit`` runs them."""

    model: Any
    feed: Feed
    snapshot: Snapshot
    _batches: tuple[Any, ...]
    _settings: dict[tuple[StepEdit, ...], StepSettings]
    _unmade: dict[tuple[StepEdit, ...], tuple[Any, ...]]
    _loaders: dict[tuple[LoaderEdit, ...], Any]

    def runner(self, version: Version) -> VersionRunner:
        """A version's step on its own input, as ``fit`` runs it."""
        version = self.on_part(version)
        runner = self._fit_runner(version.step, self._feed(version))
        runner.waits_between = self._is_tuned(version)
        return PrimedRunner(runner, version.pipeline, _keeps_batches(version))

    def resident(self, version: Version) -> VersionRunner:
        """A version's step on the same batches over and over."""
        batches = [several_times(batch, version.times) for batch in self._given(version)]
        return PrimedRunner(self._fit_runner(version.step, self.feed.resident(batches)), None)

    def grouped(self, version: Version, resident_s: float) -> VersionRunner | None:
        """Many resident steps in one execution; a step of the user's own need not allow that.

        Of an eager model, the same step compiled: Python and the overhead of single ops are gone.
        """
        work = self.workload
        if work.eager_step and not is_graph(version.step):
            return self._compiled()
        grouped_already = work.steps_per_execution > 1 or any(
            isinstance(edit, StepsPerExecution) for edit in version.step
        )
        if not (work.distributed or grouped_already):
            if resident_s > _LONG_STEP_S:
                return None
            with suppress(Exception):
                group = StepsPerExecution(steps=_GROUP)
                runner = self.resident(version.with_step_edits((group,)))
                runner.prime()
                return runner
        self.notes.append("time between steps is counted as part of the step")
        return None

    def grouped_training(self, version: Version) -> VersionRunner | None:
        """As many steps in one execution as of the resident one; none of data of unknown length.

        There an execution that meets the end of an epoch ends in an error, its steps uncounted.
        """
        work = self.workload
        if work.eager_step or work.distributed or work.steps_per_epoch is None:
            return None
        with suppress(Exception):
            runner = self.runner(version.with_step_edits((StepsPerExecution(steps=_GROUP),)))
            runner.prime()
            return runner
        return None

    def python_s(self, resident_s: float) -> float | None:
        """For an eager model that could not be compiled, the Python between its ops."""
        if not self.workload.eager_step:
            return None
        return outside_ops(resident_s, *self._watched(self.original, resident_s))

    def most_python_s(self, version: Version, resident_s: float) -> float | None:
        """Of a compiled model, all between two executions; None for an eager one."""
        if self.workload.eager_step and not is_graph(version.step):
            return None
        return watched_python(*self._watched(version, resident_s))

    def _feed(self, version: Version) -> Feed:
        """What feeds a version."""
        feed = self.feed
        if version.pipeline is not None:
            feed = feed.with_dataset(version.pipeline.dataset)
        if feed.kind == "numpy" and version.times > 1:
            feed = feed.with_batch_size((self.workload.batch_size or 1) * version.times)
        if is_array_feed(version.loader):
            return feed.read_in_one_thread()
        edits = of_py_dataset(version.loader)
        if edits:
            if edits not in self._loaders:  # what it keeps is made once
                self._loaders[edits] = edited_loader(feed.x, edits)
            feed = feed.with_dataset(self._loaders[edits])
        return feed

    def _watched(self, version: Version, resident_s: float) -> tuple[Block, float]:
        """A few resident steps, and what they spent in ops."""
        runner = self.resident(version)
        runner.prime()
        with op_time() as ops:
            block = runner.block(_WATCHED_STEPS * resident_s)
        timed = block.wall_s / (block.wall_s + block.warmup_s)
        return block, ops.seconds * timed

    def _with(self, step: tuple[StepEdit, ...]) -> StepSettings:
        """Settings are kept, and with them the compiled function."""
        if step not in self._settings:
            self._settings[step] = StepSettings(self.model, step)
        return self._settings[step]

    def _given(self, version: Version) -> Sequence[Any]:
        """Batches as a version's step is given them."""
        if on_device(version.step) is None:
            return self._batches
        if version.step not in self._unmade:
            fed = self._with(version.step).fed(self._feed(version))
            batches = fed.batches_dataset(self.model)
            self._unmade[version.step] = tuple(batches.take(len(self._batches)))
        return self._unmade[version.step]

    def _compiled(self) -> VersionRunner | None:
        """None where Python does in each step what would happen once only when it is traced."""
        if self.workload.not_traceable:
            return None
        with suppress(Exception):
            runner = self._resident_with(StepSettings(self.model, compiled=True))
            runner.prime()
            return runner
        return None

    def _resident_with(self, settings: StepSettings) -> VersionRunner:
        feed, samples = self.feed.resident(self._batches), float(self.workload.batch_size or 1)
        return PrimedRunner(FitRunner(settings, feed, self.snapshot, samples), None)

    def _is_tuned(self, version: Version) -> bool:
        """By tf.data's autotuner, whose thread is waited for where an epoch ends."""
        off = any(isinstance(edit, AutotuneOff) for edit in version.edits)
        off = off or is_array_feed(version.loader)
        tuned = self.workload.data in ("tf.data", "numpy") and self.workload.default_rewrites
        # Data of unknown length is asked for more at its end, and that is the pipeline's own time.
        return tuned and not off and self.workload.steps_per_epoch is not None

    def _fit_runner(self, step: tuple[StepEdit, ...], feed: Feed) -> FitRunner:
        samples = float(self.workload.batch_size or 1) * batches_in_one(step)
        return FitRunner(self._with(step), feed, self.snapshot, samples)


def _keeps_batches(version: Version) -> bool:
    return any(isinstance(edit, LoaderCache) for edit in version.loader)
