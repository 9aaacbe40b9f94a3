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
        f"rows of {padded.max_length:,} numbers are filled up with zeros, from "
        f"{padded.mean_length:.0f} "
        f"on average; put together by length they have {padded.bucketed_mean_length:.0f}, and "
        "on rows of "
        f"that the step itself, {format_ms(share * diagnosis.step_s)}, ran "
        f"{faster.ratio:.2f}x as "
        "fast"
    )
    remedy = (
        "batches of like length: bucket_by_sequence_length, each filled up to its longest "
        "(other rows share a batch then: another order)"
    )
    at = filling[-1] if filling else padded.at
    yield from step_finding(diagnosis, "padding", upper, at, evidence, remedy, comparison=faster)
