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
    MapsAtOnce,
    PadArguments,
    Precision,
    ReduceRetracing,
    ReuseIterator,
    StepEdit,
    TensorArguments,
    is_graph,
    of_function,
)
from uncork.core.evidence.batches import NewShapes
from uncork.engine.loop.device_batches import Compared
from uncork.engine.loop.step_compile_time import new_shapes_of_loop, seconds_of_a_shape
from uncork.engine.loop.step_lookup import NO_FUNCTION
from uncork.pipeline.ir.tree import Pipeline
from uncork.training.input.iterator_reuse import ReusedIterators
from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.eager_step import EagerStep
from uncork.training.loop_step.loop_step import TakenStep
from uncork.training.loop_step.mode import Mode
from uncork.training.optimizer.traced_updates import fusable_in
from uncork.training.variant import Version
from uncork.verify.provers import loop_handover as calls_elsewhere
from uncork.verify.provers.handover import HandedCalls, HandedOver
from uncork.verify.provers.loop_step import prove_step_of_loop

_NOT_SEEN: Final = "it was not called by the loop that was watched"
# Calls of the step that a proof looks for, and seconds that it may take to see them.
_RECORDED: Final = 8
_RECORDING_S: Final = 8.0
Found = TypeVar("Found")
Ways = tuple[Callable[[], None], Callable[[], None]]


def mode_of(edits: tuple[StepEdit, ...]) -> Mode:
    """How a loop's step runs with these edits.

    Example:
        >>> mode_of((JitCompile(), DtypePolicy(policy="float32"))).words
        'compiled with XLA and in float32'
    """
    kinds = {type(edit) for edit in edits}
    policies = [edit for edit in edits if isinstance(edit, DtypePolicy)]
    xla = JitCompile in kinds
    lengths = [edit for edit in edits if isinstance(edit, PadArguments)]
    # XLA compiles for one shape.
    any_shape = ReduceRetracing in kinds and not xla
    return Mode(
        graph=is_graph(edits),
        xla=xla,
        no_xla=JitCompileOff in kinds and not xla,
        any_shape=any_shape,
        at_once=MapsAtOnce in kinds,
        fused=FusedUpdates in kinds,
        tensors=tuple(n for edit in edits if isinstance(edit, TensorArguments) for n in edit.names),
        arrays=tuple(n for edit in edits if isinstance(edit, ArrayArguments) for n in edit.names),
        lengths=lengths[-1] if lengths else None,
        policy=policies[-1].policy if policies else "",
        keep=policies[-1].keep if policies else (),
        careful=bool(policies and policies[-1].careful),
    )


