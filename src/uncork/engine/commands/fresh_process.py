"""Optimizations that need a process of their own: backend, allocator, threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from uncork.core.base.errors import UncorkError
from uncork.core.base.journal import Event
from uncork.core.base.record import replace
from uncork.core.documents.job import BackendJob, ProcessJob, ProcessTrial
from uncork.core.documents.plan import NO_TIME_REASON, OutcomeName, Plan, PlanStep, Proof, Ratio
from uncork.core.edits.edit import ArrayFeed, Guarantee, IntraOpThreads, find_loosest_guarantee
from uncork.core.edits.step import DtypePolicy, JitCompile, LargerBatch, StepEdit
from uncork.engine.process.job_folder import temporary_folder, write_plan
from uncork.engine.process.worker_process import EventHandler, Script, run_quiet_worker
from uncork.optimizations.base.outcomes import describe_outcome, format_speedup, record
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    optimistic_gain,
)
from uncork.optimizations.compile.keras_backend import KerasBackendOptimization
from uncork.optimizations.host.intra_op_threads import IntraOpThreadsOptimization
from uncork.optimizations.host.keep_freed_memory import KeepFreedMemoryOptimization
from uncork.pycode.syntax.backend_portability import tensorflow_only_reason

# Ratio. Two processes differ by themselves, and nothing is started otherwise for a trifle.
_WORTH: Final = 1.15
# Blocks of which the least usual may be left out.
_ENOUGH: Final = 4
# Of the memory that a process may use, what a training elsewhere may take at its height.
_MOST: Final = 0.8


def add_step(plan: Plan, step: PlanStep) -> Plan:
    """With the step in force beside all that is."""
    return replace(plan, steps=(*plan.steps, step))


@dataclass(frozen=True)
class FreshProcessTrial:
    """One optimization that is tried in a process of its own.

    Attributes:
        optimization: Which.
        job_type: Of the job that tries it.
        add_step_to_plan: The plan with its step added and, where it was kept, in force.
        refusal_reason: Why this plan, or this script, is not for it: part of a sentence; ``""``
            where nothing speaks against it.
    """

    optimization: Optimization
    job_type: type[BackendJob | ProcessJob]
    add_step_to_plan: Callable[[Plan, PlanStep], Plan]
    refusal_reason: Callable[[Plan, Script], str]

    def extend_plan(
        self, plan: Plan, handover_path: str | None, script: Script, on_event: EventHandler
    ) -> Plan:
        """The plan with what came of it, and in force if it is faster than all that is in force.

        Args:
            plan: As the road was walked, not confirmed yet.
            handover_path: File that the tuning left for the trial; None where it left none.
            script: What to run.
            on_event: Told of each outcome.

        Raises:
            KeyboardInterrupt: In the middle of it.
        """
        found = self._answer(plan, handover_path, script)
        if isinstance(found, Proposal):
            on_event(
                Event(kind="phase", text=f"trying {self.optimization.name}: {found.rationale}")
            )
            trial = self._trial(plan, found, handover_path or "", script)
            step = self._judged(plan, trial, found)
            if step.outcome == "kept" and isinstance(trial, ProcessTrial):
                plan = replace(plan, tuned=trial.measurement)
        else:
            step = replace(self._step("skipped", found.reason), predicted=found.predicted)
        text, is_kept = describe_outcome(step), step.outcome == "kept"
        on_event(Event(kind="step", text=text, is_milestone=is_kept))
        if step.outcome != "kept":
            return replace(plan, steps=(*plan.steps, step))
        return self.add_step_to_plan(plan, step)

    def _answer(self, plan: Plan, handed_over: str | None, script: Script) -> Proposal | Skipped:
        optimization = self.optimization
        proposal = optimization.propose(
            Context(diagnosis=plan.after or plan.before, machine=plan.machine, policy=plan.policy)
        )
        if not _allows(plan, optimization.guarantee):
            allowed = (
                f"promises {optimization.guarantee}; the policy allows "
                f"{plan.policy.loosest_guarantee}"
            )
            gain = None if isinstance(proposal, Skipped) else optimistic_gain(proposal)
            return Skipped(reason=allowed, predicted=gain)
        if isinstance(proposal, Skipped):
            return proposal
        reason = self.refusal_reason(plan, script)
        if reason:
            return Skipped(reason=reason)
        if handed_over is None:
            return Skipped(reason=NO_TIME_REASON, predicted=optimistic_gain(proposal))
        return proposal

    def _trial(
        self, plan: Plan, proposal: Proposal, handed_over: str, script: Script
    ) -> ProcessTrial | UncorkError:
        """What came of it, or why it does not run."""
        made = self.add_step_to_plan(plan, self._step("kept", proposal.rationale, proposal))
        try:
            with temporary_folder() as folder:
                job = self.job_type(
                    training_index=plan.before.workload.index,
                    environment=made.environment,
                    handover_path=handed_over,
                    plan_path=write_plan(made, Path(folder, "plan.json")),
                )
                found = run_quiet_worker(job, script).process_trial
        except UncorkError as error:
            return error
        assert found is not None
        return found

    def _judged(
        self, plan: Plan, trial: ProcessTrial | UncorkError, proposal: Proposal
    ) -> PlanStep:
        """Against what is in force so far, which was measured in another process."""
        if isinstance(trial, UncorkError):
            return self._step(
                "rejected", f"it does not run in this process: {trial.received}", proposal
            )
        ours, theirs = (
            _usual(plan.tuned.block_samples_per_s),
            _usual(trial.measurement.block_samples_per_s),
        )
        ratio = Ratio(
            ratio=trial.measurement.samples_per_s / plan.tuned.samples_per_s,
            low=theirs[0] / ours[-1],
            high=theirs[-1] / ours[0],
        )
        if ratio.low < _WORTH:
            reason = f"not proven {_WORTH}x as fast: {format_speedup(ratio)}"
            return self._step("rejected", reason, proposal, ratio=ratio)
        if trial.peak_memory_bytes > _MOST * plan.machine.memory_bytes:
            taken, there = trial.peak_memory_bytes / 1e9, plan.machine.memory_bytes / 1e9
            reason = f"it takes {taken:.1f} GB of memory, of {there:.1f} GB"
            return self._step("rejected", reason, proposal, ratio=ratio)
        proof = trial.proof
        if not proof.passed or not _allows(plan, proof.kind):
            which = "not proven" if not proof.passed else f"only {proof.kind}"
            return self._step("rejected", f"{which}: {proof.detail}", proposal, proof, ratio)
        return replace(
            self._step("kept", proposal.rationale, proposal, proof, ratio),
            guarantee=proof.kind,
            samples_per_s=trial.measurement.samples_per_s,
        )

    def _step(
        self,
        outcome: OutcomeName,
        reason: str,
        proposal: Proposal | None = None,
        proof: Proof | None = None,
        ratio: Ratio | None = None,
    ) -> PlanStep:
        step = record(self.optimization, outcome, reason, proposal, proof, ratio)
        return replace(step, edits=proposal.edits) if proposal and outcome == "kept" else step


def _usual(blocks: tuple[float, ...]) -> list[float]:
    """All but the slowest and the fastest, where there are as many as four; in order.

    One that something else of the machine's slowed says nothing of the process.
    """
    some = sorted(blocks)
    return some[1:-1] if len(some) >= _ENOUGH else some


def _allows(plan: Plan, guarantee: Guarantee) -> bool:
    return (
        find_loosest_guarantee(guarantee, plan.policy.loosest_guarantee)
        == plan.policy.loosest_guarantee
    )


def _in_force(plan: Plan, step: PlanStep) -> Plan:
    """With the backend in force, and without the steps that are for TensorFlow's training step."""
    steps = tuple(_given_up(each) for each in plan.steps)
    return replace(plan, steps=(*steps, step), after=None)


