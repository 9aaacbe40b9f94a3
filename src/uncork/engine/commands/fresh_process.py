"""What takes a process of its own, once the road has been walked: tried there, judged here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from uncork.core.edit import Guarantee, loosest
from uncork.core.errors import UncorkError
from uncork.core.job import Job, Mode, ProcessTrial
from uncork.core.journal import Event
from uncork.core.plan import NO_TIME, OutcomeName, Plan, Ratio, Step
from uncork.core.record import replace
from uncork.engine.outcomes import figures, sentence
from uncork.engine.processes import Follow, Script, own_folder, run_quietly, write_plan
from uncork.road import Optimization, Proposal, Skipped

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
