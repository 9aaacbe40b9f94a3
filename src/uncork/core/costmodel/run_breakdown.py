"""Where the time of a whole run goes: every second of it has a name, or is called unexplained.

What was measured of one step, one validation, one save is counted as often as the run has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from uncork.core.base.record import Record, replace
from uncork.core.costmodel.compile_time import estimate_compile_time
from uncork.core.documents.diagnosis import MIN_PART_SHARE, WorkloadDiagnosis
from uncork.core.evidence.callbacks import CallbackCost

Group = Literal[
    "setup", "compile", "input", "host", "step", "callbacks", "validation", "saving", "unexplained"
]
# In the order in which a report shows them.
GROUPS: Final[tuple[Group, ...]] = (
    "setup", "compile", "input", "host", "step", "callbacks", "validation", "saving", "unexplained",
)  # fmt: skip
Scope = Literal["the whole run", "an epoch", "a step"]
# Ratio of the whole run to what it takes at its ceiling: up to here a training is healthy.
NEAR_CEILING: Final = 1.1
# Seconds of what comes once in a run. Nobody mends a second of a training, however short that is.
_NOTICED_S: Final = 1.0
# Of a step: sums of floats.
_ROUNDING: Final = 1e-9
# Times as long as the input needs by itself: beyond that, a wait is not explained by it.
_CONTRADICTION: Final = 2.0


class RunPart(Record, frozen=True, kw_only=True):
    """One row of the breakdown.

    Attributes:
        group: What kind of time it is.
        name: What it is within its group; ``""`` where the group says all.
        seconds: In the whole of what :attr:`RunBreakdown.scope` says.
        least_s: Of these, what the same training takes at its ceiling.
        at: ``file.py:line``; None where no line is known.
        count: How often it comes; 0 where that says nothing.
        is_in_steps: It is in the measured time of a step, and not beside it.
    """

    group: Group
    name: str = ""
    seconds: float
    least_s: float = 0.0
    at: str | None = None
    count: int = 0
    is_in_steps: bool = False


class RunBreakdown(Record, frozen=True, kw_only=True):
    """Parts whose seconds add up to the whole.

    Attributes:
        scope: What is broken down: the whole run; one epoch, where nobody knows how many there are;
            one step, where nobody knows how long an epoch is.
        parts: In the order of :data:`GROUPS`.
    """

    scope: Scope
    parts: tuple[RunPart, ...]

    @property
    def seconds(self) -> float:
        """Of all parts."""
        return sum(part.seconds for part in self.parts)

    def share(self, part: RunPart) -> float:
        """Of the whole, 0 to 1."""
        return part.seconds / self.seconds if self.seconds > 0 else 0.0

    def group_s(self, group: Group) -> float:
        """Seconds of all parts of a group."""
        return sum(part.seconds for part in self.parts if part.group == group)

    def avoidable_s(self, group: Group) -> float:
        """Seconds of a group that a finding may be about.

        All of them; of set-up and compiling, which come in any run, what goes beyond the least. The
        step itself is the work, not a loss.
        """
        found = [part for part in self.parts if part.group == group]
        least_s = sum(part.least_s for part in found) if group in ("setup", "compile") else 0.0
        return 0.0 if group == "step" else max(0.0, self.group_s(group) - least_s)

    @property
    def unexplained_share(self) -> float:
        """Part of the whole without a name, 0 to 1."""
        return self.group_s("unexplained") / self.seconds if self.seconds > 0 else 0.0

    @property
    def headroom(self) -> float:
        """The whole over what it takes at its ceiling, at least 1; noise counts as neither."""
        least_s = sum(
            part.seconds if part.group == "unexplained" else part.least_s for part in self.parts
        )
        return max(1.0, self.seconds / least_s) if least_s > 0 else 1.0


def break_down_run(diagnosis: WorkloadDiagnosis) -> RunBreakdown:
    """Break down the whole run; or an epoch or a step, where nobody knows how long the run is.

    Args:
        diagnosis: Of the training.
    """
    scope = _scope(diagnosis)
    found = [part for part in _parts(diagnosis, scope) if part.seconds > 0]
    found.sort(key=lambda part: GROUPS.index(part.group))
    return RunBreakdown(scope=scope, parts=tuple(found))


def is_near_ceiling(diagnosis: WorkloadDiagnosis) -> bool:
    """The whole run is within 10 % of what it takes at its ceiling, as far as noise lets one see.

    Args:
        diagnosis: Of the training.
    """
    run = break_down_run(diagnosis)
    hidden = diagnosis.is_inconclusive or run.unexplained_share > MIN_PART_SHARE
    return not hidden and run.headroom <= NEAR_CEILING


def step_count(diagnosis: WorkloadDiagnosis, scope: Scope) -> int:
    """Steps in it."""
    work = diagnosis.workload
    return 1 if scope == "a step" else (work.steps_per_epoch or 1) * epoch_count(diagnosis, scope)


def epoch_count(diagnosis: WorkloadDiagnosis, scope: Scope) -> int:
    """Epochs in it; of a step, none."""
    if scope == "a step":
        return 0
    return diagnosis.workload.epochs if scope == "the whole run" else 1


def unexplained_wait_s(diagnosis: WorkloadDiagnosis) -> float:
    """Seconds of a step that wait for an input which by itself is much faster.

    The input may be slower beside the step than alone, and slow the step down; not by more than
    its own time.
    """
    supply = diagnosis.ceilings.get("supply", 0.0)
    if supply <= 0:
        return 0.0
    waited_s = diagnosis.breakdown.get("input", 0.0) * diagnosis.step_s
    between_s = (diagnosis.measurement.between_epochs_share or 0.0) * diagnosis.step_s
    explained_s = waited_s - _retraced_s(diagnosis).get("input", 0.0) - between_s
    own_s = diagnosis.measurement.samples_per_s * diagnosis.step_s / supply
    return explained_s - own_s if explained_s > _CONTRADICTION * own_s else 0.0


def _scope(diagnosis: WorkloadDiagnosis) -> Scope:
    work = diagnosis.workload
    if not work.steps_per_epoch or work.epochs < 1 or work.is_fit_in_loop:
        return "a step"
    return "an epoch" if work.is_epoch_count_assumed else "the whole run"


def _parts(diagnosis: WorkloadDiagnosis, scope: Scope) -> Iterator[RunPart]:
    if scope == "the whole run":
        yield from _once(diagnosis)
    yield from _compiling(diagnosis, scope)
    for part in _of_steps(diagnosis, step_count(diagnosis, scope), scope):
        is_start = part.name == "start" and not _is_start_in_steps(diagnosis)
        yield replace(part, is_in_steps=not is_start)
    yield from _growth(diagnosis, step_count(diagnosis, scope))
    yield from _callbacks(diagnosis, scope)
    if scope != "a step":
        yield from _after_epochs(diagnosis, scope)


def _once(diagnosis: WorkloadDiagnosis) -> Iterator[RunPart]:
    """What comes before the steps."""
    left_s = _NOTICED_S
    for line in diagnosis.startup_lines:
        imports = line.kind == "imports"
        least_s = line.seconds if imports else min(line.seconds, left_s)
        left_s -= 0.0 if imports else least_s
        name = "" if line.kind == "line" else line.kind
        yield RunPart(group="setup", name=name, seconds=line.seconds, least_s=least_s, at=line.at)
    first_s = diagnosis.first_step_s
    least_s = min(first_s, _NOTICED_S)
    yield RunPart(group="compile", name="first step", seconds=first_s, least_s=least_s)


def _compiling(diagnosis: WorkloadDiagnosis, scope: Scope) -> Iterator[RunPart]:
    """What is traced or compiled again, beyond the first step."""
    work, steps = diagnosis.workload, step_count(diagnosis, scope)
    anew = estimate_compile_time(diagnosis) if scope == "the whole run" else None
    shapes = diagnosis.varying_shapes
    seconds = diagnosis.breakdown.get("compile", 0.0) * diagnosis.step_s * steps
    count = round(shapes.expected_shape_count) if shapes is not None else 0
    if anew is not None:
        seconds = anew.expected_compile_s
    yield RunPart(
        group="compile",
        name="new shapes",
        seconds=seconds,
        at=work.step_setup_at,
        count=count,
        is_in_steps=diagnosis.breakdown.get("compile", 0.0) > 0,
    )
    again_s = steps * sum(_retraced_s(diagnosis).values())
    yield RunPart(group="compile", name="again", seconds=again_s, at=work.at, is_in_steps=True)
    made, epochs = diagnosis.recreated_function, epoch_count(diagnosis, scope)
    if made is not None:
        seconds = epochs * max(0.0, made.first_call_extra_s)
        name = "a new function each epoch"
        yield RunPart(group="compile", name=name, seconds=seconds, at=made.at, count=epochs)


def _retraced_s(diagnosis: WorkloadDiagnosis) -> dict[str, float]:
    """Seconds of a step in which functions are traced anew, by the share that they stand in.

    A loop's own step is traced on its resident batch as well; Keras's is not.
    """
    left = min(1.0, diagnosis.retracing_share)
    in_step = diagnosis.step_s_without_tracing is not None
    order = ("step", "host", "input") if in_step else ("input", "host", "step")
    found = {}
    for name in order:
        found[name] = min(left, diagnosis.breakdown.get(name, 0.0))
        left -= found[name]
    return {name: share * diagnosis.step_s for name, share in found.items()}


def _of_steps(diagnosis: WorkloadDiagnosis, steps: int, scope: Scope) -> Iterator[RunPart]:
    """The shares of a step, without what is traced or compiled in it."""
    again = _retraced_s(diagnosis)
    step_s = diagnosis.step_s
    taken = {
        name: steps * max(0.0, diagnosis.breakdown.get(name, 0.0) * step_s - again.get(name, 0.0))
        for name in ("input", "host", "step", "unknown")
    }
    noise_s = _host_noise(diagnosis) * taken["host"]
    taken["host"] -= noise_s
    taken["unknown"] += noise_s
    missing = 1.0 - sum(diagnosis.breakdown.values())
    missing = missing if missing > _ROUNDING else 0.0
    odd_s = min(taken["input"], steps * unexplained_wait_s(diagnosis))
    yield from _input(diagnosis, taken["input"] - odd_s, steps * step_s, scope)
    work = diagnosis.workload
    between = "between fits" if work.is_fit_in_loop else ""
    yield RunPart(group="host", name=between, seconds=taken["host"], at=work.at)
    if work.kind == "custom_loop":  # whose lines beside the step are in what it waits
        yield RunPart(group="host", name="outside the step", seconds=odd_s, at=work.at)
        odd_s = 0.0
    yield from _phases(diagnosis, taken["step"], steps)
    yield RunPart(group="unexplained", name="within noise", seconds=taken["unknown"])
    yield RunPart(group="unexplained", name="not measured", seconds=missing * steps * step_s)
    yield RunPart(group="unexplained", name="waiting, not for input", seconds=odd_s)


def _host_noise(diagnosis: WorkloadDiagnosis) -> float:
    """Part of what Python seems to take between steps that may be noise, 0 to 1.

    Some time passes between any two steps. So little is told of it as is certain, where that alone
    would not be worth a finding.
    """
    found = diagnosis.breakdown_intervals.get("host")
    if found is None or found.median <= 0 or found.low >= 1 - 1 / NEAR_CEILING:
        return 0.0
    return 1.0 - max(0.0, found.low) / found.median


def _input(
    diagnosis: WorkloadDiagnosis, waited_s: float, steps_s: float, scope: Scope
) -> Iterator[RunPart]:
    """Starting anew, ending an epoch, and waiting for batches."""
    kept, epochs = diagnosis.recorded_batches, epoch_count(diagnosis, scope)
    start_s = epochs * kept.start_s if kept else 0.0
    if _is_start_in_steps(diagnosis):
        start_s = min(waited_s, start_s)
        waited_s -= start_s
    between_s = min(waited_s, steps_s * (diagnosis.measurement.between_epochs_share or 0.0))
    at = slowest_stage_at(diagnosis)
    yield RunPart(group="input", name="start", seconds=start_s, at=at, count=epochs)
    yield RunPart(group="input", name="between epochs", seconds=between_s, at=diagnosis.workload.at)
    yield RunPart(group="input", seconds=waited_s - between_s, at=at)


def _is_start_in_steps(diagnosis: WorkloadDiagnosis) -> bool:
    kept = diagnosis.recorded_batches
    return kept is not None and kept.is_start_in_steps


def _growth(diagnosis: WorkloadDiagnosis, steps: int) -> Iterator[RunPart]:
    """Steps that become longer; they were measured at their beginning."""
    grows = diagnosis.state_growth
    if grows is not None:
        seconds = max(0.0, grows.added_s_per_step) * steps * steps / 2
        yield RunPart(group="host", name=grows.name, seconds=seconds, at=grows.at)


def _phases(diagnosis: WorkloadDiagnosis, seconds: float, steps: int) -> Iterator[RunPart]:
    """The step itself, by the phases of its kernels where these are known."""
    phases: dict[str, float] = {}
    for kernel in diagnosis.kernels:
        phases[kernel.phase] = phases.get(kernel.phase, 0.0) + kernel.share
    rest = 1.0 - sum(phases.values())
    phases[""] = max(0.0, rest)
    whole = sum(phases.values())
    for phase, share in phases.items():
        part_s = seconds * share / whole
        yield RunPart(
            group="step",
            name=phase,
            seconds=part_s,
            least_s=part_s,
            at=diagnosis.workload.at,
            count=steps,
        )


def _callbacks(diagnosis: WorkloadDiagnosis, scope: Scope) -> Iterator[RunPart]:
    saving = diagnosis.checkpoint_cost
    saved = saving.name.split(" and ") if saving and scope != "a step" else []
    for cost in diagnosis.callbacks:
        if not (cost.action_s and cost.name in saved):  # its saves are told as such
            yield from _of_callback(diagnosis, cost, scope)


def _of_callback(
    diagnosis: WorkloadDiagnosis, cost: CallbackCost, scope: Scope
) -> Iterator[RunPart]:
    steps, epochs = step_count(diagnosis, scope), epoch_count(diagnosis, scope)
    name = cost.name or "a callback"
    yield RunPart(
        group="callbacks",
        name=f"{name}, each batch",
        seconds=steps * max(0.0, cost.batch_s),
        at=cost.at,
        count=steps,
    )
    yield RunPart(
        group="callbacks",
        name=f"{name}, each epoch",
        seconds=epochs * max(0.0, cost.epoch_s),
        at=cost.epoch_hook_at,
        count=epochs,
    )


def _after_epochs(diagnosis: WorkloadDiagnosis, scope: Scope) -> Iterator[RunPart]:
    """Validations and saves."""
    found, saving = diagnosis.validation, diagnosis.checkpoint_cost
    consumer = diagnosis.ceilings.get("consumer", 0.0)
    if found is not None:
        whole = scope == "the whole run"
        times = found.validation_count if whole else 1 / found.every_epochs
        least_s = found.sample_count / consumer if consumer > 0 else found.validation_s
        yield RunPart(
            group="validation",
            seconds=times * found.validation_s,
            least_s=times * min(found.validation_s, least_s),
            at=found.at,
            count=found.validation_count if whole else 0,
        )
    if saving is not None:
        times = step_count(diagnosis, scope) / saving.every_steps
        times = int(times) if scope == "the whole run" else times
        yield RunPart(
            group="saving",
            name=f"{'at most ' * saving.is_save_best_only}{saving.name}",
            seconds=times * saving.save_s,
            at=saving.at,
            count=int(times),
        )


def slowest_stage_at(diagnosis: WorkloadDiagnosis) -> str | None:
    """``file.py:line`` of the stage that takes most time of a step; None where none is known."""
    known = [s for s in diagnosis.stages if s.at and s.cpu_s_per_step]
    return max(known, key=lambda s: s.cpu_s_per_step or 0.0).at if known else None
