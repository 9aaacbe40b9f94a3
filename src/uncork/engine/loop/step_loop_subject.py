"""A loop that calls its training step on arrays, on what a generator yields, on several datasets.

The user's code drives, and we choose what happens at each call of the step: the step as it is, or
the same step over and over on one batch. The step is only run otherwise: as a ``tf.function`` what
runs op by op, under XLA what is one. The run is thrown away.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.capture.base.listener import StepCall
from uncork.compat.keras3.model_state import strategy_of
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.step import Precision, select_function_edits
from uncork.core.evidence.loop import EvaluationCalls, HostSync
from uncork.core.evidence.model import OneHotLabels, Transfer
from uncork.core.evidence.stage import Stage
from uncork.engine.loop.grouped_loop import MAX_STEP_S, create_grouped_runner
from uncork.engine.loop.loop_costs import StepGaps, evaluation_calls_cost, host_sync_cost
from uncork.engine.loop.loop_driver import LoopDriver
from uncork.engine.loop.loop_runner import LoopRunner
from uncork.engine.loop.step_arguments import (
    arguments_of,
    casts_arrays,
    samples_of,
    with_resident_arrays,
)
from uncork.engine.loop.step_switch import StepSwitch
from uncork.engine.loop.unchanged_arrays import UnchangedArrayTracker
from uncork.engine.subject.subject import LARGER_BATCH_FACTOR, Subject
from uncork.engine.subject.workload_summary import (
    assumed_epochs_notes,
    startup_lines_of,
    summarize_step_loop,
)
from uncork.measure.benchmark.async_backlog import is_execution_async
from uncork.measure.benchmark.interleave import Block
from uncork.measure.profile.python_overhead import python_s_per_step
from uncork.pipeline.profile.throughput import SupplyRate
from uncork.training.inspect.one_hot import measure_one_hot
from uncork.training.inspect.padding import Padding, measure_padding
from uncork.training.inspect.replicas import repeat_batch, replica_count
from uncork.training.inspect.transfer import measure_batch_transfer
from uncork.training.loop_step.compiled_step import CompiledStep, function_code_digest
from uncork.training.loop_step.eager_step import EagerStep
from uncork.training.loop_step.mode import StepMode
from uncork.training.precision.traced_policy import layer_name_fields
from uncork.training.tracing.step_info import has_categorical_loss, step_device
from uncork.training.variant import Variant, VariantRunner
from uncork.verify.provers.handover import Handover
from uncork.verify.provers.keras_calls import changes_keras_calls, prove_evaluations

_RESIDENT: Final = "repeatedly"
_OTHER: Final = "repeatedly, another batch"
_AS_IT_IS: Final = "unmodified"
# In which proofs record what the step is called with.
_RECORDED_S: Final = 0.5


class StepLoopSubject(Subject):
    """Measures a training step and what passes between two of them.

    Args:
        call: Of the step, recognised by the capture layer.
        epochs: How often the loop runs; None where more than once, and nobody knows how often.
        step: The step, where it runs op by op and was taken over. Without it, all that is known of
            such a step is its last part, the optimizer's update.
    """

    ends_process = True

    def __init__(
        self, call: StepCall, *, epochs: int | None, step: EagerStep | None = None
    ) -> None:
        self.notes = [
            *assumed_epochs_notes(epochs),
            "pauses between epochs (shuffling, validation) do not count",
        ]
        self.layers = call.layers
        self.startup_lines = startup_lines_of(call, epochs)
        self.has_known_epochs = epochs is not None
        self._behind = is_execution_async()
        self.original = Variant(None)
        brief = summarize_step_loop(call, epochs)
        compiled = CompiledStep(call.step) if function_code_digest(call.step) else None
        self._step = StepSwitch(step or compiled)
        self._step.start_recording()
        self._whole = step is not None or not call.is_eager
        self.workload = replace(brief, batch_size=samples_of(call) if self._whole else None)
        if self.workload.batch_size is None:
            self.notes.append("the batch size is unknown: a step counts as one sample")
        self.driver = LoopDriver(float(self.workload.batch_size or 1), sys.setprofile)
        self._call = call
        as_arrays = step is not None or call.is_eager or casts_arrays(call)
        self._resident_call = with_resident_arrays(call, as_arrays=as_arrays)
        self._between = StepGaps()
        self._arrays = UnchangedArrayTracker(call)
        self._left: tuple[float, float] | None = None
        self._other_call: StepCall | None = None
        self._rejected: Exception | None = None

    def step(self, call: StepCall) -> Any:
        """In the place of the user's step, on the user's thread."""
        if self._left is not None:
            wall_s, busy_s = (now - then for now, then in zip(_clocks(), self._left, strict=True))
            # Where steps run behind, the loop may wait for many of them here: that is no pause.
            if not self._between.add(wall_s, busy_s) and not self._behind:
                self.driver.resume()
        self._arrays.update(call)
        while (wanted := next(self.driver)) != _AS_IT_IS:
            self._left = None
            self._again(wanted)
        found = call.original(*call.args, **call.kwargs)
        self._left = _clocks()
        return found

    def _again(self, wanted: str) -> None:
        """The step without the loop around it, on arguments from memory."""
        if wanted == _RESIDENT or self._other_call is None:
            call = self._resident_call
            call.original(*call.args, **call.kwargs)
        elif self._rejected is None:
            call = self._other_call
            try:
                call.original(*call.args, **call.kwargs)
            except Exception as error:  # a step for one length, or for one size, only
                self._rejected = error

    def runner(self, variant: Variant) -> VariantRunner:
        """The user's loop as it is."""
        return LoopRunner(self.driver, _as_it_is, None, *self._step.setup_and_check(variant))

    def resident_runner(self, variant: Variant) -> VariantRunner:
        """The step on one batch over and over, its arrays in memory already.

        A step that stands in the loop itself cannot be called: the loop as it is.
        """
        if not self._whole:
            return self.runner(variant)
        return LoopRunner(self.driver, _resident_epoch, None, *self._step.setup_and_check(variant))

    def grouped_runner(self, variant: Variant, resident_s: float) -> VariantRunner | None:
        """Of a step that runs op by op, the same step as a graph.

        Of a function that is compiled, many of them in one.
        """
        if self._behind:
            return None
        if not self.workload.is_eager_step:
            return self._many(variant, resident_s)
        if not self._step.can_be_graph(variant):
            return None
        runner = LoopRunner(
            self.driver, _resident_epoch, None, self._step.create_setup(StepMode.GRAPH)
        )
        runner.prime()
        return runner if self._step.can_be_graph(variant) else None

    def _many(self, version: Variant, resident_s: float) -> VariantRunner | None:
        call = self._resident_call
        is_function = isinstance(call.step, tf.types.experimental.GenericFunction)
        # A group is traced from the function as written.
        if resident_s > MAX_STEP_S or not is_function or select_function_edits(version.step_edits):
            return None
        step = functools.partial(call.original, *call.args, **call.kwargs)
        return create_grouped_runner(step, float(self.workload.batch_size or 1))

    def observed_workload(self) -> Workload:
        """The workload, with what was seen of its step."""
        replicas = replica_count(self.layers.live_layers()) if self.layers else 1
        return self._step.describe(
            replace(
                self.workload,
                replicas=replicas,
                **layer_name_fields(self.layers),
            )
        )

    def graph_digests(self, variant: Variant) -> tuple[str, ...]:
        """What its step was traced to."""
        return self._step.graph_digests(variant)

    def with_policy(self, variant: Variant, policy: Precision) -> Variant | None:
        """Its step traced anew."""
        return self._step.with_policy(
            variant, policy, self.observed_workload().float32_layers(policy)
        )

    def unpadded_runner(self) -> tuple[Padding, VariantRunner] | None:
        """Every argument with rows of that length is cut."""
        call = self._resident_call
        padding = None if self.workload.is_eager_step else measure_padding((call.args, call.kwargs))
        if padding is None or not padding.is_significant:
            return None
        args, kwargs = padding.trim((call.args, call.kwargs))
        return padding, _OtherRunner(self, dataclasses.replace(call, args=args, kwargs=kwargs))

    def larger_replica_batch_runner(self) -> tuple[int, VariantRunner] | None:
        """Every argument has its rows several times over, on each replica."""
        call, work = self._resident_call, self.observed_workload()
        if work.replicas < 2 or work.is_eager_step or not self._whole:
            return None
        args, kwargs = repeat_batch((call.args, call.kwargs), LARGER_BATCH_FACTOR)
        larger, samples = dataclasses.replace(call, args=args, kwargs=kwargs), samples_of(call)
        if samples is None or samples_of(larger) != LARGER_BATCH_FACTOR * samples:
            return None  # its batch is not among its arguments
        return LARGER_BATCH_FACTOR, _OtherRunner(self, larger, times=LARGER_BATCH_FACTOR)

    def use_batch(self, batch_call: StepCall | None) -> None:
        """From now on that is the other batch; None for none."""
        self._other_call, self._rejected = batch_call, None

    def measure_one_hot_labels(self) -> OneHotLabels | None:
        """Of its arguments but the first, which is what the labels are of."""
        call = self._call
        if self.workload.is_eager_step or not has_categorical_loss(call.step):
            return None
        labels = arguments_of(call)[1:]
        handed_over = any(isinstance(leaf, np.ndarray) for leaf in labels)
        return measure_one_hot(labels, are_arrays=handed_over)

    def measure_transfer(self, variant: Variant) -> Transfer | None:
        """Of all that is handed over as arrays, to where the variables of the step are.

        Not asked where a strategy hands its part to each of several devices.
        """
        del variant
        call = self._call
        if strategy_of(call.step) is not None:
            return None
        arrays = [leaf for leaf in arguments_of(call) if isinstance(leaf, np.ndarray)]
        return measure_batch_transfer(arrays, step_device(call.step))

    def rejection(self) -> Exception | None:
        """What the step raised when it was given another batch."""
        return self._rejected

    def python_s(self, resident_s: float) -> float | None:
        """What of a resident step passes outside TensorFlow's ops."""
        if self._behind:
            return None
        epoch = _resident_epoch if self._whole else _as_it_is
        block, ops = self.driver.block(epoch, 4 * resident_s, profile_ops=True)
        return None if ops is None else python_s_per_step(resident_s, block, ops.seconds)

    def measure_host_sync(self, seconds: float) -> HostSync | None:
        """In the loop as it runs."""
        runner = self.runner(self.original)
        return None if self.workload.is_eager_step else host_sync_cost(runner, seconds)

    def measure_evaluation_calls(self, seconds: float) -> EvaluationCalls | None:
        """In the loop as it runs."""
        return evaluation_calls_cost(self.runner(self.original), seconds)

    def measure_supply(self, variant: Variant, budget_s: float) -> SupplyRate:
        """As fast as the loop makes them; it has been seen to."""
        del variant, budget_s
        return SupplyRate(1 / max(1e-9, self._between_s()[0]))

    def loader_stages(self, variant: Variant) -> tuple[Stage, ...]:
        """What the loop does between two steps; Python where its own thread computes."""
        if not self._whole:
            return ()
        wall_s, busy_s = self._between_s()
        return (
            Stage(
                index=0,
                kind="loop",
                at=self.workload.at,
                cpu_s_per_element=busy_s,
                wall_s_per_element=wall_s,
                elements_per_step=1.0,
                parallelism=1,
                is_random=True,
                has_python_code=2 * busy_s >= wall_s,
            ),
            *self._arrays.stages(),
        )

    def prove_step(self, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """Run recorded calls of the step as written and otherwise, on the loop's own thread."""
        as_it_is = self.runner(self.original)
        if changes_keras_calls(variant.step_edits):
            return prove_evaluations(lambda: as_it_is.block(_RECORDED_S))
        return self._step.prove(
            variant,
            kind,
            budget_s,
            run_steps=lambda: as_it_is.block(_RECORDED_S),
            call_once=as_it_is.prime,
        )

    def record_handover(self, variant: Variant, budget_s: float) -> Handover | None:
        """Recorded calls of the step, and what they lead to from its state."""
        del variant, budget_s
        as_it_is = self.runner(self.original)
        return self._step.record_handover(
            run_steps=lambda: as_it_is.block(_RECORDED_S),
            call_once=as_it_is.prime,
        )

    def prove_in_other_process(self, variant: Variant, handover: Handover) -> Proof:
        """Make the calls that were recorded there."""
        as_it_is = self.runner(self.original)
        return self._step.prove_in_other_process(
            variant,
            handover,
            run_steps=lambda: as_it_is.block(_RECORDED_S),
            call_once=as_it_is.prime,
        )

    def restore(self) -> None:
        """The step as written; weights were moved by the user's own loop, in a run thrown away."""
        self._step.create_setup(StepMode.ORIGINAL)()

    def _between_s(self) -> tuple[float, float]:
        found = self._between
        if not found.wall_s:
            return 0.0, 0.0
        return statistics.fmean(found.wall_s), statistics.fmean(found.busy_s)


class _OtherRunner(LoopRunner):
    """The step on another batch, which it may not take.

    Args:
        subject: Whose step.
        call: With that batch.
        times: Of how many times as many samples.
    """

    def __init__(self, subject: StepLoopSubject, call: StepCall, times: int = 1) -> None:
        super().__init__(subject.driver, _other_epoch, None)
        self._subject = subject
        self._call = call
        self._times = times

    def _run(self, seconds: float, *, whole: bool) -> Block:
        self._subject.use_batch(self._call)
        try:
            found = super()._run(seconds, whole=whole)
            refused = self._subject.rejection()
        finally:
            self._subject.use_batch(None)
        if refused is not None:
            raise refused
        return dataclasses.replace(found, samples=self._times * found.samples)


def _other_epoch() -> Iterator[str]:
    return itertools.repeat(_OTHER)


def _as_it_is() -> Iterator[str]:
    return itertools.repeat(_AS_IT_IS)


def _resident_epoch() -> Iterator[str]:
    return itertools.repeat(_RESIDENT)


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.thread_time()
