"""Which caches would ever be full, and in which forms a stage could be kept."""

from __future__ import annotations

from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.evidence.stage import Stage


def is_cache_filled(diagnosis: WorkloadDiagnosis, stage: Stage) -> bool:
    """A cache of a stage would be complete after the first pass, as far as that is known.

    A loop of the user's own may leave its data early, in every epoch. A cache that never saw their
    end begins anew each time. And a ``fit`` that is told its number of steps reads on from epoch to
    epoch, and may end before it has read all.
    """
    work, point = diagnosis.workload, stage.cache_point
    steps, to_the_end = work.steps_per_epoch, diagnosis.stages[-1].length == work.steps_per_epoch
    if point is None or steps is None or to_the_end:
        return True
    if work.kind == "fit":
        steps *= work.epochs
        if not work.has_explicit_steps:
            return True
    return steps * (stage.elements_per_step or 0.0) > point.element_count


def is_generator_exhausted(diagnosis: WorkloadDiagnosis, stage: Stage) -> bool:
    """A generator comes to its end while the training reads it, as far as that is known.

    What it yields is kept only then. A ``fit`` that is told its number of steps may read from one
    that never ends, and so may a loop of the user's own.
    """
    work, kept = diagnosis.workload, stage.memoization
    if (
        kept is None
        or work.steps_per_epoch is None
        or not (work.has_explicit_steps or work.kind != "fit")
    ):
        return True
    to_the_end = diagnosis.stages[-1].length == work.steps_per_epoch
    if to_the_end or (work.is_source_repeated and not kept.element_count):
        return True  # nobody repeats what never ends
    steps = work.steps_per_epoch * (work.epochs if work.kind == "fit" else 1)
    return 0 < kept.element_count <= steps * (stage.elements_per_step or 0.0)


def cacheable_forms(stage: Stage, free_bytes: float) -> tuple[Stage, ...]:
    """A stage as it could be kept: whole, and smaller where that does not fit so many bytes.

    A map that ends with making its elements larger can be cut before that; where there is room,
    it is kept whole.

    Example:
        >>> from uncork.core.evidence.stage import CachePoint, MapPrefix
        >>> floats = Stage(
        ...     index=1,
        ...     kind="map",
        ...     bytes_per_element=4000,
        ...     narrow_prefix=MapPrefix(op_count=9, bytes_per_element=1000, cpu_s_per_element=1e-3),
        ...     cache_point=CachePoint(
        ...         element_count=9, memory_bytes=36000, saved_cpu_s_per_step=1e-2
        ...     ),
        ... )
        >>> [form.cache_point.memory_bytes for form in cacheable_forms(floats, free_bytes=10000)]
        [36000, 9000]
    """
    point, part = stage.cache_point, stage.narrow_prefix
    if (
        point is None
        or part is None
        or not stage.bytes_per_element
        or point.memory_bytes <= free_bytes
    ):
        return (stage,)
    taken = round(point.value_bytes * part.bytes_per_element / stage.bytes_per_element)
    taken += point.overhead_bytes
    widening_s = max(0.0, (stage.cpu_s_per_element or 0.0) - part.cpu_s_per_element)
    saved_s = point.saved_cpu_s_per_step - widening_s * (stage.elements_per_step or 0.0)
    smaller = replace(point, memory_bytes=taken, saved_cpu_s_per_step=max(0.0, saved_s))
    return stage, replace(stage, deterministic_prefix=part, cache_point=smaller)
