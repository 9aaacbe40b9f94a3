"""Small questions about input pipelines that several parts of the engine ask."""

from __future__ import annotations

from uncork.core.evidence.stage import INFINITE_LENGTH
from uncork.pipeline.analysis.lookahead_draws import is_rewritten_by_default
from uncork.pipeline.ir.tree import Pipeline


def is_repeated(pipeline: Pipeline | None) -> bool:
    """The pipeline itself reads its source more than once.

    One that is joined of several does where none of them ends after a single pass.
    """
    if pipeline is None:
        return False
    if any(node.kind == "repeat" for node in pipeline.stages):
        return True
    again = [is_repeated(branch) for branch in pipeline.branches]
    lasting = (
        a or b.cardinality == INFINITE_LENGTH for a, b in zip(again, pipeline.branches, strict=True)
    )
    return any(again) and all(lasting)


def samples_before_repeat(pipeline: Pipeline | None, batch_size: int) -> int | None:
    """How many samples a pipeline gives before one comes again; None where none does in a pass.

    Zero where that is not known: what is repeated is shuffled, or joined with something else.

    Args:
        pipeline: Of a training; None where it reads no dataset.
        batch_size: Samples of its elements.
    """
    if pipeline is None or not is_repeated(pipeline):
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


def has_default_rewrites(pipeline: Pipeline | None) -> bool:
    """tf.data's own graph rewrites are on, which is said of no pipeline, too."""
    return pipeline is None or is_rewritten_by_default(pipeline)
