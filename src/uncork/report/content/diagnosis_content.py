"""What a report says about a diagnosis, as numbers and sentences; drawing comes later.

Everything here is a pure function from saved records to small view records. Tests assert on
these; the terminal and the HTML page only lay them out.
"""

from __future__ import annotations

from typing import Final, Literal

from uncork.core.base.machine import Machine
from uncork.core.base.measurement import Measurement
from uncork.core.base.record import Record
from uncork.core.costmodel.run_breakdown import is_near_ceiling
from uncork.core.documents.diagnosis import Diagnosis, Finding, Overhead, WorkloadDiagnosis
from uncork.core.documents.workload import Workload
from uncork.core.evidence.loop import LoopLine
from uncork.report.content.command_line import command_line, training_option
from uncork.report.content.figures import (
    finite_or_none,
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    format_ratio,
    format_ratio_interval,
)
from uncork.report.content.kernel_rows import KernelRow, kernel_rows
from uncork.report.content.run_time import RunPart, no_cause_text, run_parts, run_title
from uncork.report.content.stage_rows import StageRow, stage_rows

# Below this, the distance to the ceiling is within what two measurements differ by anyway.
MIN_HEADROOM_SHOWN: Final = 1.1

HEALTHY_TEXT: Final = "healthy: nothing worth doing"

PART_LABELS: Final = {
    "input": "input wait",
    "host": "Python",
    "step": "training step",
    "compile": "compiling",
    "unknown": "unexplained",
}
LOOP_WORK_LABELS: Final = {
    "metrics": "Keras's metrics",
    "evaluation": "an evaluation",
    "function": "a function",
    "graph": "a compiled function",
    "plain": "Python",
}
CEILING_LABELS: Final = {
    "consumer": "training step alone",
    "supply": "input pipeline alone",
    "host": "processor alone",
    "serial": "busiest thread alone",
    "decode": "decoding alone",
    "storage": "reading alone",
    "disk": "reading from the disk",
}

Tone = Literal["healthy", "bottleneck", "unknown"]


class VerdictText(Record, frozen=True, kw_only=True):
    """One sentence, a second one that names the cause, and the tone to say them in."""

    sentence: str
    cause: str
    tone: Tone

    @property
    def text(self) -> str:
        """Both sentences."""
        return f"{self.sentence} {self.cause}".strip()


class StepPart(Record, frozen=True, kw_only=True):
    """One category of a step's time."""

    key: str
    label: str
    share: float
    seconds: float


class StepTime(Record, frozen=True, kw_only=True):
    """One training step, cut into its parts, with the 95 % interval of its length."""

    title: str
    seconds: float | None
    interval: str
    parts: tuple[StepPart, ...]


class CeilingRow(Record, frozen=True, kw_only=True):
    """How fast one part of the training could go alone."""

    name: str
    label: str
    samples_per_s: float | None


class WorkloadInfo(Record, frozen=True, kw_only=True):
    """Everything a report says about one training call.

    Attributes:
        run_title: What the following is of.
        run_parts: The whole run, or an epoch where nobody knows how many there are.
        is_step_bottleneck: The pipeline is known to keep up with the training step.
        healthy_reason: Why it is healthy, ``""`` if it is not.
    """

    at: str
    description: str
    verdict: VerdictText
    samples_per_s: float | None
    headroom: float | None
    noise_text: str
    warmup_text: str
    ceilings: tuple[CeilingRow, ...]
    step_time: StepTime
    stages: tuple[StageRow, ...]
    kernels: tuple[KernelRow, ...]
    loop_lines: tuple[LoopLine, ...]
    run_title: str
    run_parts: tuple[RunPart, ...]
    is_step_bottleneck: bool
    findings: tuple[Finding, ...]
    healthy_reason: str
    notes: tuple[str, ...]


class DiagnosisInfo(Record, frozen=True, kw_only=True):
    """Everything a report says about a diagnosis.

    Attributes:
        undiagnosed_at: Training calls that were reached but not diagnosed, as ``file.py:line``.
        next_command: What to type next.
    """

    script: str
    workloads: tuple[WorkloadInfo, ...]
    undiagnosed_at: tuple[str, ...]
    machine: tuple[tuple[str, str], ...]
    overhead: str
    next_command: str


def diagnosis_info(diagnosis: Diagnosis) -> DiagnosisInfo:
    """All figures of a diagnosis."""
    shown = {each.workload.index for each in diagnosis.workloads}
    return DiagnosisInfo(
        script=diagnosis.script,
        workloads=tuple(workload_info(each, diagnosis.machine) for each in diagnosis.workloads),
        undiagnosed_at=tuple(
            each.at for each in diagnosis.reached_workloads if each.index not in shown
        ),
        machine=machine_rows(diagnosis.machine),
        overhead=overhead_sentence(diagnosis.overhead),
        next_command=next_command(diagnosis),
    )


