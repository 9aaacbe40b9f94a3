"""Several replicas with little to do, and much overhead: ``replica_too_small``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import is_surely_faster

# Ratio of samples/s. Every larger batch is somewhat faster; this is what an overhead looks like.
_OVERHEAD: Final = 1.5


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding; the larger batch trains otherwise, so it is proposed, not tried."""
    del machine
    larger, work = diagnosis.larger_replica_batch, diagnosis.workload
    if larger is None or not is_surely_faster(larger.speedup) or larger.speedup.ratio < _OVERHEAD:
        return
    upper = diagnosis.speedup_with_faster_step(larger.speedup.ratio)
    if upper < _OVERHEAD:
        return
    batches = [stage.at for stage in diagnosis.stages if stage.kind == "batch" and stage.at]
    each = (work.batch_size or 0) // work.replicas
    evidence = (
        f"a step of {work.replicas} replicas with {each} samples each is mostly overhead: with "
        f"{larger.batch_multiplier} times as many, it trains {larger.speedup.ratio:.2g}x as many "
        "samples a second"
    )
    remedy = (
        "use a larger global batch with a larger learning rate (this changes the training: compare "
        "the accuracy), or use one device"
    )
    yield from step_finding(
        diagnosis, "replica_too_small", upper, batches[-1] if batches else work.at, evidence, remedy
    )
