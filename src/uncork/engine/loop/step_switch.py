"""The step of a loop: which function of the user's it is, how it is run, and how it is proved."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from uncork.core.base.errors import EditRefused
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.step import (
    ArrayArguments,
    DtypePolicy,
    FusedUpdates,
    JitCompile,
    JitCompileOff,
    PadArguments,
    Precision,
    ReduceRetracing,
    ReuseIterator,
    StepEdit,
    TensorArguments,
    VectorizedMapFn,
    has_tf_function,
    select_function_edits,
)
from uncork.core.evidence.batches import VaryingShapes
from uncork.engine.loop.device_batches import DeviceBatchComparison
from uncork.engine.loop.step_compile_time import measure_shape_s, varying_shapes_of_loop
from uncork.engine.loop.step_lookup import NO_STEP_FUNCTION
from uncork.pipeline.ir.tree import Pipeline
from uncork.training.input.iterator_reuse import ReusedIterators
from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.eager_step import EagerStep
from uncork.training.loop_step.loop_step import InterceptedStep
from uncork.training.loop_step.mode import StepMode
from uncork.training.optimizer.traced_updates import count_fusable_weights_in
from uncork.training.variant import Variant
from uncork.verify.provers import loop_handover as calls_elsewhere
from uncork.verify.provers.handover import Handover, LoopHandover
from uncork.verify.provers.loop_step import prove_loop_step

_NOT_SEEN: Final = "the observed loop did not call it"
# Calls of the step that a proof looks for, and seconds that it may take to see them.
_RECORDED: Final = 8
_RECORDING_S: Final = 8.0
ResultT = TypeVar("ResultT")
SetupAndCheck = tuple[Callable[[], None], Callable[[], None]]


def mode_of(edits: tuple[StepEdit, ...]) -> StepMode:
    """How a loop's step runs with these edits.

    Example:
        >>> mode_of((JitCompile(), DtypePolicy(policy="float32"))).description
        'compiled with XLA and in float32'
    """
    kinds = {type(edit) for edit in edits}
    policies = [edit for edit in edits if isinstance(edit, DtypePolicy)]
    xla = JitCompile in kinds
    lengths = [edit for edit in edits if isinstance(edit, PadArguments)]
    # XLA compiles for one shape.
    any_shape = ReduceRetracing in kinds and not xla
    return StepMode(
        is_graph=has_tf_function(edits),
        is_xla=xla,
        is_xla_off=JitCompileOff in kinds and not xla,
        has_open_shapes=any_shape,
        has_vectorized_maps=VectorizedMapFn in kinds,
        has_fused_updates=FusedUpdates in kinds,
        tensor_arguments=tuple(
            n for edit in edits if isinstance(edit, TensorArguments) for n in edit.argument_names
        ),
        array_arguments=tuple(
            n for edit in edits if isinstance(edit, ArrayArguments) for n in edit.argument_names
        ),
        padded_arguments=lengths[-1] if lengths else None,
        policy=policies[-1].policy if policies else "",
        float32_layers=policies[-1].float32_layers if policies else (),
        is_precision_conservative=bool(policies and policies[-1].is_precision_conservative),
    )


class StepSwitch:
    """The step of a loop, where it can be run in other ways.

    Args:
        step: None where it cannot be taken over, or is not known.
    """

    def __init__(self, step: InterceptedStep | None) -> None:
        self._step = step
        self._iterators = ReusedIterators()
        if step is not None:
            step.is_examined = True  # in the first steps of a training its loss says most

    @property
    def has_step(self) -> bool:
        """There is a step to switch."""
        return self._step is not None

    def start_recording(self) -> None:
        """From now on, keep what the step is called with: proofs compare that."""
        if self._step is not None:
            self._step.is_recording = True

    def create_setup(self, mode: StepMode, *, reuse_iterators: bool = False) -> Callable[[], None]:
        """Something that sets the mode.

        Args:
            mode: Of the step.
            reuse_iterators: Keras's own methods read through iterators that are kept.
        """

        def switch() -> None:
            if self._step is not None:
                self._step.mode = mode
            if reuse_iterators:
                self._iterators.activate()
            else:
                self._iterators.restore()

        return switch

    def setup_and_check(self, variant: Variant) -> SetupAndCheck:
        """What sets up the step of a version before a block, and what checks it after the first.

        Raises:
            EditRefused: It is another step than the edit is for.
        """
        edits = select_function_edits(variant.step_edits)
        if not isinstance(self._step, EagerStep):
            code = "" if self._step is None else self._step.code_digest
            if any(code != edit.code_digest for edit in edits):
                raise EditRefused(
                    "the loop does not call the step that the plan changes",
                    "the code that was tuned",
                    "run 'uncork tune' again",
                )
        reusing = any(isinstance(edit, ReuseIterator) for edit in variant.step_edits)
        switch = self.create_setup(mode_of(variant.step_edits), reuse_iterators=reusing)
        return switch, functools.partial(self._check, variant)

    def with_policy(
        self, variant: Variant, policy: Precision, keep: tuple[str, ...]
    ) -> Variant | None:
        """The version with its step in another dtype policy; None where none can be switched."""
        step = self._step
        if step is None or step.refusal or not step.code_digest:
            return None
        return variant.with_step_edits(
            (DtypePolicy(policy=policy, float32_layers=keep, code_digest=step.code_digest),)
        )

    def can_be_graph(self, variant: Variant) -> bool:
        """It runs op by op in this version, was watched, and need not."""
        step = self._step
        eager = isinstance(step, EagerStep) and not has_tf_function(variant.step_edits)
        return eager and step is not None and step.refusal == ""

    def graph_digests(self, variant: Variant) -> tuple[str, ...]:
        """Digests of what the step was traced to in this version, as far as was seen."""
        edits = variant.step_edits
        if self._step is None or not (select_function_edits(edits) or has_tf_function(edits)):
            return ()
        return tuple(sorted(self._step.graph_digests))

    def describe(self, workload: Workload) -> Workload:
        """The workload, with what is known of its step by now."""
        step = self._step
        if isinstance(step, CompiledStep):
            known = {
                "step_code_digest": step.code_digest,
                "jit_compile": step.is_xla,
                "number_arguments": step.number_arguments,
            }
            return replace(
                workload,
                **known,
                fusable_weight_count=count_fusable_weights_in(step.graph_function()),
            )
        if not workload.is_eager_step:
            return workload
        if step is None:
            return replace(workload, tf_function_refusal=NO_STEP_FUNCTION)
        refusal = _NOT_SEEN if step.refusal is None else step.refusal
        fusable = 0 if refusal else count_fusable_weights_in(step.graph_function())
        known = {
            "step_code_digest": step.code_digest,
            "tf_function_refusal": refusal,
            "number_arguments": step.number_arguments,
        }
        return replace(workload, **known, fusable_weight_count=fusable)

    def measure_varying_shapes(
        self, batches: Sequence[Any], pipeline: Pipeline, call: Callable[[], object], seconds: float
    ) -> VaryingShapes | None:
        """What calls of new shapes cost; None where they cost nothing, or nobody knows.

        Args:
            batches: From memory.
            pipeline: That they come from.
            call: Lets the loop call its step on each of them.
            seconds: How long to look.
        """
        step = self._step
        if not (isinstance(step, CompiledStep) and step.is_xla):
            return None
        step.restart_recording()
        try:
            found = self._with_calls(lambda _: measure_shape_s(step, seconds), call, call)
            return found and varying_shapes_of_loop(step.recorded_calls, batches, pipeline, found)
        finally:
            step.restart_recording()
            step.is_recording = False  # proofs compare what comes from the input

    def prove(
        self,
        variant: Variant,
        kind: Guarantee,
        budget_s: float,
        run_steps: Callable[[], object],
        call_once: Callable[[], object],
        device_comparison: DeviceBatchComparison | None = None,
    ) -> Proof:
        """Compare recorded calls as written and otherwise, on the loop's own thread.

        Args:
            variant: How otherwise.
            kind: What to prove.
            budget_s: Seconds that it may take, where that is ours to choose.
            run_steps: Lets the loop run as it is for some steps, to record what it calls them with.
            call_once: Lets the loop call its step.
            device_comparison: Batches that are made elsewhere in this version; ``run_steps`` reads
                them.
        """
        step = self._step
        assert step is not None
        if device_comparison is not None:
            step.restart_recording()
        how = {} if device_comparison is None else {"sent": device_comparison.device_arguments}

        mode = mode_of(variant.step_edits)
        return self._with_calls(
            lambda step: prove_loop_step(step, mode, kind, budget_s, **how),
            run_steps,
            call_once,
        )

    def record_handover(
        self, run_steps: Callable[[], object], call_once: Callable[[], object]
    ) -> LoopHandover | None:
        """What a process of its own compares its training with; None where no step is known.

        Args:
            run_steps: As of :meth:`prove`.
            call_once: Likewise.
        """
        if not self.has_step:
            return None
        return self._with_calls(calls_elsewhere.record_loop_handover, run_steps, call_once)

    def prove_in_other_process(
        self,
        variant: Variant,
        handover: Handover,
        run_steps: Callable[[], object],
        call_once: Callable[[], object],
    ) -> Proof:
        """Compare a version, as it runs in this process, with what another one has left.

        Args:
            variant: Which.
            handover: That.
            run_steps: As of :meth:`prove`.
            call_once: Likewise.
        """
        assert isinstance(handover, LoopHandover)
        if not self.has_step:
            return Proof(kind="exact", passed=False, detail="no step of the loop was called")
        mode = mode_of(variant.step_edits)
        return self._with_calls(
            lambda step: calls_elsewhere.prove_loop_handover(step, mode, handover),
            run_steps,
            call_once,
        )

    def _with_calls(
        self,
        work: Callable[[InterceptedStep], ResultT],
        run_steps: Callable[[], object],
        call_once: Callable[[], object],
    ) -> ResultT:
        """Do something with the step on the loop's own thread, some calls of it recorded."""
        step, answers = self._step, list[ResultT | Exception]()
        assert step is not None
        if not step.recorded_calls:
            self.start_recording()
        until = time.monotonic() + _RECORDING_S
        while (
            len(step.recorded_calls) < _RECORDED and time.monotonic() < until and step.is_recording
        ):
            run_steps()

        def answer() -> None:
            try:
                answers.append(work(step))
            except Exception as error:
                answers.append(error)

        step.run_at_next_call(answer)
        call_once()
        (found,) = answers
        if isinstance(found, Exception):
            raise found
        return found

    def _check(self, version: Variant) -> None:
        if (
            self._step is not None
            and select_function_edits(version.step_edits)
            and self._step.mode_refusal
        ):
            raise EditRefused(
                f"the step cannot run {mode_of(version.step_edits).description}: "
                f"{self._step.mode_refusal}",
                "a step that can",
                "keep the original step",
            )
