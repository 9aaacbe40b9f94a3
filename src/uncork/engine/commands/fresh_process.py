"""Try another backend of Keras's in a process of its own, once the road has been walked.

What takes a process of its own, once the road has been walked: tried there, judged here.

Try an allocator that gives no memory back, in a process of its own, behind the road.

Try fewer threads within a kernel, in a process of its own, once the road has been walked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from uncork.core.base.errors import UncorkError
from uncork.core.base.journal import Event
from uncork.core.base.record import replace
from uncork.core.documents.job import Job, Mode, ProcessTrial
from uncork.core.documents.plan import NO_TIME, OutcomeName, Plan, Ratio, Step
from uncork.core.edits.edit import ArrayFeed, Guarantee, IntraOpThreads, loosest
from uncork.core.edits.step import DtypePolicy, JitCompile, LargerBatch, StepEdit
from uncork.engine.process.worker_process import Follow, Script, own_folder, run_quietly, write_plan
from uncork.optimizations.base.outcomes import figures, sentence
from uncork.optimizations.base.proposal import Optimization, Proposal, Skipped
from uncork.optimizations.compile.keras_backend import AnotherBackend
from uncork.optimizations.host.intra_op_threads import KernelsOnOneThread
from uncork.optimizations.host.keep_freed_memory import KeepMemory
from uncork.pycode.syntax.backend_portability import written_for_tensorflow

# Ratio. Two processes differ by themselves, and nothing is started otherwise for a trifle.
_WORTH: Final = 1.15
# Blocks of which the least usual may be left out.
_ENOUGH: Final = 4
# Of the memory that a process may use, what a training elsewhere may take at its height.
_MOST: Final = 0.8

InForce = Callable[[Plan, Step], Plan]


def beside_all(plan: Plan, step: Step) -> Plan:
    """With the step in force beside all that is."""
    return replace(plan, steps=(*plan.steps, step))


class Elsewhere:
    """One optimization that is tried in a process of its own.

    Args:
        optimization: Which.
        mode: Of the job that tries it.
        in_force: The plan with its step added and, where it was kept, in force.
        why_not: Why this plan, or this script, is not for it: part of a sentence; ``""`` where
            nothing speaks against it.
    """

    def __init__(
        self,
        optimization: Optimization,
        mode: Mode,
        in_force: InForce,
        why_not: Callable[[Plan, Script], str],
    ) -> None:
        self._optimization = optimization
        self._mode = mode
        self._in_force = in_force
        self._why_not = why_not

    def added_to(self, plan: Plan, handed_over: str | None, script: Script, follow: Follow) -> Plan:
        """The plan with what came of it, and in force if it is faster than all that is in force.

        Args:
            plan: As the road was walked, not confirmed yet.
            handed_over: File that the tuning left for the trial; None where it left none.
            script: What to run.
            follow: Told of each outcome.

        Raises:
            KeyboardInterrupt: In the middle of it.
        """
        found = self._answer(plan, handed_over, script)
        if isinstance(found, Proposal):
            follow(Event(kind="phase", text=f"trying {self._optimization.name}: {found.why}"))
            trial = self._trial(plan, found, handed_over or "", script)
            step = self._judged(plan, trial, found)
            if step.outcome == "kept" and isinstance(trial, ProcessTrial):
                plan = replace(plan, tuned=trial.measurement)
        else:
            step = self._step("skipped", found.reason)
        follow(Event(kind="phase", text=sentence(step)))
        if step.outcome != "kept":
            return replace(plan, steps=(*plan.steps, step))
        return self._in_force(plan, step)

    def _answer(self, plan: Plan, handed_over: str | None, script: Script) -> Proposal | Skipped:
        optimization = self._optimization
        proposal = optimization.propose(plan.after or plan.before, plan.machine, plan.policy)
        if not _allows(plan, optimization.guarantee):
            allowed = f"promises {optimization.guarantee}; the policy allows {plan.policy.loosest}"
            return Skipped(reason=allowed)
        if isinstance(proposal, Skipped):
            return proposal
        reason = self._why_not(plan, script)
        return Skipped(reason=reason or NO_TIME) if reason or handed_over is None else proposal

    def _trial(
        self, plan: Plan, proposal: Proposal, handed_over: str, script: Script
    ) -> ProcessTrial | UncorkError:
        """What came of it, or why it does not run."""
        made = self._in_force(plan, self._step("kept", proposal.why, proposal))
        job = Job(
            mode=self._mode,
            training=plan.before.workload.index,
            environment=made.environment,
            hand_over=handed_over,
        )
        try:
            with own_folder() as folder:
                job = replace(job, plan=write_plan(made, Path(folder, "plan.json")))
                found = run_quietly(job, script).elsewhere
        except UncorkError as error:
            return error
        assert found is not None
        return found

    def _judged(self, plan: Plan, trial: ProcessTrial | UncorkError, proposal: Proposal) -> Step:
        """Against what is in force so far, which was measured in another process."""
        if isinstance(trial, UncorkError):
            return self._step("rejected", f"it does not run there: {trial.received}", proposal)
        ours, theirs = _usual(plan.tuned.blocks), _usual(trial.measurement.blocks)
        ratio = Ratio(
            ratio=trial.measurement.samples_per_s / plan.tuned.samples_per_s,
            low=theirs[0] / ours[-1],
            high=theirs[-1] / ours[0],
        )
        if ratio.low < _WORTH:
            reason = f"not surely {_WORTH}x as fast: {figures(ratio)}"
            return replace(self._step("rejected", reason, proposal), measured=ratio)
        if trial.peak_bytes > _MOST * plan.machine.memory_bytes:
            taken, there = trial.peak_bytes / 1e9, plan.machine.memory_bytes / 1e9
            reason = f"it takes {taken:.1f} GB of memory there, of {there:.1f} GB"
            return replace(self._step("rejected", reason, proposal), measured=ratio)
        proof = trial.proof
        if not proof.passed or not _allows(plan, proof.kind):
            which = "not proven" if not proof.passed else f"only {proof.kind}"
            failed = self._step("rejected", f"{which}: {proof.detail}", proposal)
            return replace(failed, measured=ratio, proof=proof)
        return replace(
            self._step("kept", proposal.why, proposal),
            guarantee=proof.kind,
            measured=ratio,
            proof=proof,
            samples_per_s=trial.measurement.samples_per_s,
        )

    def _step(self, outcome: OutcomeName, reason: str, proposal: Proposal | None = None) -> Step:
        return Step(
            name=self._optimization.name,
            stage=self._optimization.stage,
            outcome=outcome,
            reason=reason,
            guarantee=self._optimization.guarantee,
            predicted=proposal.predicted if proposal else None,
            at=proposal.at if proposal else None,
            edits=proposal.edits if proposal and outcome == "kept" else (),
            source_edit=proposal.source_edit if proposal else "",
        )


def _usual(blocks: tuple[float, ...]) -> list[float]:
    """All but the slowest and the fastest, where there are as many as four; in order.

    One that something else of the machine's slowed says nothing of the process.
    """
    some = sorted(blocks)
    return some[1:-1] if len(some) >= _ENOUGH else some


def _allows(plan: Plan, guarantee: Guarantee) -> bool:
    return loosest(guarantee, plan.policy.loosest) == plan.policy.loosest


def _in_force(plan: Plan, step: Step) -> Plan:
    """With the backend in force, and without the steps that are for TensorFlow's training step."""
    steps = tuple(_given_up(each) for each in plan.steps)
    return replace(plan, steps=(*steps, step), after=None)