class StepSwitch:
    """The step of a loop, where it can be run in other ways.

    Args:
        step: None where it cannot be taken over, or is not known.
    """

    def __init__(self, step: TakenStep | None) -> None:
        self._step = step
        self._iterators = ReusedIterators()
        if step is not None:
            step.is_looked_at = True  # in the first steps of a training its loss says most

    @property
    def known(self) -> bool:
        """There is a step to switch."""
        return self._step is not None

    def record(self) -> None:
        """From now on, keep what the step is called with: proofs compare that."""
        if self._step is not None:
            self._step.recording = True

    def to(self, mode: Mode, *, reusing: bool = False) -> Callable[[], None]:
        """Something that sets the mode.

        Args:
            mode: Of the step.
            reusing: Keras's own methods read through iterators that are kept.
        """

        def switch() -> None:
            if self._step is not None:
                self._step.mode = mode
            if reusing:
                self._iterators.put_in_force()
            else:
                self._iterators.give_back()

        return switch

    def ways(self, version: Version) -> Ways:
        """What sets up the step of a version before a block, and what checks it after the first.

        Raises:
            EditRefused: It is another step than the edit is for.
        """
        edits = of_function(version.step)
        if not isinstance(self._step, EagerStep):
            code = "" if self._step is None else self._step.code
            if any(code != edit.code for edit in edits):
                raise EditRefused(
                    "the loop does not call the step that the edit is for",
                    "the code that the plan was made for",
                    "run 'uncork tune' again",
                )
        reusing = any(isinstance(edit, ReuseIterator) for edit in version.step)
        switch = self.to(mode_of(version.step), reusing=reusing)
        return switch, functools.partial(self._check, version)

    def in_policy(
        self, version: Version, policy: Precision, keep: tuple[str, ...]
    ) -> Version | None:
        """The version with its step in another dtype policy; None where none can be switched."""
        step = self._step
        if step is None or step.refusal or not step.code:
            return None
        return version.with_step_edits((DtypePolicy(policy=policy, keep=keep, code=step.code),))

    def may_be_graph(self, version: Version) -> bool:
        """It runs op by op in this version, was watched, and need not."""
        step = self._step
        eager = isinstance(step, EagerStep) and not is_graph(version.step)
        return eager and step is not None and step.refusal == ""

    def graphs(self, version: Version) -> tuple[str, ...]:
        """Digests of what the step was traced to in this version, as far as was seen."""
        edits = version.step
        if self._step is None or not (of_function(edits) or is_graph(edits)):
            return ()
        return tuple(sorted(self._step.graphs))

    def described(self, work: Workload) -> Workload:
        """The workload, with what is known of its step by now."""
        step = self._step
        if isinstance(step, CompiledStep):
            known = {"step_code": step.code, "jit_compile": step.is_xla, "numbers": step.numbers}
            return replace(work, **known, fusable_weights=fusable_in(step.graph()))
        if not work.eager_step:
            return work
        if step is None:
            return replace(work, not_traceable=NO_FUNCTION)
        refusal = _NOT_SEEN if step.refusal is None else step.refusal
        fusable = 0 if refusal else fusable_in(step.graph())
        known = {"step_code": step.code, "not_traceable": refusal, "numbers": step.numbers}
        return replace(work, **known, fusable_weights=fusable)

    def new_shapes(
        self, batches: Sequence[Any], pipeline: Pipeline, call: Callable[[], object], seconds: float
    ) -> NewShapes | None:
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
        step.record_anew()
        try:
            found = self._with_calls(lambda _: seconds_of_a_shape(step, seconds), call, call)
            return found and new_shapes_of_loop(step.calls, batches, pipeline, found)
        finally:
            step.record_anew()
            step.recording = False  # proofs compare what comes from the input

    def prove(
        self,
        version: Version,
        kind: Guarantee,
        budget_s: float,
        run_steps: Callable[[], object],
        call_once: Callable[[], object],
        compared: Compared | None = None,
    ) -> Proof:
        """Compare recorded calls as written and otherwise, on the loop's own thread.

        Args:
            version: How otherwise.
            kind: What to prove.
            budget_s: Seconds that it may take, where that is ours to choose.
            run_steps: Lets the loop run as it is for some steps, to record what it calls them with.
            call_once: Lets the loop call its step.
            compared: Batches that are made elsewhere in this version; ``run_steps`` reads them.
        """
        step = self._step
        assert step is not None
        if compared is not None:
            step.record_anew()
        how = {} if compared is None else {"sent": compared.sent}

        mode = mode_of(version.step)
        return self._with_calls(
            lambda step: prove_step_of_loop(step, mode, kind, budget_s, **how),
            run_steps,
            call_once,
        )

    def hand_over(
        self, run_steps: Callable[[], object], call_once: Callable[[], object]
    ) -> HandedCalls | None:
        """What a process of its own compares its training with; None where no step is known.

        Args:
            run_steps: As of :meth:`prove`.
            call_once: Likewise.
        """
        if not self.known:
            return None
        return self._with_calls(calls_elsewhere.handed_over, run_steps, call_once)

    def prove_elsewhere(
        self,
        version: Version,
        handed: HandedOver,
        run_steps: Callable[[], object],
        call_once: Callable[[], object],
    ) -> Proof:
        """Compare a version, as it runs in this process, with what another one has left.

        Args:
            version: Which.
            handed: That.
            run_steps: As of :meth:`prove`.
            call_once: Likewise.
        """
        assert isinstance(handed, HandedCalls)
        if not self.known:
            return Proof(kind="exact", passed=False, detail="no step of the loop was seen there")
        mode = mode_of(version.step)
        return self._with_calls(
            lambda step: calls_elsewhere.proved_elsewhere(step, mode, handed),
            run_steps,
            call_once,
        )

    def _with_calls(
        self,
        work: Callable[[TakenStep], Found],
        run_steps: Callable[[], object],
        call_once: Callable[[], object],
    ) -> Found:
        """Do something with the step on the loop's own thread, some calls of it recorded."""
        step, answers = self._step, list[Found | Exception]()
        assert step is not None
        if not step.calls:
            self.record()
        until = time.monotonic() + _RECORDING_S
        while len(step.calls) < _RECORDED and time.monotonic() < until and step.recording:
            run_steps()

        def answer() -> None:
            try:
                answers.append(work(step))
            except Exception as error:
                answers.append(error)

        step.at_next_call(answer)
        call_once()
        (found,) = answers
        if isinstance(found, Exception):
            raise found
        return found

    def _check(self, version: Version) -> None:
        if self._step is not None and of_function(version.step) and self._step.unable:
            raise EditRefused(
                f"the step cannot run {mode_of(version.step).words}: {self._step.unable}",
                "a step that can",
                "leave it as it is",
            )
