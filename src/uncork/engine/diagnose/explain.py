"""A pipeline by itself, explained: no training, nothing tried, nothing changed."""

from __future__ import annotations

import tempfile
from typing import Final

from uncork.core.explanation import Explanation
from uncork.core.stage import with_chosen
from uncork.engine.pipelines import readable
from uncork.measure.machine import cpus
from uncork.pipeline import measure, read, supply

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