def workload_info(diagnosis: WorkloadDiagnosis, machine: Machine) -> WorkloadInfo:
    """All figures of one training call."""
    stages = stage_rows(diagnosis, machine)
    return WorkloadInfo(
        at=diagnosis.workload.at,
        description=describe_workload(diagnosis.workload),
        verdict=verdict(diagnosis),
        samples_per_s=finite_or_none(diagnosis.measurement.samples_per_s),
        headroom=finite_or_none(diagnosis.headroom),
        noise_text=noise_sentence(diagnosis.measurement),
        warmup_text=format_duration(diagnosis.measurement.warmup_s),
        ceilings=ceilings(diagnosis),
        step_time=step_time(diagnosis, "one step"),
        stages=stages,
        kernels=kernel_rows(diagnosis),
        loop_lines=diagnosis.loop_lines,
        run_title=run_title(diagnosis),
        run_parts=run_parts(diagnosis),
        is_step_bottleneck=_step_sets_pace(diagnosis, stages),
        findings=tuple(each for each in diagnosis.findings if each.cause != "healthy"),
        healthy_reason=next((f.evidence for f in diagnosis.findings if f.cause == "healthy"), ""),
        notes=diagnosis.notes,
    )


def verdict(diagnosis: WorkloadDiagnosis) -> VerdictText:
    """How fast, how fast it could be, and what holds it back.

    Without a finding and with a known distance to the ceiling the cause is *unknown*: a probe that
    saw nothing is no proof of health.
    """
    at, measured = diagnosis.workload.at, diagnosis.measurement.samples_per_s
    ceiling, headroom = (
        finite_or_none(diagnosis.ceilings.get("consumer")),
        finite_or_none(diagnosis.headroom),
    )
    trains = f"{at} trains {format_count(measured)} samples/s"
    bottleneck, warning = main_bottleneck(diagnosis), _correctness_warning(diagnosis)
    if ceiling is None or headroom is None:
        sentence = f"{trains}; how fast this machine could train is unknown."
    elif headroom < MIN_HEADROOM_SHOWN:
        sentence = (
            f"{trains}, {format_percent(1 / max(headroom, 1.0))} of what its training step allows."
        )
    else:
        sentence = (
            f"{trains}; this machine could train {format_count(ceiling)} "
            f"({format_ratio(headroom)})."
        )
    if bottleneck is not None:
        return VerdictText(
            sentence=sentence,
            cause=f"Bottleneck: {_named(bottleneck)}.{warning}",
            tone="bottleneck",
        )
    if diagnosis.is_inconclusive:
        cause = f"Noise hides the bottlenecks. Try a longer --budget.{warning}"
        return VerdictText(sentence=sentence, cause=cause, tone="unknown")
    if is_near_ceiling(diagnosis):
        return VerdictText(
            sentence=sentence, cause=f"{HEALTHY_TEXT.capitalize()}.{warning}", tone="healthy"
        )
    return VerdictText(
        sentence=sentence, cause=f"{no_cause_text(diagnosis)}{warning}", tone="unknown"
    )


def main_bottleneck(diagnosis: WorkloadDiagnosis) -> Finding | None:
    """The finding that costs most of the whole run, if any.

    What hides an accelerator comes before all of them: nobody can tell how much that costs.
    """
    costly = [f for f in diagnosis.findings if f.severity != "correctness" and f.cause != "healthy"]
    return max(costly, key=_weight, default=None)


def cost_text(finding: Finding) -> str:
    """What a finding costs, in words, as far as that is known.

    Example:
        >>> found = Finding(
        ...     cause="slow_start",
        ...     share=0.88,
        ...     upper_bound=8.7,
        ...     at=None,
        ...     evidence="",
        ...     remedy="",
        ...     share_of="the whole run",
        ... )
        >>> cost_text(found)
        '88 % of the whole run, up to 8.7x'
    """
    if finding.severity == "correctness":
        return "makes the training wrong"
    if _is_untold(finding):
        return "its cost is unknown"
    gain = format_ratio_interval(finding.upper_bound, finding.upper_bound_interval)
    shared = f", the same time as {finding.same_time_as}" if finding.same_time_as else ""
    return f"{format_percent(finding.share)} of {finding.share_of}, up to {gain}{shared}"


def _weight(finding: Finding) -> tuple[bool, float]:
    return _is_untold(finding), finite_or_none(finding.run_gain) or 0.0


def _is_untold(finding: Finding) -> bool:
    return finding.severity == "environment" and finding.upper_bound <= 1


def ceilings(diagnosis: WorkloadDiagnosis) -> tuple[CeilingRow, ...]:
    """The ceilings, lowest first, unknown ones last."""
    rows = [
        CeilingRow(
            name=name, label=CEILING_LABELS.get(name, name), samples_per_s=finite_or_none(value)
        )
        for name, value in diagnosis.ceilings.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.samples_per_s is None, row.samples_per_s or 0)))


