"""Stages whose cost, as a difference of two large ones, may be noise: timed by themselves, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.pipeline.ir.builders import inline_map
from uncork.pipeline.profile.handoff import SELECTING_KINDS, create_isolated_probe
from uncork.pipeline.profile.probes import Probe, time_round_robin
from uncork.pipeline.profile.stage_measurement import StageMeasurement

# Of all that a step's batch costs; of what a map is made from.
_TRIFLE: Final = 0.02
_LOST_IN_NOISE: Final = 0.2
# CPU seconds that handing one call of a map to another thread may take. For one and the same map it
# was 7 us and 40 us, by what was read above it: a second map above the first seemed to cost -20 us.
_HANDING_ON_S: Final = 50e-6


def time_in_isolation(stages: Sequence[StageMeasurement], budget_s: float) -> None:
    """Time on elements in memory what seems to cost, where its difference may be noise.

    Args:
        stages: With the costs that are differences.
        budget_s: Seconds for it, roughly.
    """
    doubtful = [stage for stage in stages if _is_doubtful(stage, stages)]
    for stage in doubtful:
        some_s = budget_s / len(doubtful) / 4
        stage.isolated_probe = create_isolated_probe(
            stage.node, create_similar_elements(stage.input_stages[0], some_s), budget_s=some_s
        )
        if stage.isolated_probe and stage.inline_probe:
            given, node = stage.isolated_probe.input_probe.dataset, stage.node.dataset
            stage.isolated_inline_probe = Probe(
                inline_map(given, parameter(node, "map_func"), node)
            )
    probes = [probe for stage in doubtful for probe in stage.isolated_probes]
    if probes:
        time_round_robin(probes, budget_s / 2)


def _is_doubtful(stage: StageMeasurement, stages: Sequence[StageMeasurement]) -> bool:
    """It may cost, but what it seems to cost may be noise, or what maps lose between threads.

    That can be several times their work, and is charged to stages above them as often as it hides
    what those cost.
    """
    below = stages[stage.first_index : stage.index]
    calls = sum(
        each.elements_per_step or 0.0 for each in (*below, stage) if each.node.kind == "map"
    )
    handing_on_s = _HANDING_ON_S * calls
    all_s = sum(each.cpu_s_per_step for each in stages)
    if stage.cpu_s_per_step + handing_on_s <= _TRIFLE * all_s:
        return False
    below_s = sum(each.cpu_s_per_step for each in below)
    return stage.cpu_s_per_step < 2 * max(below_s, handing_on_s)


def isolated_cost(stage: StageMeasurement, upstream_cpu_s: float) -> tuple[float, float] | None:
    """CPU and elapsed seconds on a few elements in memory, where that tells more.

    Elements differ, so it does of a map or a filter only where the difference would be noise: where
    what they are made from takes long beside them, their calls are brief, or it is nothing at all.

    Args:
        stage: After :func:`time_in_isolation`.
        upstream_cpu_s: CPU seconds of what one of its elements is made from.
    """
    found = stage.isolated_probe.medians() if stage.isolated_probe else None
    if found is not None and stage.node.kind == "filter":
        (inputs,) = stage.input_ratios
        found = None if inputs is None else (inputs * found[0], inputs * found[1])
    if found is None or stage.node.kind not in ("map", "filter"):
        return found
    whole = stage.probe.medians()
    lost = whole is not None and whole[0] <= upstream_cpu_s
    return (
        found if lost or found[0] <= max(_LOST_IN_NOISE * upstream_cpu_s, _HANDING_ON_S) else None
    )


def create_similar_elements(stage: StageMeasurement, budget_s: float) -> Dataset:
    """Elements like those that a stage gives, made as quickly as may be.

    Shuffles and filters may take long to give one, and batches need many.
    """
    while stage.node.kind in SELECTING_KINDS and len(stage.input_stages) == 1:
        stage = stage.input_stages[0]
    if stage.node.kind == "batch":
        few = create_isolated_probe(
            stage.node, create_similar_elements(stage.input_stages[0], budget_s), budget_s=budget_s
        )
        return few.output_probe.dataset if few else stage.dataset
    return stage.dataset
