"""Decode of JPEG images only what is cropped from them.

Legal as ``exact``: what is decoded is the crop and a few rows and columns around it, of which the
values of its own pixels are made; where the crop lies is drawn or computed as before. An image's
shape is read from its file's header. Files that are no complete JPEG are decoded as before.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.step_cost import gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import DecodeAndCrop
from uncork.core.evidence.stage_graph import cropping_maps
from uncork.optimizations.base.preconditions import no_pipeline
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

_SOURCE: Final = """\
height, width = tf.unstack(tf.image.extract_jpeg_shape(file)[:2])   # of the whole image
...                                                                 # where to crop, as before
image = tf.image.decode_and_crop_jpeg(file, [top, left, rows, columns], channels=3)
# its outermost columns differ by some units: decode one more where there is one, and cut it off"""


@final
class DecodeWhatIsCropped(Optimization):
    """Spare the decoding of pixels that are thrown away."""

    name = "decode_and_crop"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The map that spends most on pixels that it crops away."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        cropping = [s for s in diagnosis.stages if s.cropped_cpu_s_per_element is not None]
        if not cropping:
            return Skipped(reason="no map crops a JPEG image that it decodes")
        costs = costs_of(diagnosis, machine.cpus)
        best = max(cropping, key=lambda s: gain(costs, costs.cropped(s.index)))
        predicted = gain(costs, costs.cropped(best.index))
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        in_two = best.parallelism == 1 and best.prefix is not None and best.draws is None
        if in_two and gain(costs, costs.split(best.index)) > predicted:
            return Skipped(reason="on all cores the whole images are decoded sooner")
        maps = cropping_maps(diagnosis.stages, best.index)
        whole_s = sum(stage.cpu_s_per_element or 0.0 for stage in maps)
        spared = 1 - (best.cropped_cpu_s_per_element or 0.0) / (whole_s or 1.0)
        names = " and ".join(stage.name or "the map" for stage in maps)
        return Proposal(
            edits=(DecodeAndCrop(stage=best.index, expects=diagnosis.workload.pipeline),),
            predicted=predicted,
            at=maps[0].at,
            why=f"{spared:.0%} of {names} is for pixels that are cropped away; an error in what is "
            "left out is not met any more",
            source_edit=_SOURCE,
        )
