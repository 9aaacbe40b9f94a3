"""What an edit of one stage must not change in others: order, files, time of calls."""

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
    """Refuse an edit that changes other stages, or when they run.

    Args:
        pipeline: As it was.
        edited: As the edit leaves it.

    Raises:
        EditRefused: A shuffle, a snapshot, the read of a variable or a call of Python code would
            change.
    """
    if shuffle_fusion_flags(edited) != shuffle_fusion_flags(pipeline):
        raise EditRefused(
            "TensorFlow would fuse a shuffle and a repeat that were separate, or separate "
            "two that were fused, and later epochs would come in another order",
            "an edit that does not change whether TensorFlow fuses a shuffle and its repeat",
            "keep it unchanged",
        )
    lost = continuation_refusal(edited)
    if lost is not None and continuation_refusal(pipeline) is None:
        raise lost
    if not _snapshots(edited) <= _snapshots(pipeline):
        raise EditRefused(
            "after it comes a snapshot, which TensorFlow identifies by all stages before it",
            "an edit of a stage after the snapshot",
            "keep the stages before the snapshot unchanged, or change them by hand and write "
            "the snapshot again",
        )
    if has_on_demand_variable_reads(pipeline) and not has_on_demand_variable_reads(edited):
        raise EditRefused(
            "a variable would be read before the training step that it is read after now",
            "a pipeline that prefetches already, or that depends only on its elements",
            "keep it unchanged",
        )
    if has_lookahead_python_calls(edited) and not has_lookahead_python_calls(pipeline):
        raise EditRefused(
            "Python would be called for elements that no stage reads",
            "Python code whose results are not prefetched, or no stage that stops it early",
            "keep it unchanged, or call take before the Python code",
        )


def _snapshots(pipeline: Pipeline) -> set[int]:
    """Datasets that keep what lies below them in files, from one run of the script to the next."""
    return {
        id(place.node.dataset)
        for place in pipeline.stage_locations
        if place.node.kind == "snapshot"
    }
