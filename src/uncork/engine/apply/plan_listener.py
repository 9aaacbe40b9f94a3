"""``uncork run``: the script runs whole, with a plan in force, or aloud without it."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import CodeType
from typing import Any, Final
from weakref import WeakSet

from uncork.capture.base.listener import FitCall, LoopCall, PassThroughListener, StepCall
from uncork.core.base.errors import EditRefused, PlanRefused
from uncork.core.documents.plan import Plan
from uncork.core.edits.step import (
    MapOnDevice,
    ReuseIterator,
    TfFunction,
    find_map_on_device,
    has_tf_function,
    select_function_edits,
)
from uncork.engine.apply.batch_schedule import schedule_start_step, track_schedule
from uncork.engine.apply.fit_arguments import (
    batch_size_arguments,
    edited_dataset,
    pads_other_data,
    planned_data,
    planned_validation,
    validation_arguments,
)
from uncork.engine.apply.loop_datasets import PlannedDatasets
from uncork.engine.apply.machine_match import (
    check_machine,
    check_memory,
    check_precision,
    check_threads,
    library_differences,
)
from uncork.engine.apply.plan_notices import PlanNotices, other_data
from uncork.engine.apply.step_refusal import tell_step_refusal
from uncork.engine.loop.step_lookup import (
    NO_STEP_FUNCTION,
    find_step_around,
    find_step_of_loop,
    intercept_eager_step,
)
from uncork.engine.loop.step_switch import mode_of
from uncork.engine.process.reached_trainings import does_real_work
from uncork.engine.subject.workload_summary import summarize_loop
from uncork.measure.machine.devices import accelerators
from uncork.training.callbacks.async_checkpoint import AsyncCheckpoints, find_async_checkpoints
from uncork.training.input.array_feed import has_array_feed, read_arrays_in_one_thread
from uncork.training.input.feed import Feed
from uncork.training.input.iterator_reuse import create_reused_iterators
from uncork.training.input.loader_edits import apply_loader_edits
from uncork.training.loop_step.compiled_step import CompiledStep, function_code_digest
from uncork.training.optimizer.flat_updates import wrap_callbacks
from uncork.training.run.planned_step import PlannedStep
from uncork.training.transforms.eager_model import train_as_graph

# Where a model has what was traced under the plan.
_PLANNED: Final = "_uncork_planned"
# Calls of compiled functions among which the planned one must be.
_PATIENCE: Final = 64
_ANOTHER: Final = "it does not call the function that was tuned"
_COMPILED: Final = "it is a tf.function already"


class PlanListener(PassThroughListener):
    """Puts a plan in force at the training call it was made for.

    Args:
        plan: Sealed and loaded.
        strict: What does not fit ends the script; otherwise the training runs as written.
        whole_process: The process is the script's: what serves all calls of Keras's stays in force.
    """

    def __init__(self, plan: Plan, *, strict: bool, whole_process: bool = False) -> None:
        self.plan = plan
        self.strict = strict
        guard = lambda act: self.run_guarded(act)  # noqa: E731, PLW0108 - it is set later
        self.notices = PlanNotices(plan, strict=strict, guard=guard)
        self.wants_loops = plan.before.workload.kind == "custom_loop" and bool(plan.edits)
        edits = plan.pipeline_edits or plan.loader_edits or plan.validation_edits
        moved = find_map_on_device(plan.step_edits) if self.wants_loops else None
        self._edits_data = bool(plan.pipeline_edits or moved)
        self._data_met = not (edits or plan.checkpoint_edits or moved)
        self._step_met = not plan.step_edits
        self._process_met = not (plan.environment or plan.keeps_freed_memory)
        self._reached = False
        self._other_calls = 0
        self._functions: WeakSet[Any] = WeakSet()
        self._trained: Any = None
        self._data = PlannedDatasets(plan, self.notices)
        self._iterators, self._to_the_end = create_reused_iterators(plan.step_edits), whole_process

    @property
    def is_settled(self) -> bool:
        """The whole plan was put in force, or it was told why not."""
        return self._data_met and self._step_met and self._process_met

    def check_machine(self) -> None:
        """Refuse a plan of another machine before anything is trained.

        Raises:
            PlanRefused: Strict, and it was proved on another machine or with other releases.
        """
        if self.strict:
            check_machine(self.plan)

    def fit(self, call: FitCall) -> Any:
        """Train with the plan's edits if this is the call, and they fit."""
        meant = self.plan.before.workload
        if meant.kind != "fit" or call.index != meant.index or not self.plan.edits:
            return self._as_written(call)
        self._data_met = self._step_met = self._process_met = True
        self.notices.compare_machine()
        arguments = dict(call.arguments)
        try:
            validation = planned_validation(self.plan, call)
            strict = self.notices.strict
            arguments["x"] = planned_data(self.plan, call, validation, strict=strict)
            arguments.update(
                batch_size_arguments(self.plan, Feed.from_arguments(call.arguments), call.arguments)
            )
            if validation is not None:
                arguments["validation_data"] = edited_dataset(
                    self.plan.validation_edits, validation
                )
            planned = self._planned(call)
            if planned:
                arguments["x"] = planned.training_x(arguments)
                arguments.update(validation_arguments(planned, arguments, call.at, strict=strict))
            beside = self._saving(arguments, call.at)
            arguments["callbacks"] = beside.callbacks
            if planned and planned.flat_group:
                arguments["callbacks"] = wrap_callbacks(
                    planned.flat_group, arguments.get("callbacks")
                )
        except (EditRefused, PlanRefused) as refusal:
            self.notices.training_refused(refusal, call.at)
            return self._as_written(call)
        with (
            apply_loader_edits(arguments["x"], self.plan.loader_edits),
            self._arrays_read(call.at),
            beside.active(),
            planned.active() if planned else nullcontext(),
            self._reusing(),
            self._guarded(call),
            track_schedule(call.model.optimizer, planned.schedule_start_step if planned else None),
        ):
            try:
                history = call.original(**arguments)
            finally:
                self.notices.has_trained = True
        self._trained = call.model if self.plan.backend else None  # it is asked for there alone
        return history

    def rescue(self, folder: Path) -> Path | None:
        """Save what was trained on another backend, where what comes after it has failed there.

        Returns:
            The new file; None where there is nothing to save.
        """
        if self.plan.backend is None or self._trained is None:
            return None
        path = folder / f"uncork-rescued-{os.getpid()}.weights.h5"
        self._trained.save_weights(path)
        return path

    @staticmethod
    def _as_written(call: FitCall) -> Any:
        """A model that was trained under the plan before may have to go on as it was traced."""
        before: PlannedStep | None = vars(call.model).get(_PLANNED)
        with before.keep_trained_weights() if before else nullcontext():
            return call.original(**call.arguments)

    def _planned(self, call: FitCall) -> PlannedStep | None:
        """A model's step as planned; the same as before where ``fit`` is called again and again."""
        if not self.plan.step_edits:
            return None
        held = vars(call.model)  # where it goes when the model does
        step: PlannedStep | None = held.get(_PLANNED)
        edits = self.plan.step_edits
        begun = schedule_start_step(self.plan, call)
        same = step is not None and step.edits == edits and step.schedule_start_step == begun
        if step is None or not same or not step.is_valid_for(call.model):
            refuse = tell_step_refusal(self.notices, call, "unmodified")
            step = held[_PLANNED] = PlannedStep(call.model, edits, refuse)
        step.schedule_start_step = begun
        return step

    def _reusing(self) -> AbstractContextManager[None]:
        """``evaluate`` and ``predict`` are called outside of ``fit``, too."""
        iterators = self._iterators
        if iterators is None:
            return nullcontext()
        if not self._to_the_end:
            return iterators.active()
        self._iterators = None
        iterators.activate()
        return nullcontext()

    def _arrays_read(self, at: str) -> AbstractContextManager[None]:
        if not has_array_feed(self.plan.loader_edits):
            return nullcontext()
        refuse = functools.partial(self.notices.arrays_read_unmodified, at)
        return read_arrays_in_one_thread(refuse)

    def _saving(self, arguments: Mapping[str, Any], at: str) -> AsyncCheckpoints:
        """The checkpoints that are written beside the training; none, where the plan has none."""
        given = arguments.get("callbacks")
        found = AsyncCheckpoints(
            given, find_async_checkpoints(given) if self.plan.checkpoint_edits else []
        )
        if self.plan.checkpoint_edits and not found.checkpoints:
            self.notices.saves_synchronously(at)
        return found

    def _guarded(self, call: FitCall) -> AbstractContextManager[None]:
        if not has_tf_function(self.plan.step_edits):
            return nullcontext()
        return train_as_graph(call.model, tell_step_refusal(self.notices, call, "eagerly"))

    def loop(self, call: LoopCall, first: Iterator[Any]) -> Iterator[Any]:
        """Let the loop's step run as the plan says; the loop itself goes on."""
        if self._begins(call):
            if has_tf_function(self.plan.step_edits):
                evidence = call.evidence
                eager = evidence.has_eager_step
                code = find_step_of_loop(evidence.eager_codes, call.at) if eager else None
                self._take(call.at, code, NO_STEP_FUNCTION if eager else _COMPILED)
            else:
                self.wants_steps = True
        return first

    def step_loop(self, call: StepCall) -> Callable[[StepCall], Any] | None:
        """The same of a loop that reads no dataset."""
        if self._begins(call):
            if has_tf_function(self.plan.step_edits):
                code = find_step_around(sys._getframe()) if call.is_eager else None
                self._take(call.at, code, NO_STEP_FUNCTION if call.is_eager else _COMPILED)
            else:
                self.wants_steps = True
                self.step(call.step)
        return None

    def step(self, function: Any) -> None:
        """Run another function in the place of this one if it is the step that the plan knows.

        A script that trains several models in turn may define its step for each of them.
        """
        at = self.plan.before.workload.at
        if function not in self._functions:
            self._functions.add(function)
            codes = {edit.code_digest for edit in select_function_edits(self.plan.step_edits)}
            if codes == {function_code_digest(function)}:
                # Of a second one the first training was made by then: nothing ends for its sake.
                is_first = not self._step_met
                step = CompiledStep(
                    function,
                    lambda how, why: self.notices.step_continues(
                        at, how, why, has_begun=step.has_served or not is_first
                    ),
                )
                self._step_met = True
                step.mode, step.expected_graph_digests = (
                    mode_of(self.plan.step_edits),
                    self._graphs(),
                )
        if not self._step_met:
            self._other_calls += 1
            if self._other_calls == _PATIENCE:
                self._step_met = True  # as far as it will be
                self.notices.step_continues(at, "unmodified", _ANOTHER)

    def dataset(self, dataset: Any, at: str) -> Any:
        """Iterate over the edited pipeline where a custom loop reads the one the plan knows."""
        if not (self.wants_loops and self._edits_data):
            return dataset
        found = self._data.dataset_for(dataset, at)
        if self._data.is_reached and not self._data_met:
            self._data_met = True
            self.notices.compare_machine()
        return found

    def iterator(self, dataset: Any, iterate: Callable[[Any], Any]) -> Any:
        """One that makes its elements on the step's device, where the plan says so."""
        return self._data.iterator(dataset, iterate)

    def training_data(self, call: FitCall) -> Any:
        """What a trial on another backend trains on.

        Raises:
            PlanRefused: The plan does not fit.
            EditRefused: Likewise.
        """
        return planned_data(self.plan, call, None, strict=self.notices.strict)

    def _begins(self, call: LoopCall | StepCall) -> bool:
        """This is the loop whose step the plan edits, reached for the first time.

        By then it reads its data. Where that is not what the plan knows, nothing of it is used; a
        few batches may be read to try the step.
        """
        meant = self.plan.before.workload
        is_meant = meant.kind == "custom_loop" and call.index == meant.index
        if self._reached or not is_meant:
            return False
        if not self._data_met or not self._reads_what_was_edited(call):
            if isinstance(call, LoopCall) and not does_real_work(summarize_loop(call, epochs=1)):
                return False
            self._reached = self._data_met = self._step_met = self._process_met = True
            self.wants_loops = False
            self.notices.training_refused(other_data(), call.at)
            return False
        self._reached = self._process_met = True
        try:
            check_threads(self.plan)
            check_memory(self.plan)
        except EditRefused as refusal:
            self.notices.step_continues(
                call.at, "with the settings of this process", refusal.received
            )
        if not self._edits_the_step():
            return False
        why = self._why_as_it_was(call)
        if why:
            self._step_met = True
            self.notices.step_continues(call.at, "unmodified", why)
            return False
        self.notices.compare_machine()
        return True

    def _reads_what_was_edited(self, call: LoopCall | StepCall) -> bool:
        """Other data that looks the same, and was read before, is no sign of it."""
        return not (self._edits_data and isinstance(call, LoopCall)) or (
            self._data.has_returned(call.dataset)
        )

    def _why_as_it_was(self, call: LoopCall | StepCall) -> str:
        """Why its step cannot run as planned, as far as is known before; ``""`` if it can."""
        if not self._edits_data and pads_other_data(self.plan, call):
            return other_data().received
        try:
            check_precision(self.plan)
        except EditRefused as refusal:
            return refusal.received
        return ""

    def _edits_the_step(self) -> bool:
        """What is around it is put in force here, and is all that some plans hold."""
        kinds = ReuseIterator | MapOnDevice
        around_it = [edit for edit in self.plan.step_edits if isinstance(edit, kinds)]
        if self._iterators is not None:
            self._iterators.activate()
            self.notices.compare_machine()
        if len(around_it) == len(self.plan.step_edits):
            self._step_met = True
            return False
        return True

    def _take(self, at: str, code: CodeType | None, otherwise: str) -> None:
        """Let a step that runs op by op be a graph; say why where there is none."""
        self._step_met = True
        edit = next(e for e in self.plan.step_edits if isinstance(e, TfFunction))
        step = intercept_eager_step(
            code,
            lambda how, why: self.notices.step_continues(
                at, how, why, has_begun=step is not None and step.has_served
            ),
        )
        if step is None:
            self.notices.step_continues(
                at, "eagerly" if otherwise is NO_STEP_FUNCTION else "unmodified", otherwise
            )
        else:
            step.expected_code_digest, step.number_arguments = (
                edit.code_digest,
                edit.number_arguments,
            )
            step.on_change = functools.partial(self.notices.step_traced_again, at)
            step.mode, step.expected_graph_digests = mode_of(self.plan.step_edits), self._graphs()

    def _graphs(self) -> frozenset[str]:
        """What the step may be traced to; anything under another TensorFlow or Keras.

        On another kind of device Keras may have other ops for the same layer.
        """
        made_on = self.plan.machine
        other = library_differences(made_on) or bool(made_on.devices) != bool(accelerators())
        return frozenset(() if other else self.plan.graph_digests)
