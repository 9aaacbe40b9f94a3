"""Labels of a single one and many zeros: ``one_hot_labels``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.step_cost import gain
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.model import OneHot
from uncork.core.evidence.stage import BATCH_LOADERS, Stage
from uncork.rules.base.thresholds import WORTH, bound, input_share, ms


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, where making, copying and walking over the zeros was seen to cost."""
    labels = diagnosis.one_hot
    if labels is None:
        return
    loader = next((s for s in diagnosis.stages if s.kind in BATCH_LOADERS), None)
    upper = _upper(diagnosis, labels, loader, machine.cpus)
    if upper < WORTH:
        return
    yield Finding(
        cause="one_hot_labels",
        share=1 - 1 / upper,
        upper_bound=upper,
        at=(loader.at if loader else None) or diagnosis.workload.at,
        evidence=(
            f"labels are rows of {labels.classes:,} numbers, one of them not zero: "
            f"{labels.bytes / 1e6:,.0f} MB a step. Filling and copying them takes "
            f"{ms(labels.made_s)}, the loss {ms(labels.loss_s)} longer than whole numbers would; "
            f"a step takes {ms(diagnosis.step_s)}"
        ),
        remedy=(
            "labels as whole numbers, with SparseCategoricalCrossentropy and "
            "SparseCategoricalAccuracy in the place of the others"
        ),
    )


def _upper(
    diagnosis: WorkloadDiagnosis, labels: OneHot, loader: Stage | None, cpus: float
) -> float:
    step_s = diagnosis.step_s
    if loader is not None and loader.kind == "loop":  # nothing else runs meanwhile
        made_s = min(labels.made_s, step_s * input_share(diagnosis))
        return bound(step_s, step_s - made_s - labels.loss_s)
    costs = costs_of(diagnosis, cpus)
    after = costs.with_step_sparing(labels.loss_s, labels.loss_cpu_s)
    if loader is not None and loader.wall_s_per_element:
        left = max(0.0, 1 - labels.made_s / loader.wall_s_per_element)
        after = after.spared([loader.index], left)
    return min(gain(costs, after), bound(step_s, after.step_s()))
