"""Small questions about input pipelines that several parts of the engine ask."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from uncork.core.edit import LoaderCache
from uncork.core.errors import EditRefused, WrongUse
from uncork.core.pipeline_edit import (
    Cache,
    DiskCache,
    GeneratorCache,
    PipelineEdit,
    PyFunctionCache,
    ReadAhead,
)
from uncork.core.plan import Plan
from uncork.core.stage import ENDLESS, Stage
from uncork.measure import available_memory
from uncork.pipeline import (
    Pipeline,
    apart,
    bytes_named,
    keeps_python,
    read,
    redirected,
    rewritten_by_default,
)

# Seconds to wait for the end of a dataset that may be infinite, a generator's for one.
FILL_S: Final = 60.0
_KEEPING: Final = {LoaderCache, PyFunctionCache, GeneratorCache}


def readable(dataset: Any | None, scratch: str | Path) -> Pipeline | None:
    """A copy of the pipeline behind a dataset, to be tried; None when there is no dataset.

    It shares no shuffle's counter, no cache and no file with the user's.

    Raises:
        WrongUse: A trial would write the user's files and cannot be kept from it.
    """
    if dataset is None:
        return None
    pipeline = read(dataset)
    try:
        return redirected(apart(pipeline), Path(scratch))
    except EditRefused as refusal:
        raise WrongUse(
            f"a trial would write files of this pipeline: {refusal.received}",
            "a pipeline that can be tried without touching its files",
            "run the training once without Uncork so that its cache is complete",
        ) from refusal


def repeats(pipeline: Pipeline | None) -> bool:
    """The pipeline itself reads its source more than once.

    One that is joined of several does where none of them ends after a single pass.
    """
    if pipeline is None:
        return False
    if any(node.kind == "repeat" for node in pipeline.stages):
        return True
    again = [repeats(branch) for branch in pipeline.branches]
    lasting = (a or b.cardinality == ENDLESS for a, b in zip(again, pipeline.branches, strict=True))
    return any(again) and all(lasting)


def samples_once(pipeline: Pipeline | None, batch_size: int) -> int | None:
    """How many samples a pipeline gives before one comes again; None where none does in a pass.

    Zero where that is not known: what is repeated is shuffled, or joined with something else.

    Args:
        pipeline: Of a training; None where it reads no dataset.
        batch_size: Samples of its elements.
    """
    if pipeline is None or not repeats(pipeline):
        return None
    kinds = [node.kind for node in pipeline.stages]
    if pipeline.branches or "repeat" not in kinds:
        return 0
    first = kinds.index("repeat")
    if not {"shuffle", "interleave", "flat_map", "group_by_window"}.isdisjoint(kinds[first:]):
        return 0
    in_batches = not {"batch", "padded_batch"}.isdisjoint(kinds[:first])
    there = int(pipeline.stages[first].inputs[0].dataset.cardinality())
    return max(0, there) * (batch_size if in_batches else 1)


def default_rewrites(pipeline: Pipeline | None) -> bool:
    """tf.data's own graph rewrites are on, which is said of no pipeline, too."""
    return pipeline is None or rewritten_by_default(pipeline)


def fill_caches(pipeline: Pipeline, most_s: float = math.inf) -> bool:
    """Read each cache once to its end, so that what follows measures later epochs.

    A cache keeps what it read only when its first pass was complete. One of unknown length may
    never be, in a trial as in the user's training, so its filling is given up after a while; so is
    that of one of the user's in files, which may be larger than anybody would wait for.

    Args:
        pipeline: With or without caches.
        most_s: Seconds for each cache, whatever is known of it.

    Returns:
        False where one was given up.
    """
    filled = True
    for node in (place.node for place in pipeline.places):
        cardinality = int(node.dataset.cardinality())
        is_cache = node.kind == "cache" and not node.in_complete_files
        fillable = is_cache or keeps_python(node)
        if fillable and cardinality != tf.data.INFINITE_CARDINALITY:
            in_files = is_cache and not (node.in_memory or node.own_files)
            known = not in_files and cardinality != tf.data.UNKNOWN_CARDINALITY
            limit_s = min(most_s, math.inf if known else FILL_S)
            deadline = time.monotonic() + limit_s
            for _ in node.dataset:
                if time.monotonic() > deadline:
                    filled = False
                    break
    return filled


def keeps(plan: Plan) -> bool:
    """Something is made once and kept, for the next pass over the data."""
    return any(isinstance(edit, (Cache, DiskCache, *_KEEPING)) for edit in plan.edits)


def times_as_much(stages: Sequence[Stage], pipeline: Pipeline | None, stage: int) -> float:
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
    places = pipeline.places[: stage + 1]
    now = [int(place.node.dataset.cardinality()) for place in places]
    kept = stages[min(stage, len(stages) - 1)]
    pairs = list(zip((s.length or 0 for s in stages), now, strict=False))[kept.first :]
    if kept.length is None:
        sources = list(zip(stages, places, strict=False))[kept.first :]
        named = ((s.file_bytes, bytes_named(p.node)) for s, p in sources if s.file_bytes)
        pairs += [(then, there) for then, there in named if then and there]
    return max((there / then for then, there in pairs if then > 0 and there > 0), default=1.0)


def enough_memory(
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
    loaders = [e.bytes for e in plan.loader_edits if isinstance(e, LoaderCache)]
    wanted = [*_caches(plan.pipeline_edits), *((size, len(stages) - 1) for size in loaders)]
    feed = plan.before.validation.feed if plan.before.validation else None
    others, of_validation = _caches(plan.validation_edits), feed.stages if feed else ()
    then = sum(size for size, _ in (*wanted, *others))
    needed = sum(size * times_as_much(stages, pipeline, stage) for size, stage in wanted)
    needed += sum(size * times_as_much(of_validation, validation, at) for size, at in others)
    copies = sum(edit.bytes for edit in plan.saving_edits)  # as large as the model
    edits = [*plan.pipeline_edits, *plan.validation_edits]
    ahead = sum(edit.bytes for edit in edits if isinstance(edit, ReadAhead))
    held = needed + copies + ahead
    more = needed / then if then else 1.0
    available = available_memory()
    if held > plan.policy.memory_share * available and held:
        raise EditRefused(
            f"the plan's {_what(needed, copies)} up to {held / 1e9:.1f} GB of memory"
            f"{f', for {more:.1f} times as much data,' if more > 1 else ','} "
            f"{available / 1e9:.1f} GB are available",
            f"at most {plan.policy.memory_share:.0%} of what is available",
            "free memory, or tune again on this machine",
        )


def _what(needed: float, copies: int) -> str:
    """What takes the memory, as the subject of a sentence."""
    if needed:
        return "cache takes"
    return "copies of checkpoints take" if copies else "elements that are read ahead take"


def _caches(edits: Sequence[PipelineEdit]) -> list[tuple[int, int]]:
    """Bytes, and the stage whose elements are kept."""
    kinds = Cache | PyFunctionCache | GeneratorCache
    return [(edit.bytes, edit.stage) for edit in edits if isinstance(edit, kinds)]