def _given_up(step: PlanStep) -> PlanStep:
    if not any(isinstance(edit, StepEdit | IntraOpThreads | ArrayFeed) for edit in step.edits):
        return step
    reason = (
        f"accepted, until {KerasBackendOptimization.name} was faster: it applies to TensorFlow's "
        "step only"
    )
    return replace(step, outcome="rejected", reason=reason, edits=(), samples_per_s=None)


BACKEND_TRIAL: Final = FreshProcessTrial(
    KerasBackendOptimization(),
    BackendJob,
    _in_force,
    lambda _, script: tensorflow_only_reason(Path(script.path)),
)


# It goes with everything.
MEMORY_TRIAL: Final = FreshProcessTrial(
    KeepFreedMemoryOptimization(), ProcessJob, add_step, lambda *_: ""
)


def _threads_refusal(plan: Plan, script: Script) -> str:
    del script
    if any(isinstance(edit, JitCompile) for edit in plan.step_edits):
        return "XLA fuses the small kernels already"
    if any(isinstance(edit, DtypePolicy | LargerBatch) for edit in plan.step_edits):
        return "the plan's training differs from the original, with which it is compared"
    return ""


THREADS_TRIAL: Final = FreshProcessTrial(
    IntraOpThreadsOptimization(), ProcessJob, add_step, _threads_refusal
)
