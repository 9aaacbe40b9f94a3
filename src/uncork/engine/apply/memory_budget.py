"""Small questions about input pipelines that several parts of the engine ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from uncork.core.base.errors import EditRefused
from uncork.core.documents.plan import Plan
from uncork.core.edits.edit import LoaderCache
from uncork.core.edits.pipeline import (
    Cache,
    DiskCache,
    GeneratorCache,
    PipelineEdit,
    PyFunctionCache,
    ReadAhead,
)
from uncork.core.evidence.stage import Stage
from uncork.measure.machine.probe import available_memory_bytes
from uncork.pipeline.analysis.input_files import named_file_bytes
from uncork.pipeline.ir.tree import Pipeline

_KEEPING: Final = {LoaderCache, PyFunctionCache, GeneratorCache}


def has_cache(plan: Plan) -> bool:
    """Something is made once and kept, for the next pass over the data."""
    return any(isinstance(edit, (Cache, DiskCache, *_KEEPING)) for edit in plan.edits)


def data_growth(stages: Sequence[Stage], pipeline: Pipeline | None, stage: int) -> float:
    """Elements now over those that a plan was made with; 1 where neither number is known.

    The stages are the same, one by one: a plan is used on no other pipeline. How many elements lie
    in a file is not known before it was read; where nothing else tells, the sizes of the files do.

    Args:
        stages: As the plan knows them.
        pipeline: What it is used on; None where that is no pipeline.
        stage: Index of the one whose elements are kept; what it is made from tells.
    """
    if pipeline is None or not stages:
        return 1.0
    places = pipeline.stage_locations[: stage + 1]
    now = [int(place.node.dataset.cardinality()) for place in places]
    kept = stages[min(stage, len(stages) - 1)]
    pairs = list(zip((s.length or 0 for s in stages), now, strict=False))[kept.first_index :]
    if kept.length is None:
        sources = list(zip(stages, places, strict=False))[kept.first_index :]
        named = ((s.file_bytes, named_file_bytes(p.node)) for s, p in sources if s.file_bytes)
        pairs += [(then, there) for then, there in named if then and there]
    return max((there / then for then, there in pairs if then > 0 and there > 0), default=1.0)


def check_cache_memory(
    plan: Plan, pipeline: Pipeline | None = None, validation: Pipeline | None = None
) -> None:
    """Refuse caches that this machine has no room for now.

    Args:
        plan: It says what its caches took of the data that it was made with.
        pipeline: The one that it is used on: there may be more data by now.
        validation: Likewise, of the validation data.

    Raises:
        EditRefused: They would take more than the plan's share of the memory still available.
    """
    stages = plan.before.stages
    loaders = [e.size_bytes for e in plan.loader_edits if isinstance(e, LoaderCache)]
    wanted = [*_caches(plan.pipeline_edits), *((size, len(stages) - 1) for size in loaders)]
    feed = plan.before.validation.feed if plan.before.validation else None
    others, of_validation = _caches(plan.validation_edits), feed.stages if feed else ()
    then = sum(size for size, _ in (*wanted, *others))
    needed = sum(size * data_growth(stages, pipeline, stage) for size, stage in wanted)
    needed += sum(size * data_growth(of_validation, validation, at) for size, at in others)
    copies = sum(edit.size_bytes for edit in plan.checkpoint_edits)  # as large as the model
    edits = [*plan.pipeline_edits, *plan.validation_edits]
    ahead = sum(edit.size_bytes for edit in edits if isinstance(edit, ReadAhead))
    held = needed + copies + ahead
    more = needed / then if then else 1.0
    available = available_memory_bytes()
    if held > plan.policy.memory_share * available and held:
        raise EditRefused(
            f"the plan's {_what(needed, copies)} up to {held / 1e9:.1f} GB of memory"
            f"{f', for {more:.1f} times as much data,' if more > 1 else ','} "
            f"{available / 1e9:.1f} GB are available",
            f"at most {plan.policy.memory_share:.0%} of the available memory",
            "free memory, or tune again on this machine",
        )


def _what(needed: float, copies: int) -> str:
    """What takes the memory, as the subject of a sentence."""
    if needed:
        return "cache needs"
    return "copies of checkpoints need" if copies else "prefetched elements need"


def _caches(edits: Sequence[PipelineEdit]) -> list[tuple[int, int]]:
    """Bytes, and the stage whose elements are kept."""
    kinds = Cache | PyFunctionCache | GeneratorCache
    return [(edit.size_bytes, edit.stage) for edit in edits if isinstance(edit, kinds)]
