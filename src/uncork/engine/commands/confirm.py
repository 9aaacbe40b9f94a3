"""Baseline and plan in turn, each in processes of their own: the figures that are reported."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from uncork.core.base.errors import UncorkError
from uncork.core.base.journal import Event, WorkProgress
from uncork.core.base.measurement import (
    MAX_GROUP_SIZE,
    Comparison,
    Measurement,
    compare_groups,
    spread,
)
from uncork.core.base.record import replace
from uncork.core.costmodel.validation_time import epoch_and_validation_s
from uncork.core.documents.job import Confirmation, ConfirmJob
from uncork.core.documents.plan import Plan, PlanStep, Speedup, TimeToFinish, ValidationTimes
from uncork.core.edits.edit import LoaderCache
from uncork.core.edits.pipeline import Cache, DiskCache, GeneratorCache, PyFunctionCache
from uncork.engine.process.job_folder import temporary_folder, write_plan
from uncork.engine.process.worker_process import (
    EventHandler,
    Script,
    WorkerProcess,
    run_quiet_worker,
)

# More follow one by one as long as they leave open whether there is a gain, or nearly all of how
# large it is; from the third on, only where it would be worth having.
_FEWEST_PAIRS: Final = 2
_WORTH_HAVING: Final = 1.1
# Ends of an interval, one over the other: what is wider tells little but that there is a gain.
_WIDE: Final = 4.0
# Of a first epoch that takes longer one process tells enough; others only warm up.
_LONG_S: Final = 2.0
# Of an epoch and its part of a validation, what the latter takes where it is timed.
_WORTH_TIMING: Final = 0.02
_FRESH: Final = "in fresh processes"
_KEEPING: Final = Cache | DiskCache | GeneratorCache | LoaderCache | PyFunctionCache


def confirm(
    plan: Plan, script: Script, on_event: EventHandler, *, imports_first: bool = False
) -> tuple[Plan, bool]:
    """Run both versions in fresh processes, A B B A, and put the figures into the plan.

    More pairs follow until their interval decides, five at most: a sequential test
    (:func:`~uncork.core.base.measurement.compare_groups`).

    A process that fails leaves the plan unconfirmed, with a note that says why. A plan that turns
    out to be slower is withdrawn: what was kept is rejected, and the note has the figures.

    Args:
        plan: Not confirmed yet.
        script: That it is for.
        on_event: Called with each event as it happens.
        imports_first: Processes may import TensorFlow before they run the script: the two of a pair
            do so at the same time.

    Returns:
        The plan, and whether this was interrupted: it is unconfirmed then, unless only processes
        were missing that were to tell more.
    """
    try:
        with temporary_folder() as folder:
            jobs = _jobs(plan, Path(folder))
            if plan.steps_needed_for_memory == plan.accepted_steps:
                return _seen_to_train(plan, _measured(jobs[1], script)), False
            turns = _InTurn(
                jobs, plan.baseline_description, script, on_event, imports_first=imports_first
            )
            ours, theirs = turns.more(_FEWEST_PAIRS)
            while _is_open(plan, ours, theirs) and not turns.ended:
                ours, theirs = turns.once_more()
    except UncorkError as error:
        note = f"not confirmed in fresh processes: {error.received}"
        return replace(plan, notes=(note, *plan.notes)), False
    except KeyboardInterrupt:
        note = "interrupted: the speed-up is not confirmed in fresh processes"
        return replace(plan, notes=(note, *plan.notes)), True
    return _confirmed(plan, ours, theirs), turns.interrupted


def _jobs(plan: Plan, folder: Path) -> tuple[ConfirmJob, ConfirmJob]:
    """As the script is written, or as it can be run at all; and with the plan."""
    work = plan.before.workload
    base = ConfirmJob(
        training_index=work.index,
        is_fit_in_loop=work.is_fit_in_loop,
        has_validation=_validates(plan),
    )
    path = write_plan(plan, folder / "plan.json")
    with_plan = replace(base, plan_path=path, environment=plan.environment)
    if plan.steps_needed_for_memory:
        needed = replace(plan, steps=plan.steps_needed_for_memory)
        base = replace(base, plan_path=write_plan(needed, folder / "needed.json"))
    return base, with_plan


def _is_open(plan: Plan, ours: list[Confirmation], theirs: list[Confirmation]) -> bool:
    """Whether one more pair may tell what those so far do not."""
    if _trains_as_before(plan) or len(ours) == MAX_GROUP_SIZE:
        return False
    found = compare_groups(_speeds(ours), _speeds(theirs))
    if len(ours) == _FEWEST_PAIRS:
        return found.verdict == "not_proven" or (found.high or math.inf) > _WIDE * found.low
    return found.verdict == "not_proven" and found.ratio >= _WORTH_HAVING


class _InTurn:
    """Processes of both versions, A B B A and so on.

    Args:
        jobs: The script as written, and with the plan.
        base: What the former is called.
        script: To run.
        follow: Told of each of them.
        imports_first: The two of a pair import TensorFlow at the same time, and then wait for their
            turn.

    Attributes:
        interrupted: While more were run than are necessary.
        ended: No more can be run.
    """

    def __init__(
        self,
        jobs: tuple[ConfirmJob, ConfirmJob],
        base: str,
        script: Script,
        follow: EventHandler,
        *,
        imports_first: bool = False,
    ) -> None:
        self._jobs = jobs
        self._names = (base, "with the plan")
        self._script = script
        self._follow = follow
        # Variables of its own may change what a process imports.
        self._imports_first = imports_first and not any(job.environment for job in jobs)
        self.interrupted = self.ended = False
        self._begin_s = time.monotonic()
        self._found: tuple[list[Confirmation], list[Confirmation]] = ([], [])

    def more(self, pairs: int) -> tuple[list[Confirmation], list[Confirmation]]:
        """So many more of each; all that there are by then."""
        begun = sum(map(len, self._found))
        total = begun + 2 * pairs
        for first in range(begun, total, 2):
            with ExitStack() as ahead:
                numbers = range(first, first + 2)
                started = [self._started(number, ahead) for number in numbers]
                for waiting in filter(None, started):
                    waiting.wait_for_import()  # none disturbs what the other measures
                for number, worker in zip(numbers, started, strict=True):
                    self._measure(number, total, worker)
        return self._found

    def _started(self, number: int, ahead: ExitStack) -> WorkerProcess | None:
        """The process of this number, from 0, if it may be started ahead."""
        if not self._imports_first:
            return None
        job = self._jobs[_which(number)]
        return ahead.enter_context(WorkerProcess(job, self._script, quiet=True, imports_first=True))

    def _measure(self, number: int, total: int, worker: WorkerProcess | None) -> None:
        which = _which(number)
        known, job = self._found[which], self._jobs[which]
        job = replace(job, has_ceiling=not known)  # one process tells enough of it
        text = f"fresh process {number + 1}, {self._names[which]}"
        progress = self._progress(number, total)
        self._follow(Event(kind="phase", text=f"measuring in {text}", progress=progress))
        if known and (known[0].first_epoch_s or math.inf) > _LONG_S:
            job = replace(
                job,
                max_first_epoch_s=_LONG_S,
                is_full_cache_fill=known[0].first_epoch_s is not None,
            )
        known.append(_measured(job, self._script, worker))
        speed = known[-1].measurement.samples_per_s
        self._follow(Event(kind="measured", text=text, samples_per_s=speed, progress=progress))

    def _progress(self, number: int, total: int) -> WorkProgress:
        """Before the process of this number, from 0: the time left from what the others took."""
        before, after = (
            [statistics.geometric_mean(_speeds(runs))] if runs else [] for runs in self._found
        )
        taken_s = time.monotonic() - self._begin_s
        return WorkProgress(
            unit="process",
            step=number + 1,
            step_count=total,
            best_ratio=after[0] / before[0] if before and after else None,
            seconds_left=taken_s / number * (total - number) if number else None,
        )

    def once_more(self) -> tuple[list[Confirmation], list[Confirmation]]:
        """One more pair; only those that there are, if it fails, or is interrupted."""
        before = tuple(list(each) for each in self._found)
        try:
            with suppress(UncorkError):
                return self.more(1)
        except KeyboardInterrupt:
            self.interrupted = True
        self.ended = True
        return before[0], before[1]


def _which(number: int) -> int:
    """Version of the process of this number: A B B A and so on."""
    return (0, 1, 1, 0)[number % 4]


def _measured(job: ConfirmJob, script: Script, worker: WorkerProcess | None = None) -> Confirmation:
    found = run_quiet_worker(job, script, worker).confirmation
    assert found is not None
    return found


def _seen_to_train(plan: Plan, found: Confirmation) -> Plan:
    """Nothing is in force but what the training needs: there is nothing to compare it with."""
    speedup = replace(plan.speedup, n_processes=1)
    measured = found.measurement
    return replace(
        plan, baseline=measured, tuned=measured, speedup=speedup, ceiling_share=found.ceiling_share
    )


def _confirmed(plan: Plan, ours: list[Confirmation], theirs: list[Confirmation]) -> Plan:
    found = compare_groups(_speeds(ours), _speeds(theirs))
    if _trains_as_before(plan):  # what differs is noise
        found = replace(found, verdict="not_proven")
    if found.verdict == "slower":
        return withdraw_plan(plan, found, combine_measurements([c.measurement for c in ours]))
    validation = _validation(plan, ours, theirs)
    if validation and validation.speedup.verdict == "slower":
        span = _span(validation.speedup)
        if all(step.is_secondary for step in plan.accepted_steps):
            return withdraw_plan(
                plan, validation.speedup, combine_measurements([c.measurement for c in ours])
            )
        steps = tuple(_rejected(s, span) if s.is_for_validation else s for s in plan.steps)
        note = f"withdrawn: in fresh processes the validation is slower, {span}"
        plan, validation = replace(plan, steps=steps, notes=(note, *plan.notes)), None
        theirs = [
            replace(tuned, validation_s=as_written.validation_s)
            for tuned, as_written in zip(theirs, ours, strict=True)
        ]
    return replace(
        plan,
        baseline=combine_measurements([c.measurement for c in ours]),
        tuned=combine_measurements([c.measurement for c in theirs]),
        speedup=_speedup(found, len(ours) + len(theirs)),
        ceiling_share=_median([c.ceiling_share for c in theirs if c.ceiling_share is not None]),
        time_to_finish=_time_to_finish(plan, ours, theirs),
        validation_times=validation,
    )


def _trains_as_before(plan: Plan) -> bool:
    return all(
        step.is_secondary
        for step in plan.accepted_steps
        if step not in plan.steps_needed_for_memory
    )


def _speedup(found: Comparison, processes: int) -> Speedup:
    return Speedup(
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        verdict=found.verdict,
        n_processes=processes,
    )


def _validation(
    plan: Plan, ours: list[Confirmation], theirs: list[Confirmation]
) -> ValidationTimes | None:
    """Where the plan edits its input: of all else the training's own figures tell."""
    before, after = (_validation_s(runs) for runs in (ours, theirs))
    if not (plan.validation_edits and before and after):
        return None
    found = compare_groups([1 / s for s in before], [1 / s for s in after])
    return ValidationTimes(
        baseline_s=statistics.median(before),
        tuned_s=statistics.median(after),
        speedup=_speedup(found, len(before) + len(after)),
    )


