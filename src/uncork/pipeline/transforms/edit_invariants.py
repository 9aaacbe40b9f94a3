"""What an edit of one stage must leave to all others: their orders, their files, their turns."""

from __future__ import annotations

from uncork.core.base.errors import EditRefused
from uncork.pipeline.analysis.graph_rewrites import shuffle_fusion_flags
from uncork.pipeline.analysis.lookahead_draws import (
    has_lookahead_python_calls,
    has_on_demand_variable_reads,
)
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.runtime.resume_state import continuation_refusal


def check_other_stages_unchanged(pipeline: Pipeline, edited: Pipeline) -> None:
    """Refuse what an edit of one stage does to others, or to when they run.

    Args:
        pipeline: As it was.
        edited: As the edit leaves it.

    Raises:
        EditRefused: A shuffle, a snapshot, a variable or a call into Python would not be what, or
            when, it was.
    """
    if shuffle_fusion_flags(edited) != shuffle_fusion_flags(pipeline):
        raise EditRefused(
            "TensorFlow would make one stage of a shuffle and a repeat that were two, or two of "
            "one, and their later epochs would come in another order",
            "an edit that leaves each shuffle as near to its repeat as it is",
            "leave it as it is",
        )
    lost = continuation_refusal(edited)
    if lost is not None and continuation_refusal(pipeline) is None:
        raise lost
    if not _snapshots(edited) <= _snapshots(pipeline):
        raise EditRefused(
            "above it lies a snapshot, which TensorFlow finds again by all that lies below",
            "an edit of what reads the snapshot",
            "leave what is below as it is; or rewrite it by hand, and write the snapshot anew",
        )
    if has_on_demand_variable_reads(pipeline) and not has_on_demand_variable_reads(edited):
        raise EditRefused(
            "a variable would be read before the step that it is read after",
            "a pipeline in which something is prepared ahead, or which depends on its elements "
            "alone",
            "leave it as it is",
        )
    if has_lookahead_python_calls(edited) and not has_lookahead_python_calls(pipeline):
        raise EditRefused(
            "Python would be called for elements that nobody takes",
            "Python code that nothing runs ahead of, or no stage that stops it",
            "leave it as it is, or take before the call",
        )


def _snapshots(pipeline: Pipeline) -> set[int]:
    """Datasets that keep what lies below them in files, from one run of the script to the next."""
    return {
        id(place.node.dataset)
        for place in pipeline.stage_locations
        if place.node.kind == "snapshot"
    }
