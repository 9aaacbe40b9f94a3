"""Runs versions of a ``fit`` call: on their own input, on batches from memory, several at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from uncork.core.edits.edit import LoaderCache, LoaderEdit
from uncork.core.edits.pipeline import AutotuneOff
from uncork.core.edits.step import (
    StepEdit,
    StepsPerExecution,
    find_batch_multiplier,
    find_map_on_device,
    has_tf_function,
)
from uncork.engine.fit.primed_runner import PrimedRunner
from uncork.engine.subject.subject import Subject
from uncork.measure.benchmark.interleave import Block
from uncork.measure.benchmark.timed_block import MIN_WARMUP_EXECUTIONS
from uncork.measure.profile.python_overhead import (
    measure_op_time,
    profiled_python_s_per_step,
    python_s_per_step,
)
from uncork.training.input.array_feed import has_array_feed
from uncork.training.input.feed import Feed
from uncork.training.input.loader_edits import copy_with_edits, select_py_dataset_edits
from uncork.training.inspect.replicas import repeat_batch
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot
from uncork.training.variant import Variant, VariantRunner

# Resident steps longer than this are not grouped to find the time between them: compiling the group
# would take longer than the time between such steps could be worth.
_LONG_STEP_S: Final = 0.05
_GROUP: Final = 16
_WATCHED_STEPS: Final = 3


class FitRunnerSubject(Subject):
    """The steps of one ``fit`` call, run as ``fit`` runs them."""

    model: Any
    feed: Feed
    snapshot: Snapshot
    _batches: tuple[Any, ...]
    _settings: dict[tuple[StepEdit, ...], StepSettings]
    _batches_before_maps: dict[tuple[StepEdit, ...], tuple[Any, ...]]
    _loaders: dict[tuple[LoaderEdit, ...], Any]

    def runner(self, variant: Variant) -> VariantRunner:
        """A version's step on its own input, as ``fit`` runs it."""
        variant = self.with_less_data(variant)
        runner = self._fit_runner(variant.step_edits, self._feed(variant))
        runner.may_wait_between_epochs = self._is_tuned(variant)
        return PrimedRunner(runner, variant.pipeline, _keeps_batches(variant))

    def resident_runner(self, variant: Variant) -> VariantRunner:
        """A version's step on the same batches over and over."""
        batches = [
            repeat_batch(batch, variant.batch_multiplier) for batch in self._step_batches(variant)
        ]
        return PrimedRunner(
            self._fit_runner(variant.step_edits, self.feed.with_resident_batches(batches)), None
        )

    def prime_step(self, variant: Variant) -> tuple[float, int]:
        """Of one batch; where there are several, XLA would compile for each of them."""
        if len(self._batches) > 1:
            return 0.0, 0
        feed = self.feed.with_resident_batches(self._step_batches(variant))
        seconds = self._fit_runner(variant.step_edits, feed).prime()
        return seconds, MIN_WARMUP_EXECUTIONS * self.workload.steps_per_execution

    def grouped_runner(self, variant: Variant, resident_s: float) -> VariantRunner | None:
        """Many resident steps in one execution; a step of the user's own need not allow that.

        Of an eager model, the same step compiled: Python and the overhead of single ops are gone.
        """
        work = self.workload
        if work.is_eager_step and not has_tf_function(variant.step_edits):
            return self._compiled()
        grouped_already = work.steps_per_execution > 1 or any(
            isinstance(edit, StepsPerExecution) for edit in variant.step_edits
        )
        if not (work.is_distributed or grouped_already):
            if resident_s > _LONG_STEP_S:
                return None
            with suppress(Exception):
                group = StepsPerExecution(steps=_GROUP)
                runner = self.resident_runner(variant.with_step_edits((group,)))
                runner.prime()
                return runner
        self.notes.append("the time between steps counts as part of the step")
        return None

    def grouped_training_runner(self, variant: Variant) -> VariantRunner | None:
        """As many steps in one execution as of the resident one; none of data of unknown length.

        There an execution that meets the end of an epoch ends in an error, its steps uncounted.
        """
        work = self.workload
        if work.is_eager_step or work.is_distributed or work.steps_per_epoch is None:
            return None
        with suppress(Exception):
            runner = self.runner(variant.with_step_edits((StepsPerExecution(steps=_GROUP),)))
            runner.prime()
            return runner
        return None

    def python_s(self, resident_s: float) -> float | None:
        """For an eager model that could not be compiled, the Python between its ops."""
        if not self.workload.is_eager_step:
            return None
        return python_s_per_step(resident_s, *self._watched(self.original, resident_s))

    def max_python_s(self, variant: Variant, resident_s: float) -> float | None:
        """Of a compiled model, all between two executions; None for an eager one."""
        if self.workload.is_eager_step and not has_tf_function(variant.step_edits):
            return None
        return profiled_python_s_per_step(*self._watched(variant, resident_s))

    def _feed(self, version: Variant) -> Feed:
        """What feeds a version."""
        feed = self.feed
        if version.pipeline is not None:
            feed = feed.with_dataset(version.pipeline.dataset)
        if feed.kind == "numpy" and version.batch_multiplier > 1:
            feed = feed.with_batch_size((self.workload.batch_size or 1) * version.batch_multiplier)
        if has_array_feed(version.loader_edits):
            return feed.with_single_threaded_arrays()
        edits = select_py_dataset_edits(version.loader_edits)
        if edits:
            if edits not in self._loaders:  # what it keeps is made once
                self._loaders[edits] = copy_with_edits(feed.x, edits)
            feed = feed.with_dataset(self._loaders[edits])
        return feed

    def _watched(self, version: Variant, resident_s: float) -> tuple[Block, float]:
        """A few resident steps, and what they spent in ops."""
        runner = self.resident_runner(version)
        runner.prime()
        with measure_op_time() as ops:
            block = runner.block(_WATCHED_STEPS * resident_s)
        timed = block.wall_s / (block.wall_s + block.warmup_s)
        return block, ops.seconds * timed

    def _settings_for(self, step: tuple[StepEdit, ...]) -> StepSettings:
        """Settings are kept, and with them the compiled function."""
        if step not in self._settings:
            self._settings[step] = StepSettings(self.model, step)
        return self._settings[step]

    def _step_batches(self, version: Variant) -> Sequence[Any]:
        """Batches as a version's step is given them."""
        if find_map_on_device(version.step_edits) is None:
            return self._batches
        if version.step_edits not in self._batches_before_maps:
            fed = self._settings_for(version.step_edits).training_feed(self._feed(version))
            batches = fed.batches_dataset(self.model)
            self._batches_before_maps[version.step_edits] = tuple(batches.take(len(self._batches)))
        return self._batches_before_maps[version.step_edits]

    def _compiled(self) -> VariantRunner | None:
        """None where Python does in each step what would happen once only when it is traced."""
        if self.workload.tf_function_refusal:
            return None
        with suppress(Exception):
            runner = self._resident_with(StepSettings(self.model, is_compiled=True))
            runner.prime()
            return runner
        return None

    def _resident_with(self, settings: StepSettings) -> VariantRunner:
        feed, samples = (
            self.feed.with_resident_batches(self._batches),
            float(self.workload.batch_size or 1),
        )
        return PrimedRunner(FitRunner(settings, feed, self.snapshot, samples), None)

    def _is_tuned(self, version: Variant) -> bool:
        """By tf.data's autotuner, whose thread is waited for where an epoch ends."""
        off = any(isinstance(edit, AutotuneOff) for edit in version.pipeline_edits)
        off = off or has_array_feed(version.loader_edits)
        tuned = (
            self.workload.data_kind in ("tf.data", "numpy") and self.workload.has_default_rewrites
        )
        # Data of unknown length is asked for more at its end, and that is the pipeline's own time.
        return tuned and not off and self.workload.steps_per_epoch is not None

    def _fit_runner(self, step: tuple[StepEdit, ...], feed: Feed) -> FitRunner:
        samples = float(self.workload.batch_size or 1) * find_batch_multiplier(step)
        return FitRunner(self._settings_for(step), feed, self.snapshot, samples)


def _keeps_batches(version: Variant) -> bool:
    return any(isinstance(edit, LoaderCache) for edit in version.loader_edits)
