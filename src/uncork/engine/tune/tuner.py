"""Walk the road: propose, measure, prove, keep or undo."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from uncork.core.base.errors import EditRefused, describe_error, shorten_list
from uncork.core.base.journal import WorkProgress, seconds_until
from uncork.core.base.measurement import Comparison, Measurement
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import PlanStep
from uncork.core.edits.edit import Edit
from uncork.core.edits.step import StepEdit
from uncork.engine.diagnose.observe import observe
from uncork.engine.diagnose.precision_trials import compare_resident
from uncork.engine.diagnose.time_breakdown import breakdown_with_new_input
from uncork.engine.subject import time_budget as seconds
from uncork.engine.tune.combined_trial import (
    CombinedOptimization,
    CombinedPart,
    is_inconclusive,
    propose_parts,
)
from uncork.engine.tune.secondary_costs import SecondaryCost, secondary_cost_of
from uncork.engine.tune.tuning_state import TuningState
from uncork.measure.benchmark.interleave import Trial, interleave, interleave_until_budget
from uncork.optimizations.base.outcomes import (
    MIN_KEPT_SPEEDUP,
    describe_outcome,
    format_speedup,
    is_promising,
    not_faster_reason,
    record,
)
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    optimistic_gain,
)
from uncork.rules.judge import judge
from uncork.training.tracing.xla_support import missing_kernel_reason
from uncork.training.variant import Variant

_NO_CHILDREN = "needs a separate process: tune the script with 'uncork tune'"


@dataclass
class Tuner(TuningState):
    """One tuning: what was tried so far, and what comes next.

    Attributes:
        steps: Of the road, with what became of them.
        after_step: Called when a step has its outcome: what was found so far can be saved.
    """

    steps: list[PlanStep] = field(default_factory=list)
    after_step: Callable[[], None] = lambda: None

    def run(self) -> None:
        """Try every optimization in its order; each outcome is recorded, none is silent.

        What makes another training of it comes last of all: no step can be compared with the
        original's elements or weights from there on.
        """
        self.journal.progress = self.progress
        here = [o for o in self.optimizations if not o.needs_own_process]
        others = [o for o in here if o.guarantee != "training"]
        for optimization in others:
            first = self._before(optimization)
            for each in (first, optimization) if first else (optimization,):
                if not self._is_tried(each.name):
                    self._record(self._try_carefully(each))
        self._looking_again = True
        self._look_again()
        self._try_together()
        self._looking_again = False
        for optimization in here:
            if optimization not in others:
                self._look_at_batches(optimization)
                self._record(self._try_smaller_and_smaller(optimization))
        if not self.can_start_processes:
            for optimization in self.optimizations:
                if optimization.needs_own_process:
                    self._record(record(optimization, "skipped", _NO_CHILDREN))

    def progress(self) -> WorkProgress:
        """How far the tuning is; the best ratio so far is the product of the accepted gains."""
        count = len(self.optimizations)
        kept = [s for s in self.steps if s.outcome == "kept" and not s.is_secondary]
        gains = [step.measured.ratio for step in kept if step.measured]
        return WorkProgress(
            step=min(len(self.steps) + 1, count),
            step_count=count,
            best_ratio=math.prod(gains) if gains else None,
            seconds_left=seconds_until(self.start_time_s + self.policy.budget_s),
        )

    def _is_tried(self, name: str) -> bool:
        return any(step.name == name for step in self.steps)

    def _record(self, step: PlanStep) -> None:
        self.steps.append(step)
        self._tell(step)
        self.after_step()

    def _tell(self, step: PlanStep) -> None:
        is_kept = step.outcome == "kept"
        self.journal.write("step", describe_outcome(step), payload=step, is_milestone=is_kept)

    def _look_again(self) -> None:
        """The time that is left belongs to what the first pass could not settle.

        That is gains that could not be told from noise, and steps that seemed to gain nothing while
        something else was the bottleneck. Each gets one trial on what is in force now, judged by
        its new figures alone. A step that is kept now stands at the end, where its edits came.
        """
        by_name = {optimization.name: optimization for optimization in self.optimizations}
        unclear = {step: self._expected(step, by_name[step.name]) for step in self.steps}
        for step in sorted(unclear, key=unclear.__getitem__, reverse=True):
            if (
                unclear[step] < MIN_PREDICTED_SPEEDUP
                or self.time_left_s < seconds.TRIAL_S + seconds.AFTER_GAIN_S
            ):
                return
            again = self._try_carefully(by_name[step.name], again=True)
            if again.outcome != "skipped":
                self.steps.remove(step)
                self._record(again)

    def _expected(self, step: PlanStep, optimization: Optimization) -> float:
        """What a second look at a step may bring; 1 where there is nothing to look for."""
        if step.outcome == "skipped":
            return optimistic_gain(self.propose(optimization))
        return step.measured.ratio if step.measured and is_promising(step) else 1.0

    def _try(self, optimization: Optimization, *, again: bool = False) -> PlanStep:
        proposal = self.propose(optimization)
        if not again and not isinstance(proposal, Skipped):
            proposal = self._postponed(optimization, proposal) or proposal
        if isinstance(proposal, Skipped):
            skipped = record(optimization, "skipped", proposal.reason)
            return replace(skipped, predicted=proposal.predicted)
        return self._attempt(optimization, proposal, again=again)

    def _attempt(self, optimization: Optimization, proposal: Proposal, *, again: bool) -> PlanStep:
        self.journal.write("phase", f"trying {optimization.name}: {proposal.rationale}")
        try:
            return self._trial(optimization, proposal, again)
        except EditRefused as refusal:
            return record(optimization, "rejected", refusal.received, proposal)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except Exception as error:  # a trial that breaks must not take the tuning with it
            why = (
                self.subject.end_of_data_reason()
                or missing_kernel_reason(error)
                or describe_error(error)
            )
            return record(optimization, "failed", why, proposal)
        finally:
            self.subject.restore()
            # Datasets lie in cycles, and their caches with them: the next trial needs the memory.
            gc.collect()

    def _try_together(self) -> None:
        """Of what noise left open one by one, all steps that edit the input, as one."""
        tried = {step.name: step for step in self.steps if is_inconclusive(step)}
        if (
            len(tried) < 2
            or self.time_left_s
            < seconds.TRIAL_S + seconds.AFTER_GAIN_S + len(tried) * seconds.COMBINED_OBSERVATION_S
        ):
            return
        together = CombinedOptimization(
            self._parts([o for o in self.optimizations if o.name in tried])
        )
        if len(together.parts) < 2:
            return
        step = self._attempt(together, together.proposal(), again=True)
        befores = [tried[part.optimization.name] for part in together.parts]
        found = together.part_outcomes(step, befores)
        # All at once: of what is kept together no part may be in force unrecorded.
        self.steps[:] = [*(each for each in self.steps if each not in befores), *found]
        for each in found:
            self._tell(each)
        self.after_step()

    def _parts(self, road: Sequence[Optimization]) -> list[CombinedPart]:
        """Each as it is proposed on what those before it leave."""
        try:
            return propose_parts(
                road,
                (self.variant, self.diagnosis),
                lambda optimization, now: optimization.propose(
                    replace(self.context, diagnosis=now)
                ),
                self._look,
            )
        except Exception as error:  # as of a trial: it must not take the tuning with it
            self.journal.write("phase", f"not tried in combination: {describe_error(error)}")
            return []
        finally:
            self.subject.restore()
            gc.collect()

    def _trial(self, optimization: Optimization, proposal: Proposal, again: bool) -> PlanStep:
        """Speed first: it is the cheaper question, and most candidates fail it."""
        candidate = self.variant.with_edits(proposal.edits)
        alone = self._alone(candidate, proposal)
        if alone is not None:
            predicted = self.diagnosis.speedup_with_faster_step(alone.ratio)
            proposal = replace(proposal, predicted=predicted)
            if predicted < MIN_PREDICTED_SPEEDUP:
                reason = f"on one batch kept in memory {format_speedup(alone)}"
                return record(optimization, "rejected", reason, proposal)
        trial = self._measure(candidate, None if again else self._better_s(optimization, proposal))
        found, part = trial.comparison, secondary_cost_of(self.variant, candidate, self.diagnosis)
        if part is not None:
            self.diagnosis = part.update_diagnosis(
                self.diagnosis, trial.base.samples_per_s, edited=False
            )
            found = part.scale_to_whole(self.diagnosis, found)
        if found.verdict != "faster":
            return record(optimization, "rejected", not_faster_reason(found), proposal, None, found)
        promise = f"proving {optimization.name}: {optimization.guarantee}"
        self.journal.write("phase", f"{format_speedup(found)}; {promise}")
        proof = self._promises.prove(
            candidate,
            optimization,
            proposal,
            part=part,
            time_left_s=self.time_left_s - seconds.AFTER_GAIN_S,
        )
        if not proof.passed:
            reason = f"not proven: {proof.detail}"
            return record(optimization, "rejected", reason, proposal, proof, found)
        edits = proposal.edits
        if part is not None:
            self._keep_part(part, candidate, trial.candidate)
        else:
            edits = self._keep(candidate, trial.candidate)
        kept = record(optimization, "kept", proposal.rationale, proposal, proof, found)
        speed = self.diagnosis.measurement.samples_per_s
        graphs = self.subject.graph_digests(self.variant)
        return replace(
            kept, guarantee=proof.kind, edits=edits, samples_per_s=speed, graph_digests=graphs
        )

    def _at_least(self, part: SecondaryCost | None) -> float:
        """The smallest ratio worth keeping: what is no step gains only its part."""
        return part.min_ratio(self.diagnosis, MIN_KEPT_SPEEDUP) if part else MIN_KEPT_SPEEDUP

    def _try_carefully(self, optimization: Optimization, *, again: bool = False) -> PlanStep:
        """A lower precision that harms the training may do so in a few layers only."""
        before, step = self.propose(optimization), self._try(optimization, again=again)
        work = self.diagnosis.workload
        others = set(work.precision_sensitive_layers) - set(work.random_layers)
        if step.proof is None or not step.proof.is_disproved or not others:
            return step
        self.diagnosis = replace(
            self.diagnosis, workload=replace(work, is_precision_conservative=True)
        )
        proposal = self.propose(optimization)
        time_left = self.time_left_s >= seconds.TRIAL_S + seconds.AFTER_GAIN_S
        if time_left and proposal != before and not isinstance(proposal, Skipped):
            careful = self._attempt(optimization, proposal, again=again)
            if careful.outcome == "kept":
                return careful
            named = f"with {shorten_list(work.precision_sensitive_layers)} in float32"
            step = replace(step, reason=f"{step.reason}; {named}: {careful.reason}")
        self.diagnosis = replace(self.diagnosis, workload=work)
        return step

    def _try_smaller_and_smaller(self, optimization: Optimization) -> PlanStep:
        """A larger batch that is not proved may be too large only."""
        step = self._try(optimization)
        while step.proof is not None and not step.proof.passed:
            tried = [size for size in self.diagnosis.batch_size_trials if size.is_within_noise]
            self.diagnosis = replace(self.diagnosis, batch_size_trials=tuple(tried[:-1]))
            again = self._try(optimization)
            if again.outcome == "skipped":
                return step
            step = again
        return step

    def _look_at_batches(self, optimization: Optimization) -> None:
        """Takes a while, so it is done only with consent, and for what is in force now."""
        if self._not_allowed(optimization) is not None:
            return
        spare_s = (
            self.time_left_s - seconds.TRIAL_S - seconds.AFTER_GAIN_S - seconds.TRAINING_PROOF_S
        )
        if spare_s < seconds.MIN_LARGER_BATCHES_S:
            return
        self.journal.write("phase", "training on larger batches to measure their effect")
        try:
            sizes = self.subject.measure_batch_sizes(
                self.variant, min(seconds.LARGER_BATCHES_S, spare_s)
            )
            self.diagnosis = replace(self.diagnosis, batch_size_trials=sizes)
        except Exception as error:  # as of a trial: it must not take the tuning with it
            self.journal.write("phase", f"Uncork tried no larger batch: {describe_error(error)}")
        finally:
            self.subject.restore()

    def _alone(self, candidate: Variant, proposal: Proposal) -> Comparison | None:
        """What a step edit does where noise is least, if nothing measured so far tells."""
        if proposal.predicted or not all(isinstance(e, StepEdit) for e in proposal.edits):
            return None
        return compare_resident(self.subject, self.variant, candidate, seconds.RESIDENT_BLOCK_S)

    def _measure(self, candidate: Variant, better_s: float | None) -> Trial:
        """Patiently, but for what is kept for better steps; at a second look for nothing."""
        part, versions = (
            secondary_cost_of(self.variant, candidate, self.diagnosis),
            (self.variant, candidate),
        )
        if part is None:
            base, runner = (self.subject.runner(version) for version in versions)
        else:
            base, runner = (part.runner(self.subject, version) for version in versions)
        runner.prime()
        base.prime()
        longest_s = part.max_block_s if part else math.inf
        block_s, left_s = min(longest_s, seconds.block_s(self.diagnosis)), self.time_left_s
        at_least, spare_s = self._at_least(part), left_s - seconds.AFTER_GAIN_S
        if better_s is None:
            return interleave_until_budget(
                base, runner, block_s=block_s, budget_s=spare_s, min_ratio=at_least
            )
        return interleave(
            base,
            runner,
            block_s=block_s,
            budget_s=min(seconds.TRIAL_S, left_s),
            max_extended_s=spare_s - better_s,
            min_ratio=at_least,
        )

    def _keep(self, candidate: Variant, measured: Measurement) -> tuple[Edit, ...]:
        """Go on from the candidate; the bottleneck may now be elsewhere, so look anew."""
        edits = candidate.pipeline_edits[len(self.variant.pipeline_edits) :]
        loader = candidate.loader_edits[len(self.variant.loader_edits) :]
        step = candidate.step_edits[len(self.variant.step_edits) :]
        known = None
        if not (step or self.subject.loses_time_between_calls):
            known = breakdown_with_new_input(self.diagnosis, measured)
        self.subject.restore()
        now = observe(
            self.subject,
            self.machine,
            self.journal,
            variant=candidate,
            known=known or measured,
            earlier=self.diagnosis,
        )
        # Only now: what breaks or is interrupted while looking must not be in force unrecorded.
        self.variant, self.diagnosis = candidate, now
        return (*edits, *loader, *step)

    def _look(self, version: Variant, now: WorkloadDiagnosis) -> WorkloadDiagnosis:
        work = self.subject, self.machine, self.journal
        return observe(*work, variant=version, earlier=now, budget_s=seconds.COMBINED_OBSERVATION_S)

    def _keep_part(self, part: SecondaryCost, candidate: Variant, measured: Measurement) -> None:
        """Where nothing of the training's steps has changed, there is nothing to look at anew."""
        if part.leaves_steps_unchanged:
            now = part.update_diagnosis(self.diagnosis, measured.samples_per_s, edited=True)
            self.variant, self.diagnosis = candidate, judge(now, self.machine)
        else:
            self.subject.restore()
            self.variant, self.diagnosis = candidate, self._look(candidate, self.diagnosis)
