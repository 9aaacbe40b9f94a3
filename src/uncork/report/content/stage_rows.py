"""The input pipeline as rows: what each stage costs, and how fast it could be alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.base.record import Record
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.evidence.stage import AUTOTUNE, Stage
from uncork.core.evidence.stage_graph import join_depths
from uncork.report.content.figures import finite_or_none

# Of the pipeline's CPU time: of a stage that costs less it is not told what it spends it on.
_MUCH: Final = 0.2
MAX_OPS: Final = 3


class OpRow(Record, frozen=True, kw_only=True):
    """Ops of one kind, from one line, in a map's function.

    Attributes:
        cpu_s_per_step: None if unknown.
        share: Of the function's time.
    """

    op: str
    at: str | None
    cpu_s_per_step: float | None
    share: float


class StageRow(Record, frozen=True, kw_only=True):
    """One stage of the input pipeline.

    Attributes:
        depth: How many joins of branches lie above it.
        samples_per_s: What this stage could supply if the others cost nothing; None if unknown.
        cpu_s_per_step: None if unknown.
        share: Of the pipeline's CPU time.
        parallelism_text: ``serial``, ``4 at once``, ``4 at once, auto`` where TensorFlow chose
            that, ``parallel (auto)`` where nobody knows what it chose, or ``""`` without a meaning.
        traits: What limits its rewriting: ``random``, ``python``, ``opaque``.
        is_bottleneck: The slowest stage of a pipeline that is slower than the step.
        op_rows: What its function spends its time on, longest first, where the stage costs much.
    """

    index: int
    depth: int
    kind: str
    name: str
    at: str | None
    samples_per_s: float | None
    cpu_s_per_step: float | None
    share: float | None
    bytes_per_element: int | None
    parallelism_text: str
    traits: tuple[str, ...]
    is_bottleneck: bool
    op_rows: tuple[OpRow, ...] = ()


def stage_rows(diagnosis: WorkloadDiagnosis, machine: Machine) -> tuple[StageRow, ...]:
    """The input pipeline, source first, with the rate each stage could reach alone."""
    samples = samples_per_step(diagnosis)
    slowest = _slowest(stage_rate(s, samples, machine.cpus) for s in diagnosis.stages)
    named = slowest is not None and _too_slow(slowest[0], diagnosis)
    return build_stage_rows(diagnosis.stages, samples, machine.cpus, has_bottleneck=named)


def build_stage_rows(
    stages: Sequence[Stage], samples: float | None, cpus: float, *, has_bottleneck: bool
) -> tuple[StageRow, ...]:
    """Stages as rows.

    Args:
        stages: Source first.
        samples: In one element of the last stage.
        cpus: Cores that parallel stages may use.
        has_bottleneck: Whether the slowest of them is a bottleneck at all.
    """
    rates = [stage_rate(stage, samples, cpus) for stage in stages]
    total = sum(finite_or_none(stage.cpu_s_per_step) or 0.0 for stage in stages)
    slowest = _slowest(rates) if has_bottleneck else None
    return tuple(
        StageRow(
            index=stage.index,
            depth=depth,
            kind=stage.kind,
            name=stage.name,
            at=stage.at,
            samples_per_s=rate,
            cpu_s_per_step=finite_or_none(stage.cpu_s_per_step),
            share=_share(stage, total),
            bytes_per_element=stage.bytes_per_element,
            parallelism_text=_runs(stage),
            traits=_traits(stage),
            is_bottleneck=slowest is not None and number == slowest[1],
            op_rows=_ops(stage) if (_share(stage, total) or 0.0) >= _MUCH else (),
        )
        for number, (stage, depth, rate) in enumerate(
            zip(stages, join_depths(stages), rates, strict=True)
        )
    )


def samples_per_step(diagnosis: WorkloadDiagnosis) -> float | None:
    """The batch size, or what the measured speed and step time imply."""
    if diagnosis.workload.batch_size:
        return float(diagnosis.workload.batch_size)
    measured = diagnosis.measurement
    return finite_or_none(measured.samples_per_s * measured.step_s.median)


def stage_rate(stage: Stage, samples: float | None, cpus: float) -> float | None:
    """samples/s that one stage could supply alone, at the parallelism it runs with.

    A serial stage is bound by its elapsed time, a parallel one by its CPU time spread over the
    cores it may use.

    Example:
        >>> stage_rate(
        ...     Stage(
        ...         index=0,
        ...         kind="map",
        ...         wall_s_per_element=1e-3,
        ...         elements_per_step=32,
        ...         parallelism=1,
        ...     ),
        ...     32,
        ...     cpus=2,
        ... )
        1000.0
    """
    workers = _workers(stage.parallelism, cpus)
    wall, cpu = finite_or_none(stage.wall_s_per_element), finite_or_none(stage.cpu_s_per_element)
    each = wall if wall is not None and (workers == 1 or cpu is None) else cpu
    if each is None or samples is None or stage.elements_per_step is None:
        return None
    seconds = each * stage.elements_per_step / workers
    return finite_or_none(samples / seconds) if seconds > 0 else None


def _ops(stage: Stage) -> tuple[OpRow, ...]:
    cost = finite_or_none(stage.cpu_s_per_step)
    return tuple(
        OpRow(
            op=each.op,
            at=each.at,
            cpu_s_per_step=None if cost is None else each.share * cost,
            share=each.share,
        )
        for each in stage.op_costs[:MAX_OPS]
    )


def _slowest(rates: Iterable[float | None]) -> tuple[float, int] | None:
    """The lowest rate, and whose it is."""
    return min(((r, n) for n, r in enumerate(rates) if r is not None), default=None)


def _too_slow(slowest: float, diagnosis: WorkloadDiagnosis) -> bool:
    """The pipeline cannot keep up with the training step."""
    consumer = finite_or_none(diagnosis.ceilings.get("consumer"))
    supply = finite_or_none(diagnosis.ceilings.get("supply"))
    return consumer is not None and (slowest if supply is None else supply) < consumer


def _workers(parallelism: int | None, cpus: float) -> float:
    if parallelism is None:
        return 1.0
    return max(cpus, 1.0) if parallelism == AUTOTUNE else float(max(min(parallelism, cpus), 1))


def _runs(stage: Stage) -> str:
    parallelism = stage.parallelism
    if parallelism is None:
        return ""
    if parallelism == AUTOTUNE:
        return (
            "parallel (auto)"
            if stage.autotuned_parallelism is None
            else f"{stage.autotuned_parallelism} in parallel, auto"
        )
    return "serial" if parallelism == 1 else f"{parallelism} in parallel"


def _traits(stage: Stage) -> tuple[str, ...]:
    flags = {"random": stage.is_random, "python": stage.has_python_code, "opaque": stage.is_opaque}
    return tuple(name for name, on in flags.items() if on)


def _share(stage: Stage, total: float) -> float | None:
    cost = finite_or_none(stage.cpu_s_per_step)
    return cost / total if cost is not None and total > 0 else None