def _validation_s(runs: list[Confirmation]) -> list[float]:
    """Seconds of one, of each process; empty where one of them could not tell."""
    found = [run.validation_s for run in runs if run.validation_s]
    return found if len(found) == len(runs) else []


def withdraw_plan(
    plan: Plan, comparison: Comparison | Speedup, baseline: Measurement, location: str = _FRESH
) -> Plan:
    """The same with nothing in force.

    Args:
        plan: Of which it turned out that it is slower.
        comparison: By how much.
        baseline: The training as written, when they were compared.
        location: They were, in words.
    """
    span = _span(comparison)
    return replace(
        plan,
        after=None,
        baseline=baseline,
        tuned=baseline,
        steps=tuple(
            s if s in plan.steps_needed_for_memory else _rejected(s, span, location)
            for s in plan.steps
        ),
        notes=(f"withdrawn: {location} the plan is slower, {span}", *plan.notes),
    )


def _span(found: Comparison | Speedup) -> str:
    return f"{found.ratio:.2f}x [{found.low:.2f}, {found.high:.2f}]"


def _rejected(step: PlanStep, span: str, where: str = _FRESH) -> PlanStep:
    if step.outcome != "kept":
        return step
    reason = f"faster in the trial; {where} all accepted optimizations reach {span}"
    return replace(step, outcome="rejected", reason=reason, edits=(), samples_per_s=None)


