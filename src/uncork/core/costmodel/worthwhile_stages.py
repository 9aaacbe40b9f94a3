"""Which maps of a pipeline are worth vectorizing, and which are worth inlining."""

from __future__ import annotations

from uncork.core.costmodel.step_cost import StepCosts

# Of a map's CPU time, what it may still cost where its calls were what cost most: work that is
# better shared out is not to be gathered in one thread for the noise of a measurement.
_MOST_LEFT = 0.7


def stages_worth_vectorizing(costs: StepCosts) -> tuple[int, ...]:
    """Indices of the maps to move above their batch, highest first; empty where nothing is won.

    A map can be moved only after those between it and the batch.

    Example:
        >>> from uncork.core.evidence.stage import Stage, VectorizedCost
        >>> each = {"kind": "map", "elements_per_step": 500.0, "parallelism": 1}
        >>> at_once = VectorizedCost(
        ...     batch_size=500, cpu_s_per_element=1e-6, wall_s_per_element=1e-6
        ... )
        >>> stages = [
        ...     Stage(
        ...         index=i,
        ...         cpu_s_per_element=c,
        ...         wall_s_per_element=c,
        ...         vectorized_cost=at_once,
        ...         **each,
        ...     )
        ...     for i, c in enumerate((9e-5, 2e-6))
        ... ]
        >>> stages_worth_vectorizing(
        ...     StepCosts(consumer_s=0.01, consumer_cpu_s=0.01, cpus=2, stages=tuple(stages))
        ... )
        (1, 0)
    """
    run = [s.index for s in reversed(costs.stages) if s.vectorized_cost is not None]
    choices = [tuple(run[:n]) for n in range(len(run) + 1)]
    return min(choices, key=lambda stages: costs.with_vectorized_stages(stages).step_s())


def stages_worth_inlining(costs: StepCosts) -> tuple[int, ...]:
    """Indices of the maps to run in the threads that ask, highest first; empty where none gains.

    Example:
        >>> from uncork.core.evidence.stage import InlinedCost, Stage
        >>> each = {"kind": "map", "elements_per_step": 500.0, "parallelism": 1}
        >>> here = InlinedCost(cpu_s_per_element=1e-6, wall_s_per_element=1e-6)
        >>> stages = [
        ...     Stage(index=i, cpu_s_per_element=c, wall_s_per_element=c, inlined_cost=here, **each)
        ...     for i, c in enumerate((5e-5, 5e-7))
        ... ]
        >>> stages_worth_inlining(
        ...     StepCosts(consumer_s=0.01, consumer_cpu_s=0.01, cpus=2, stages=tuple(stages))
        ... )
        (0,)
    """
    chosen: list[int] = []
    for stage in reversed(costs.stages):
        here = stage.inlined_cost
        if here is None or here.cpu_s_per_element > _MOST_LEFT * (stage.cpu_s_per_element or 0.0):
            continue
        least_s, cpu_s = (
            costs.with_inlined_stages(chosen).step_s(),
            costs.with_inlined_stages(chosen).cpu_s(),
        )
        tried = costs.with_inlined_stages([*chosen, stage.index])
        # Where another thread holds a step up, what a map no longer costs the cores counts, too.
        if tried.step_s() <= least_s and tried.cpu_s() < cpu_s:
            chosen.append(stage.index)
    return tuple(chosen)
