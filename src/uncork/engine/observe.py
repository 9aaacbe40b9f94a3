"""Measure one training call: steady state, ceilings, shares, stages. Rules judge it afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.journal import Journal
from uncork.core.machine import Machine
from uncork.core.measurement import Measurement
from uncork.core.record import replace
from uncork.core.stage import Stage
from uncork.engine.subject import Subject, Version, VersionRunner
from uncork.measure import available_memory, summarize
from uncork.measure.devices import native_bfloat16
from uncork.pipeline import measure as measure_stages
from uncork.pipeline import supply
from uncork.rules import judge

_BLOCKS: Final = 3


@dataclass(frozen=True)
class _Seconds:
    """How long to look at each part.

    Attributes:
        block: Long enough for dozens of steps of a small model and a few of a large one.
        supply: The input alone.
        stages: All stages together.
    """

    block: float
    supply: float
    stages: float


_CAREFUL: Final = _Seconds(block=1.0, supply=1.5, stages=6.0)
# Between two trials: only to see where the bottleneck is now.
_BRIEF: Final = _Seconds(block=0.5, supply=0.8, stages=2.5)


def observe(
    subject: Subject,
    machine: Machine,
    journal: Journal,
    *,
    version: Version | None = None,
    measured: Measurement | None = None,
) -> WorkloadDiagnosis:
    """Diagnose a version of a training, its findings included.

    Args:
        subject: What is trained.
        machine: Where.
        journal: Told of each phase.
        version: The original unless given.
        measured: Its speed where that is known already from a comparison; the rest is then looked
            at only briefly.
    """
    version = version or subject.original
    seconds = _CAREFUL if measured is None else _BRIEF
    if measured is None:
        journal.write("phase", f"measuring the training at {subject.workload.at}")
        measured = _steady(subject.runner(version), seconds)
        journal.write("measured", "as it is", samples_per_s=measured.samples_per_s)
    journal.write("phase", "measuring the step alone, on a resident batch")
    resident = _steady(subject.resident(version), seconds)
    resident_s = resident.step_s.median
    host_s = subject.host_s(resident_s)
    ceilings = {"consumer": resident.samples_per_s}
    ceilings["host"] = _host_ceiling(measured, machine)
    journal.write("phase", "measuring the input alone, stage by stage")
    batches_per_s, _ = supply(subject.supply(version), budget_s=seconds.supply)
    ceilings["supply"] = batches_per_s * (subject.workload.batch_size or 1)
    stages = _stages(subject, version, seconds)
    digest = version.pipeline.digest if version.pipeline else ""
    found = WorkloadDiagnosis(
        workload=replace(subject.workload, pipeline=digest),
        measurement=measured,
        ceilings=ceilings,
        headroom=max(1.0, resident.samples_per_s / measured.samples_per_s),
        breakdown=_breakdown(measured.step_s.median, resident_s, host_s),
        stages=stages,
        notes=tuple(dict.fromkeys(subject.notes)),
        memory_available_bytes=available_memory(),
        bfloat16=native_bfloat16(),
    )
    return judge(found, machine)


def _stages(subject: Subject, version: Version, seconds: _Seconds) -> tuple[Stage, ...]:
    if version.pipeline is None:
        return subject.loader_stages()
    batch_size = subject.workload.batch_size
    return measure_stages(version.pipeline, batch_size=batch_size, budget_s=seconds.stages)


def _steady(runner: VersionRunner, seconds: _Seconds) -> Measurement:
    runner.prime()
    return summarize([runner.block(seconds.block) for _ in range(_BLOCKS)])


def _host_ceiling(measured: Measurement, machine: Machine) -> float:
    """samples/s if every core were busy all the time with what a step costs now."""
    batch = measured.samples_per_s * measured.step_s.median
    if measured.cpu_s_per_step <= 0:
        return measured.samples_per_s
    return batch * machine.cpus / measured.cpu_s_per_step


def _breakdown(step_s: float, resident_s: float, host_s: float | None) -> dict[str, float]:
    """Shares of one step that add up to 1.

    ``input`` is what the step takes longer than on a resident batch: waiting, and on a CPU also the
    cores that the input takes from it.
    """
    computing = min(resident_s, step_s)
    host = min(host_s or 0.0, computing)
    shares = {
        "input": (step_s - computing) / step_s,
        "host": host / step_s,
        "step": (computing - host) / step_s,
    }
    # What is left by rounding, never hidden in another row.
    return {**shares, "unknown": max(0.0, 1.0 - sum(shares.values()))}
