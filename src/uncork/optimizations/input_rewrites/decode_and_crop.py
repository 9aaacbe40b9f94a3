"""Decode of JPEG images only what is cropped from them.

Legal as ``exact``: what is decoded is the crop and a few rows and columns around it, of which the
values of its own pixels are made; where the crop lies is drawn or computed as before. An image's
shape is read from its file's header. Files that are no complete JPEG are decoded as before.
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
# its outermost columns differ by some units: decode one more where there is one, and cut it off"""


@final
class DecodeAndCropOptimization(Optimization):
    """Spare the decoding of pixels that are thrown away."""

    name = "decode_and_crop"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """The map that spends most on pixels that it crops away."""
        cropping = [s for s in context.stages if s.cropped_cpu_s_per_element is not None]
        if not cropping:
            return Skipped(reason="no map crops a JPEG image that it decodes")
        costs = context.costs
        best, predicted = best_gain(costs, cropping, lambda s: costs.with_partial_decode(s.index))
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        in_two = (
            best.parallelism == 1
            and best.deterministic_prefix is not None
            and best.random_part is None
        )
        if in_two and predict_gain(costs, costs.with_split_stage(best.index)) > predicted:
            return Skipped(reason="on all cores the whole images are decoded sooner")
        maps = find_cropping_maps(context.stages, best.index)
        whole_s = sum(stage.cpu_s_per_element or 0.0 for stage in maps)
        spared = 1 - (best.cropped_cpu_s_per_element or 0.0) / (whole_s or 1.0)
        names = " and ".join(stage.name or "the map" for stage in maps)
        return Proposal(
            edits=(DecodeAndCrop(stage=best.index, expected_digest=context.pipeline_digest),),
            predicted=predicted,
            at=maps[0].at,
            rationale=(
                f"{spared:.0%} of {names} is for pixels that are cropped away; an error in what "
                "is left out is not met any more"
            ),
            source_edit=_SOURCE,
        )
