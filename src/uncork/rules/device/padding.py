"""A step that computes on zeros which only fill rows up to one length: ``padding``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms, is_surely_faster

# Where rows are filled up; the last one in the pipeline is the one that sets their length.
_FILLING = ("padded_batch", "batch", "to_ragged")


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, where the step was seen to run faster without most of the padding."""
    del machine
    padded = diagnosis.padding
    faster = padded.truncated_speedup if padded else None
    if padded is None or faster is None or not is_surely_faster(faster):
        return
    upper = diagnosis.speedup_with_faster_step(faster.ratio)
    filling = [s.at for s in diagnosis.stages if s.kind in _FILLING and s.at]
    share = diagnosis.breakdown.get("step", 0.0)
    evidence = (
        f"rows are padded with zeros to {padded.max_length:,} numbers, from "
        f"{padded.mean_length:.0f} on average; grouped by length, they have "
        f"{padded.bucketed_mean_length:.0f}, and on such rows the step itself, "
        f"{format_ms(share * diagnosis.step_s)}, ran {faster.ratio:.2f}x as fast"
    )
    remedy = (
        "batch rows of similar length: bucket_by_sequence_length, each batch padded to its longest "
        "row (this changes the order of the rows)"
    )
    at = filling[-1] if filling else padded.at
    yield from step_finding(diagnosis, "padding", upper, at, evidence, remedy, comparison=faster)
