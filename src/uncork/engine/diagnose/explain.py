"""A pipeline by itself, explained: no training, nothing tried, nothing changed."""

from __future__ import annotations

import tempfile
from typing import Final

from uncork.core.documents.diagnosis import Explanation
from uncork.core.evidence.stage import with_chosen
from uncork.measure.machine.probe import cpus
from uncork.pipeline.ir.tree import read
from uncork.pipeline.profile.stage_costs import measure
from uncork.pipeline.profile.throughput import supply
from uncork.pipeline.runtime.trial_copy import readable

# Of the time, for the whole pipeline together; the stages get the rest.
_TOGETHER: Final = 0.25


def explanation(dataset: object, budget_s: float) -> Explanation:
    """Measure all stages of a dataset, those of its branches too.

    Args:
        dataset: Any ``tf.data.Dataset``; it, its shuffles' epochs and its files stay as they are.
        budget_s: Seconds, roughly.
    """
    read(dataset)  # what is no dataset is refused, None too
    with tempfile.TemporaryDirectory(prefix="uncork-") as scratch:
        pipeline = readable(dataset, scratch)
        assert pipeline is not None
        together = supply(pipeline.dataset, budget_s=_TOGETHER * budget_s)
        stages = measure(pipeline, batch_size=None, budget_s=(1 - _TOGETHER) * budget_s)
        return Explanation(
            stages=with_chosen(stages, together.chosen),
            elements_per_s=together.batches_per_s,
            cpu_s_per_element=together.cpu_s,
            cpus=cpus(),
        )