def step_time(diagnosis: WorkloadDiagnosis, title: str, runs: str = "blocks") -> StepTime:
    """One step's time by category, in a fixed order, categories without a share left out."""
    seconds = finite_or_none(diagnosis.measurement.step_s.median)
    order = [*PART_LABELS, *(key for key in diagnosis.breakdown if key not in PART_LABELS)]
    shares = {key: finite_or_none(diagnosis.breakdown.get(key)) or 0.0 for key in order}
    return StepTime(
        title=title,
        seconds=seconds,
        interval=interval_sentence(diagnosis.measurement, runs),
        parts=tuple(
            StepPart(
                key=key if key in PART_LABELS else "unknown",
                label=PART_LABELS.get(key, key),
                share=share,
                seconds=share * (seconds or 0.0),
            )
            for key, share in shares.items()
            if share > 0
        ),
    )


def describe_workload(workload: Workload) -> str:
    """What is trained, in one line."""
    model = workload.model
    parts = [
        f"{model.name} with {format_count(model.parameter_count)} parameters"
        if model
        else "a custom loop",
        f"on {workload.data_kind}",
        f"batch {workload.batch_size}" if workload.batch_size else "batch size unknown",
        " and ".join(model.dtype_policies) if model else "",
        f"{workload.epochs} epoch{'s' if workload.epochs != 1 else ''}",
    ]
    return ", ".join(part for part in parts if part)


def machine_rows(machine: Machine) -> tuple[tuple[str, str], ...]:
    """What the figures were measured on, as label and value."""
    return (
        ("Processor", machine.cpu_model or "unknown"),
        ("Cores", f"{machine.cpus:g}"),
        ("Memory", format_bytes(machine.memory_bytes)),
        ("Accelerators", ", ".join(machine.devices) or "none"),
        ("TensorFlow", machine.tensorflow or "unknown"),
        ("Keras", machine.keras or "unknown"),
        ("Python", machine.python or "unknown"),
    )


def overhead_sentence(overhead: Overhead) -> str:
    """What looking cost."""
    return (
        f"The diagnosis took {format_percent(overhead.step_share)} of a measured step and "
        f"{format_duration(overhead.total_s)} in all."
    )


def interval_sentence(measurement: Measurement, runs: str = "blocks") -> str:
    """The 95 % interval of the step time over these runs (a plural), or why there is none."""
    step = measurement.step_s
    if step.n < 2 or finite_or_none(step.low) is None or finite_or_none(step.high) is None:
        return f"no interval: {step.n} {runs if step.n != 1 else runs[:-1]} measured"
    return f"{format_duration(step.low)} to {format_duration(step.high)}, {step.n} {runs}"


def noise_sentence(measurement: Measurement) -> str:
    """How far the step time may be off, as a share of it."""
    step = measurement.step_s
    low, high, middle = (
        finite_or_none(step.low),
        finite_or_none(step.high),
        finite_or_none(step.median),
    )
    if step.n < 2 or low is None or high is None or not middle:
        return "noise unknown"
    return f"within {(high - low) / 2 / middle * 100:.1f} %"


def next_command(diagnosis: Diagnosis) -> str:
    """What to type next: look at the environment, tune, or just train."""
    bottlenecks = [(each.workload, main_bottleneck(each)) for each in diagnosis.workloads]
    known = [(workload, finding) for workload, finding in bottlenecks if finding is not None]
    if not diagnosis.script:  # it was asked for from Python
        return "plan = uncork.tune(model, data)" if known else "model.fit(data)"
    words = ["python"]
    if known:
        workload, bottleneck = max(known, key=lambda pair: _weight(pair[1]))
        words = ["uncork", "tune", *training_option(workload)]
        if bottleneck.severity == "environment":
            words = ["uncork", "diagnose"]  # once that is mended
    return command_line([*words, *diagnosis.script_words], diagnosis.working_folder)


def _named(finding: Finding) -> str:
    return finding.cause + (f" at {finding.at}" if finding.at else "")


def _correctness_warning(diagnosis: WorkloadDiagnosis) -> str:
    """Speed, good or bad, does not hide that the training is spoilt."""
    causes = [_named(f) for f in diagnosis.findings if f.severity == "correctness"]
    return f" But this makes the training wrong: {', '.join(causes)}." if causes else ""


def _step_sets_pace(diagnosis: WorkloadDiagnosis, stages: tuple[StageRow, ...]) -> bool:
    return (
        finite_or_none(diagnosis.ceilings.get("consumer")) is not None
        and any(row.samples_per_s is not None for row in stages)
        and not any(row.is_bottleneck for row in stages)
    )
