"""What one stage would cost, were it done in another way: the terms of the cost model."""

from __future__ import annotations

from typing import Any, TypeVar

from uncork.core.base.record import Record, replace
from uncork.core.evidence.stage import AUTOTUNE, Stage
from uncork.core.evidence.storage import ElementIoCost

R = TypeVar("R", bound=Record)


def threaded_python_s(stage: Stage) -> float:
    """Elapsed seconds of a step for Python code in several threads, whose calls share one lock."""
    return (stage.threaded_wall_s_per_element or 0.0) * (stage.elements_per_step or 0.0)


def as_free(stage: Stage) -> Stage:
    """What is kept in memory costs nothing."""
    return replace(stage, cpu_s_per_element=0.0, wall_s_per_element=0.0)


def as_read_from_disk(stage: Stage, read_cost: ElementIoCost, element_bytes: float) -> Stage:
    """What is kept in files, so many bytes an element, costs the one thread that reads them."""
    return replace(
        stage,
        parallelism=1,
        cpu_s_per_element=read_cost.cpu_s(element_bytes),
        wall_s_per_element=read_cost.wall_s(element_bytes),
        multithreading_cpu_s_per_element=None,
        threaded_wall_s_per_element=None,
    )


def as_parallel(stage: Stage) -> Stage:
    """Run on as many elements at once as it has readers, or cores."""
    return replace(
        stage, parallelism=stage.max_readers or AUTOTUNE, multithreading_cpu_s_per_element=None
    )


def multithreading_cpu_s(stage: Stage) -> float:
    """CPU seconds of a step that are lost by spreading the ops of a lone call over threads."""
    return (stage.multithreading_cpu_s_per_element or 0.0) * (stage.elements_per_step or 0.0)


def as_threaded(stage: Stage) -> Stage:
    """Batches of a Python loader made by several threads."""
    return _made_together(stage, stage.threaded_wall_s_per_element)


def as_multiprocess(stage: Stage) -> Stage:
    """Batches of a Python loader made by several processes."""
    return _made_together(stage, stage.multiprocess_wall_s_per_element)


def _made_together(stage: Stage, together_s: float | None) -> Stage:
    alone_s = stage.wall_s_per_element
    if together_s is None or alone_s is None:
        return stage
    return replace(stage, wall_s_per_element=min(alone_s, together_s))


def as_memoized(stage: Stage) -> Stage:
    """What its Python code makes is kept in memory."""
    if stage.memoization is None or not stage.wall_s_per_element:
        return stage
    share = min(1.0, stage.memoization.hit_wall_s_per_element / stage.wall_s_per_element)
    together = stage.threaded_wall_s_per_element
    spared = None if together is None else together * share
    return replace(scale_stage(stage, share), threaded_wall_s_per_element=spared)


def as_float32(stage: Stage) -> Stage:
    """A map that computes in float32 instead of float64."""
    if stage.float32_cpu_s_per_element is None or not stage.cpu_s_per_element:
        return stage
    return scale_stage(stage, min(1.0, stage.float32_cpu_s_per_element / stage.cpu_s_per_element))


def without_unused_outputs(stage: Stage) -> Stage:
    """A map that makes only what is looked at further up."""
    if stage.needed_cpu_s_per_element is None or not stage.cpu_s_per_element:
        return stage
    return scale_stage(stage, min(1.0, stage.needed_cpu_s_per_element / stage.cpu_s_per_element))


def unused_outputs_cpu_s(stage: Stage) -> float:
    """CPU seconds of a step that a map spends on what nobody looks at."""
    return (stage.cpu_s_per_step or 0.0) - (without_unused_outputs(stage).cpu_s_per_step or 0.0)


def as_vectorized(stage: Stage) -> Stage:
    """A map called once for a whole batch."""
    if stage.vectorized_cost is None:
        return stage
    return replace(
        stage,
        cpu_s_per_element=stage.vectorized_cost.cpu_s_per_element,
        wall_s_per_element=stage.vectorized_cost.wall_s_per_element,
    )


def as_inlined(stage: Stage) -> Stage:
    """A map run in the thread that asks for its elements."""
    if stage.inlined_cost is None:
        return stage
    return replace(
        stage,
        parallelism=1,
        cpu_s_per_element=stage.inlined_cost.cpu_s_per_element,
        wall_s_per_element=stage.inlined_cost.wall_s_per_element,
    )


def scale_all_costs(stage: R, factor: float) -> R:
    """All seconds of a stage, and of the parts and forms of it that were timed."""
    changed: dict[str, Any] = {}
    for field in stage.__struct_fields__:
        value = getattr(stage, field)
        if isinstance(value, Record):
            changed[field] = scale_all_costs(value, factor)
        elif "_s_per_" in field and value is not None:
            changed[field] = value * factor
    return replace(stage, **changed)


def as_chunked(stage: Stage) -> Stage:
    """A generator whose elements are handed over several at once."""
    if stage.chunked_cost is None:
        return stage
    return replace(
        stage,
        cpu_s_per_element=stage.chunked_cost.cpu_s_per_element,
        wall_s_per_element=stage.chunked_cost.wall_s_per_element,
    )


def scale_stage(stage: Stage, share: float) -> Stage:
    """This share of a stage."""
    return replace(
        stage,
        cpu_s_per_element=(stage.cpu_s_per_element or 0.0) * share,
        wall_s_per_element=(stage.wall_s_per_element or 0.0) * share,
    )
