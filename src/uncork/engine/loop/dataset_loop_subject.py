"""A custom training loop under examination: the user's code drives, we choose what feeds it.

Its step is the user's own, and is only run otherwise: as a ``tf.function`` what runs op by op,
under XLA what is one. The run is thrown away: the loop's weights after the trials are those of a
training on mixed-up batches.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from uncork.capture.base.listener import LoopCall
from uncork.core.base.errors import NothingToMeasure
from uncork.core.base.measurement import Comparison
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.step import Precision, find_map_on_device, select_function_edits
from uncork.core.evidence.batches import VaryingShapes
from uncork.core.evidence.loop import EvaluationCalls, HostSync, LoopLine, RecreatedFunction
from uncork.core.evidence.model import Transfer
from uncork.engine.loop.device_batches import (
    DeviceBatchComparison,
    device_batches_of,
    epoch_iterator_of,
)
from uncork.engine.loop.grouped_loop import MAX_STEP_S, create_grouped_runner, measure_call_s
from uncork.engine.loop.loop_costs import evaluation_calls_cost, host_sync_cost, loop_lines
from uncork.engine.loop.loop_driver import LoopDriver
from uncork.engine.loop.loop_runner import (
    LoopRunner,
    ResidentLoopRunner,
    batch_count_of,
    steps_per_epoch_of,
)
from uncork.engine.loop.recreated_functions import recreated_function_cost
from uncork.engine.loop.step_lookup import find_step_of_loop, intercept_eager_step
from uncork.engine.loop.step_switch import SetupAndCheck, StepSwitch
from uncork.engine.subject.data_subset import DataSubset
from uncork.engine.subject.subject import Subject
from uncork.engine.subject.workload_summary import (
    DEFAULT_EPOCHS,
    assumed_epochs_notes,
    startup_lines_of,
)
from uncork.measure.benchmark.async_backlog import is_execution_async
from uncork.measure.profile.function_calls import CompiledCalls, observe_compiled_calls
from uncork.measure.profile.line_profiler import LineTimes
from uncork.measure.profile.python_overhead import python_s_per_step
from uncork.pipeline.analysis.passes import has_default_rewrites, is_repeated
from uncork.pipeline.runtime.trial_copy import create_trial_copy
from uncork.training.input.feed import count_batch_samples, spec_text
from uncork.training.input.resident_batches import collect_resident_batches
from uncork.training.inspect.module_speed import compare_model_in_float32
from uncork.training.inspect.replicas import replica_count
from uncork.training.inspect.transfer import measure_batch_transfer
from uncork.training.loop_step.compiled_step import CompiledStep, function_code_digest
from uncork.training.loop_step.mode import StepMode
from uncork.training.precision.traced_policy import layer_name_fields
from uncork.training.tracing.step_info import step_device
from uncork.training.variant import Variant, VariantRunner
from uncork.verify.provers.handover import Handover
from uncork.verify.provers.keras_calls import changes_keras_calls, prove_evaluations

# Steps in which it is seen what the loop calls.
_WATCHED: Final = 32
_WATCHED_S: Final = 0.5
# In which proofs record what the step is called with.
_RECORDED_S: Final = 0.5


class DatasetLoopSubject(Subject):
    """Measures and compares input pipelines under a loop of the user's own.

    Args:
        call: The loop, recognised by the capture layer.
        epochs: How often the loop runs; None where more than once, and nobody knows how often.
        recreates_dataset: Its dataset is another object each time.
        scratch: Directory for files that a trial would otherwise write into the user's.
    """

    ends_process = True

    def __init__(
        self, call: LoopCall, *, epochs: int | None, scratch: str, recreates_dataset: bool = False
    ) -> None:
        self.layers = call.layers
        self._behind = is_execution_async()
        self._repeated = epochs != 1
        self._pipeline = create_trial_copy(call.dataset, scratch)
        assert self._pipeline is not None
        if epochs == 1 and is_repeated(self._pipeline):
            epochs = None  # the data begins anew within the loop
        self.notes = list(assumed_epochs_notes(epochs))
        self.startup_lines = startup_lines_of(call, epochs)
        self.has_known_epochs = epochs is not None
        self.first_step_s = call.evidence.first_step_s
        self.original = Variant(self._pipeline)
        self.data_subset = DataSubset(self.notes)
        self._batches = collect_resident_batches(self._pipeline.dataset)
        if not self._batches:
            raise NothingToMeasure(
                f"the data of the loop at {call.at} has no batch when it is read again",
                "a dataset that can be read more than once",
                "create the generator again for each pass: from_generator(function, ...)",
            )
        self.workload = Workload(
            index=call.index,
            at=call.at,
            step_setup_at=call.evidence.eager_at,
            dtype_policy_at=call.policy_at,
            kind="custom_loop",
            data_kind="tf.data",
            model=None,
            element_spec=spec_text(self._pipeline.element_spec),
            batch_size=count_batch_samples(self._batches[0]),
            steps_per_epoch=batch_count_of(self._pipeline),
            epochs=epochs or DEFAULT_EPOCHS,
            is_epoch_count_assumed=epochs is None,
            pipeline_digest=self._pipeline.digest,
            is_eager_step=call.evidence.has_eager_step,
            is_dataset_recreated=recreates_dataset,
            has_default_rewrites=has_default_rewrites(self._pipeline),
        )
        samples = float(self.workload.batch_size or 1)
        self.driver = LoopDriver(samples, sys.setprofile, call.evidence.steps_seen)
        codes = call.evidence.eager_codes
        self._step = StepSwitch(intercept_eager_step(find_step_of_loop(codes, call.at)))
        self._step.start_recording()
        self._again: partial[Any] | None = None

    def runner(self, variant: Variant) -> VariantRunner:
        """The user's loop, fed by this version's pipeline.

        Raises:
            EditRefused: The loop does not call the step that is to be compiled, or its batches
                cannot be made where they are to be.
        """
        variant = self.with_less_data(variant)
        assert variant.pipeline is not None
        switch, check = self._ways(variant)
        return LoopRunner(self.driver, epoch_iterator_of(variant), variant.pipeline, switch, check)

    def resident_runner(self, variant: Variant) -> VariantRunner:
        """The user's loop, fed with the same batches over and over."""
        there = device_batches_of(variant)
        if there is None:
            return self._resident(*self._ways(variant))
        batches = collect_resident_batches(there.input_dataset)
        return ResidentLoopRunner(self.driver, batches, *self._ways(variant), there.map_element)

    def grouped_runner(self, variant: Variant, resident_s: float) -> VariantRunner | None:
        """Of a step that runs op by op, the same step as a graph: Python between ops is gone.

        Of one that is compiled, if it is all that the loop calls, many of them in one function.
        """
        if self._behind:
            return None
        if not self.workload.is_eager_step:
            return self._many(variant, resident_s)
        if not self._step.can_be_graph(variant):
            return None
        runner = self._resident(self._step.create_setup(StepMode.GRAPH))
        runner.prime()
        return runner if self._step.can_be_graph(variant) else None

    def python_s(self, resident_s: float) -> float | None:
        """What of a resident step passes outside TensorFlow's ops."""
        if self._behind:
            return None
        block, ops = self.driver.block(self._resident_epoch, 4 * resident_s, profile_ops=True)
        return None if ops is None else python_s_per_step(resident_s, block, ops.seconds)

    def graph_digests(self, variant: Variant) -> tuple[str, ...]:
        """What its step was traced to."""
        return self._step.graph_digests(variant)

    def with_policy(self, variant: Variant, policy: Precision) -> Variant | None:
        """Its step traced anew, where the loop calls one."""
        self._know_step()
        return self._step.with_policy(
            variant, policy, self.observed_workload().float32_layers(policy)
        )

    def compare_float32(self, block_s: float) -> Comparison | None:
        """The model by itself, of a loop whose step is not one function."""
        if self.layers is None or self.workload.batch_size is None:
            return None
        return compare_model_in_float32(self.layers, self.workload.batch_size, block_s)

    def measure_host_sync(self, seconds: float) -> HostSync | None:
        """In the loop as it runs."""
        runner = self.runner(self.original)
        return None if self.workload.is_eager_step else host_sync_cost(runner, seconds)

    def measure_transfer(self, variant: Variant) -> Transfer | None:
        """Of a batch, to where the variables are of the one compiled function that is the step.

        Raises:
            EditRefused: As :meth:`runner`.
        """
        if self.workload.is_eager_step or self.observed_workload().replicas > 1:
            return None
        self._know_step()
        if self._again is None:
            return None
        there = device_batches_of(variant)
        batches = self._batches if there is None else collect_resident_batches(there.input_dataset)
        largest = max(batches, key=lambda batch: count_batch_samples(batch) or 0)
        return measure_batch_transfer(largest, step_device(self._again.func))

    def measure_varying_shapes(self, step_s: float, seconds: float) -> VaryingShapes | None:
        """Of the one compiled function that is the step, where XLA compiles it."""
        del step_s
        if (
            self.workload.is_eager_step
            or len(self._batches) < 2
            or self.observed_workload().replicas > 1
        ):
            return None
        self._know_step()
        assert self._pipeline is not None
        call = self.resident_runner(self.original).prime
        return self._step.measure_varying_shapes(self._batches, self._pipeline, call, seconds)

    def measure_evaluation_calls(self, seconds: float) -> EvaluationCalls | None:
        """In the loop as it runs."""
        return evaluation_calls_cost(self.runner(self.original), seconds)

    def measure_recreated_function(self, step_s: float) -> RecreatedFunction | None:
        """Functions that the loop calls, if the script makes them for each epoch."""
        if self.workload.is_eager_step:
            return None
        called = self._called(min(step_s, _WATCHED_S / _WATCHED))
        with suppress(Exception):  # a function that only its own loop can call
            return recreated_function_cost(called, step_s, is_in_loop=self._repeated)
        return None

    def measure_loop_lines(self, seconds: float) -> tuple[LoopLine, ...]:
        """On a resident batch, watched and not."""
        if self.workload.is_eager_step:
            return ()
        times = LineTimes()
        before, _ = self.driver.block(self._resident_epoch, seconds)
        watched, _ = self.driver.block(self._resident_epoch, seconds, line_times=times)
        after, _ = self.driver.block(self._resident_epoch, seconds)
        alone = (block.wall_s / block.steps for block in (before, after))
        return loop_lines(times, watched.steps, statistics.fmean(alone))

    def observed_workload(self) -> Workload:
        """The workload; a loop that leaves its data early has epochs of that length."""
        assert self._pipeline is not None
        steps = steps_per_epoch_of(self._pipeline, self.driver)
        replicas = replica_count(self.layers.live_layers()) if self.layers else 1
        return self._step.describe(
            replace(
                self.workload,
                steps_per_epoch=steps,
                replicas=replicas,
                **layer_name_fields(self.layers),
            )
        )

    def prove_step(self, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """Run recorded calls of the step as written and otherwise, on the loop's own thread."""
        as_it_is = self.runner(self.original)
        if changes_keras_calls(variant.step_edits):
            return prove_evaluations(lambda: as_it_is.block(_RECORDED_S))
        there = device_batches_of(variant)
        if there is not None:
            return self._prove_made_there(variant, kind, budget_s, DeviceBatchComparison(there))
        return self._step.prove(
            variant,
            kind,
            budget_s,
            run_steps=lambda: as_it_is.block(_RECORDED_S),
            call_once=self.resident_runner(self.original).prime,
        )

    def _prove_made_there(
        self, version: Variant, kind: Guarantee, budget_s: float, compared: DeviceBatchComparison
    ) -> Proof:
        """The batches themselves, and what the step makes of them."""
        self._know_step()
        runner = LoopRunner(self.driver, compared.epoch, None, *self._ways(self.original))
        proof = self._step.prove(
            version,
            kind,
            budget_s,
            run_steps=lambda: runner.block(_RECORDED_S),
            call_once=self.resident_runner(self.original).prime,
            device_comparison=compared,
        )
        return compared.add_to_proof(proof, kind)

    def record_handover(self, variant: Variant, budget_s: float) -> Handover | None:
        """Recorded calls of the step, and what they lead to from its state."""
        del variant, budget_s
        self._know_step()
        as_it_is = self.runner(self.original)
        return self._step.record_handover(
            run_steps=lambda: as_it_is.block(_RECORDED_S),
            call_once=self.resident_runner(self.original).prime,
        )

    def prove_in_other_process(self, variant: Variant, handover: Handover) -> Proof:
        """Make the calls that were recorded there."""
        self._know_step()
        as_it_is = self.runner(self.original)
        return self._step.prove_in_other_process(
            variant,
            handover,
            run_steps=lambda: as_it_is.block(_RECORDED_S),
            call_once=self.resident_runner(self.original).prime,
        )

    def restore(self) -> None:
        """The step as written; weights were moved by the user's own loop, in a run thrown away."""
        self._step.create_setup(StepMode.ORIGINAL)()

    def _ways(self, version: Variant) -> SetupAndCheck:
        if select_function_edits(version.step_edits):
            self._know_step()
        return self._step.setup_and_check(version)

    def _know_step(self) -> None:
        if not self._step.has_step:
            self._find_step(_WATCHED_S / _WATCHED)  # nobody has asked for grouped steps before

    def _many(self, version: Variant, resident_s: float) -> VariantRunner | None:
        if not self._step.has_step:
            self._find_step(resident_s)
        # A group is traced from the function as written.
        is_another = select_function_edits(version.step_edits) or find_map_on_device(
            version.step_edits
        )
        if self._again is None or resident_s > MAX_STEP_S or is_another:
            return None
        return create_grouped_runner(self._again, float(self.workload.batch_size or 1))

    def untraced_s(self, seconds: float) -> float | None:
        """Of the one compiled function that the loop calls, on one of its calls."""
        if not self._step.has_step:
            self._find_step(_WATCHED_S / _WATCHED)
        return None if self._again is None else measure_call_s(self._again, seconds)

    def _find_step(self, resident_s: float) -> None:
        """The one compiled function that the loop calls, and calls once for each batch."""
        before = self.driver.batches_served
        found = self._called(min(resident_s, _WATCHED_S / _WATCHED))
        calls_for_a_batch = found.count / max(1, self.driver.batches_served - before)
        if len(found.last_calls) != 1 or round(calls_for_a_batch, 1) != 1:
            return
        self._again = found.last_calls[0]
        self.workload = replace(self.workload, step_call_at=found.at)
        if found.is_called_by_user_code and function_code_digest(self._again.func):
            self._step = StepSwitch(CompiledStep(self._again.func))

    def _called(self, resident_s: float) -> CompiledCalls:
        """What the loop calls in a few steps."""
        with observe_compiled_calls() as found:
            self.driver.block(self._resident_epoch, _WATCHED * resident_s)
        return found

    def _resident(
        self, switch: Callable[[], None], check: Callable[[], None] = lambda: None
    ) -> LoopRunner:
        return ResidentLoopRunner(self.driver, self._batches, switch, check)

    def _resident_epoch(self) -> Iterator[Any]:
        return itertools.cycle(self._batches)
