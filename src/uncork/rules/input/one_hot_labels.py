"""Labels of a single one and many zeros: ``one_hot_labels``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.model import OneHotLabels
from uncork.core.evidence.stage import BATCH_LOADERS, Stage
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms, input_share, speedup_bound


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, where making, copying and walking over the zeros was seen to cost."""
    labels = diagnosis.one_hot_labels
    if labels is None:
        return
    loader = next((s for s in diagnosis.stages if s.kind in BATCH_LOADERS), None)
    upper = _upper(diagnosis, labels, loader, machine.cpus)
    evidence = (
        f"each label is a row of {labels.class_count:,} numbers, all but one of them zero: "
        f"{labels.batch_bytes / 1e6:,.0f} MB a step. Creating and copying the rows takes "
        f"{format_ms(labels.creation_s)}, and the loss takes {format_ms(labels.loss_s)} longer "
        f"than on integer labels; a step takes {format_ms(diagnosis.step_s)}"
    )
    remedy = "use integer labels, with SparseCategoricalCrossentropy and SparseCategoricalAccuracy"
    yield from step_finding(
        diagnosis, "one_hot_labels", upper, loader.at if loader else None, evidence, remedy
    )


def _upper(
    diagnosis: WorkloadDiagnosis, labels: OneHotLabels, loader: Stage | None, cpus: float
) -> float:
    step_s = diagnosis.step_s
    if loader is not None and loader.kind == "loop":  # nothing else runs meanwhile
        made_s = min(labels.creation_s, step_s * input_share(diagnosis))
        return speedup_bound(step_s, step_s - made_s - labels.loss_s)
    costs = attribute_costs(diagnosis, cpus)
    after = costs.with_faster_consumer(labels.loss_s, labels.loss_cpu_s)
    if loader is not None and loader.wall_s_per_element:
        left = max(0.0, 1 - labels.creation_s / loader.wall_s_per_element)
        after = after.with_stages_share([loader.index], left)
    return min(predict_gain(costs, after), speedup_bound(step_s, after.step_s()))