def combine_measurements(runs: Sequence[Measurement]) -> Measurement:
    """One measurement from several processes: the interval is between processes, not within.

    Speed and step are geometric means, as the speed-up is: the speed with the plan is that of the
    baseline times the speed-up. Medians of a few processes each would give another ratio.
    """
    step_s = spread([r.step_s.median for r in runs])
    mean_s = statistics.geometric_mean(r.step_s.median for r in runs)
    return Measurement(
        samples_per_s=statistics.geometric_mean(r.samples_per_s for r in runs),
        step_s=replace(step_s, median=mean_s, low=min(step_s.low, mean_s)),
        cpu_s_per_step=statistics.median(r.cpu_s_per_step for r in runs),
        warmup_s=statistics.median(r.warmup_s for r in runs),
        block_samples_per_s=tuple(r.samples_per_s for r in runs),
    )


def _time_to_finish(
    plan: Plan, ours: list[Confirmation], theirs: list[Confirmation]
) -> TimeToFinish | None:
    workload = plan.before.workload
    if workload.steps_per_epoch is None or workload.kind != "fit" or workload.is_fit_in_loop:
        return None
    steps, later = workload.steps_per_epoch, max(0, workload.epochs - 1)
    baseline_s = _whole_s(ours, steps, later)
    theirs_steps = -(-steps // plan.batch_multiplier)
    tuned_s = _whole_s(theirs, theirs_steps, later)
    if any(isinstance(edit, _KEEPING) for edit in plan.edits) and _first_s(theirs) is None:
        # An epoch that fills a cache is no faster for it.
        first_s = _first_s(ours) or steps * _step_s(ours)
        filling_s = _median([c.cache_fill_s for c in theirs if c.cache_fill_s is not None])
        tuned_s = max(filling_s or first_s, theirs_steps * _step_s(theirs))
        tuned_s += later * theirs_steps * _step_s(theirs)
    times = _validations(plan)
    before, after = (_median(_validation_s(runs)) for runs in (ours, theirs))
    if times and before and after:
        baseline_s += times * before
        # The first one fills what the plan keeps.
        keeps = any(isinstance(edit, Cache) for edit in plan.validation_edits)
        tuned_s += (before if keeps else after) + (times - 1) * after
    both = all(any(c.first_epoch_s for c in runs) for runs in (ours, theirs))
    measured_whole = both and later == 0 and not times
    return TimeToFinish(baseline_s=baseline_s, tuned_s=tuned_s, is_extrapolated=not measured_whole)


def _validates(plan: Plan) -> bool:
    """Its validations are worth timing: the plan edits them, or they take part of an epoch."""
    epoch_s, validating_s = epoch_and_validation_s(plan.before)
    return bool(plan.validation_edits) or validating_s > _WORTH_TIMING * (epoch_s + validating_s)


def _validations(plan: Plan) -> int:
    """How many of them the training makes."""
    return plan.before.validation.validation_count if plan.before.validation else 0


def _whole_s(runs: list[Confirmation], steps: int, later_epochs: int) -> float:
    """First epoch as measured where it was run whole, later ones at the steady speed."""
    return (_first_s(runs) or steps * _step_s(runs)) + later_epochs * steps * _step_s(runs)


def _step_s(runs: list[Confirmation]) -> float:
    return statistics.median(c.measurement.step_s.median for c in runs)


def _first_s(runs: list[Confirmation]) -> float | None:
    """Seconds of a first epoch that was run whole; None where none was."""
    return _median([c.first_epoch_s for c in runs if c.first_epoch_s is not None])


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


def _speeds(runs: list[Confirmation]) -> list[float]:
    return [c.measurement.samples_per_s for c in runs]
