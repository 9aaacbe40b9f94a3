"""Decode of a JPEG image only the pixels that the map crops.

Legal as ``exact``: Uncork decodes the crop with a few rows and columns around it, from which
TensorFlow computes the values of the crop. The position of the crop is sampled or computed as
before. The shape of an image comes from the header of its file. Files that are not complete JPEGs
are decoded as before.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.edits.pipeline import DecodeAndCrop
from uncork.core.evidence.stage_graph import find_cropping_maps
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    best_gain,
    is_worth_trying,
    low_gain_refusal,
)

_SOURCE: Final = """\
height, width = tf.unstack(tf.image.extract_jpeg_shape(file)[:2])   # of the whole image
...                                                                 # where to crop, as before
image = tf.image.decode_and_crop_jpeg(file, [top, left, rows, columns], channels=3)
# the outermost columns differ slightly: decode one more where it exists, and cut it off"""


@final
class DecodeAndCropOptimization(Optimization):
    """Skip the decoding of pixels that the map discards."""

    name = "decode_and_crop"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the map that takes longest for pixels that it crops away."""
        cropping = [s for s in context.stages if s.cropped_cpu_s_per_element is not None]
        if not cropping:
            return Skipped(reason="no map crops a JPEG image that it decodes")
        costs = context.costs
        best, predicted = best_gain(costs, cropping, lambda s: costs.with_partial_decode(s.index))
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        can_split = (
            best.parallelism == 1
            and best.deterministic_prefix is not None
            and best.random_part is None
        )
        if can_split and predict_gain(costs, costs.with_split_stage(best.index)) > predicted:
            return Skipped(reason="decoding whole images on all cores is faster")
        maps = find_cropping_maps(context.stages, best.index)
        whole_s = sum(stage.cpu_s_per_element or 0.0 for stage in maps)
        discarded = 1 - (best.cropped_cpu_s_per_element or 0.0) / (whole_s or 1.0)
        names = " and ".join(stage.name or "the map" for stage in maps)
        return Proposal(
            edits=(DecodeAndCrop(stage=best.index, expected_digest=context.pipeline_digest),),
            predicted=predicted,
            at=maps[0].at,
            rationale=(
                f"{discarded:.0%} of {names} is for pixels that are cropped away; errors in these "
                "pixels no longer occur"
            ),
            source_edit=_SOURCE,
        )
