"""Augmentation that repeats in each epoch: ``repeated_draws``, a correctness issue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.stage import Stage
from uncork.rules.base.findings import correctness_finding

# Downstream of them a pass is not an epoch: ``repeat`` continues the random numbers, and a cache is
# another finding (``random_under_cache``).
_OTHER_PASSES: Final = frozenset({"repeat", "cache"})


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each map with equal random numbers in each epoch; reported, never fixed."""
    del machine
    work, stages = diagnosis.workload, diagnosis.stages
    if (
        work.epochs < 2
        or work.is_epoch_count_assumed
        or work.has_explicit_steps
        or work.is_dataset_recreated
    ):
        return
    for stage in stages:
        if not stage.has_repeating_randomness or _is_read_otherwise(stage, stages):
            continue
        evidence = (
            "its random ops have seeds, and the elements reach it in the same order: every epoch "
            "changes each element as the first epoch does"
        )
        remedy = (
            "add a shuffle before it that reshuffles, or use tf.random.stateless_* ops with seeds "
            "from tf.data.Dataset.random(seed=1, rerandomize_each_iteration=True)"
        )
        yield correctness_finding("repeated_draws", stage.at, evidence, remedy)


def _is_read_otherwise(stage: Stage, stages: Sequence[Stage]) -> bool:
    return any(above.kind in _OTHER_PASSES for above in stages if above.index > stage.index)
