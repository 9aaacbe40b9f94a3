"""A pipeline by itself, explained: no training, nothing tried, nothing changed."""

from __future__ import annotations

from typing import Final

from uncork.core.base.owned_folder import owned_folder
from uncork.core.documents.diagnosis import Explanation
from uncork.core.evidence.stage import with_autotuned_parallelism
from uncork.measure.machine.probe import usable_cpus
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.profile.stage_costs import measure_stage_costs
from uncork.pipeline.profile.throughput import measure_supply
from uncork.pipeline.runtime.trial_copy import create_trial_copy

# Of the time, for the whole pipeline together; the stages get the rest.
_TOGETHER: Final = 0.25


def explain_pipeline(dataset: object, budget_s: float) -> Explanation:
    """Measure all stages of a dataset, those of its branches too.

    Args:
        dataset: Any ``tf.data.Dataset``; it, its shuffles' epochs and its files stay as they are.
        budget_s: Seconds, roughly.
    """
    read_pipeline(dataset)  # what is no dataset is refused, None too
    with owned_folder() as scratch:
        pipeline = create_trial_copy(dataset, scratch)
        assert pipeline is not None
        together = measure_supply(pipeline.dataset, budget_s=_TOGETHER * budget_s)
        stages = measure_stage_costs(pipeline, batch_size=None, budget_s=(1 - _TOGETHER) * budget_s)
        return Explanation(
            stages=with_autotuned_parallelism(stages, together.autotuned_parallelism),
            elements_per_s=together.batches_per_s,
            cpu_s_per_element=together.cpu_s_per_batch,
            cpus=usable_cpus(),
        )
