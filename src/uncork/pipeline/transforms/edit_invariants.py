"""What an edit of one stage must leave to all others: their orders, their files, their turns."""

from __future__ import annotations

from uncork.core.base.errors import EditRefused
from uncork.pipeline.analysis.graph_rewrites import fused_shuffles
from uncork.pipeline.analysis.lookahead_draws import asks_too_far, in_its_turn
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.runtime.resume_state import cannot_continue


def check_others_kept(pipeline: Pipeline, found: Pipeline) -> None:
    """Refuse what an edit of one stage does to others, or to when they run.

    Args:
        pipeline: As it was.
        found: As the edit leaves it.

    Raises:
        EditRefused: A shuffle, a snapshot, a variable or a call into Python would not be what, or
            when, it was.
    """
    if fused_shuffles(found) != fused_shuffles(pipeline):
        raise EditRefused(
            "TensorFlow would make one stage of a shuffle and a repeat that were two, or two of "
            "one, and their later epochs would come in another order",
            "an edit that leaves each shuffle as near to its repeat as it is",
            "leave it as it is",
        )
    lost = cannot_continue(found)
    if lost is not None and cannot_continue(pipeline) is None:
        raise lost
    if not _snapshots(found) <= _snapshots(pipeline):
        raise EditRefused(
            "above it lies a snapshot, which TensorFlow finds again by all that lies below",
            "an edit of what reads the snapshot",
            "leave what is below as it is; or rewrite it by hand, and write the snapshot anew",
        )
    if in_its_turn(pipeline) and not in_its_turn(found):
        raise EditRefused(
            "a variable would be read before the step that it is read after",
            "a pipeline in which something is prepared ahead, or which depends on its elements "
            "alone",
            "leave it as it is",
        )
    if asks_too_far(found) and not asks_too_far(pipeline):
        raise EditRefused(
            "Python would be called for elements that nobody takes",
            "Python code that nothing runs ahead of, or no stage that stops it",
            "leave it as it is, or take before the call",
        )


def _snapshots(pipeline: Pipeline) -> set[int]:
    """Datasets that keep what lies below them in files, from one run of the script to the next."""
    return {id(place.node.dataset) for place in pipeline.places if place.node.kind == "snapshot"}