def _given_up(step: Step) -> Step:
    if not any(isinstance(edit, StepEdit | IntraOpThreads | ArrayFeed) for edit in step.edits):
        return step
    reason = f"kept, until {AnotherBackend.name} was faster: it is for TensorFlow's step"
    return replace(step, outcome="rejected", reason=reason, edits=(), samples_per_s=None)


def _backend_refusal(plan: Plan, script: Script) -> str:
    del plan
    return written_for_tensorflow(Path(script.path))


BACKEND: Final = Elsewhere(AnotherBackend(), "backend", _in_force, _backend_refusal)


def _memory_refusal(plan: Plan, script: Script) -> str:
    """It goes with everything."""
    del plan, script
    return ""


MEMORY: Final = Elsewhere(KeepMemory(), "process", beside_all, _memory_refusal)


def _threads_refusal(plan: Plan, script: Script) -> str:
    del script
    if any(isinstance(edit, JitCompile) for edit in plan.step_edits):
        return "XLA has joined the small kernels"
    if any(isinstance(edit, DtypePolicy | LargerBatch) for edit in plan.step_edits):
        return "the plan trains otherwise than the script as written, which it is compared with"
    return ""


THREADS: Final = Elsewhere(KernelsOnOneThread(), "process", beside_all, _threads_refusal)
