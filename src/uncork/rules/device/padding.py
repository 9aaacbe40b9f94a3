"""A step that computes on zeros which only fill rows up to one length: ``padding``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import (
    MIN_FINDING_SPEEDUP,
    format_ms,
    is_surely_faster,
    step_speedup_interval,
)

# Where rows are filled up; the last one in the pipeline is the one that sets their length.
_FILLING = ("padded_batch", "batch", "to_ragged")


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, where the step was seen to run faster without most of the padding."""
    del machine
    padded = diagnosis.padding
    if padded is None or not is_surely_faster(padded.truncated_speedup):
        return
    upper = diagnosis.speedup_with_faster_step(padded.truncated_speedup.ratio)
    if upper < MIN_FINDING_SPEEDUP:
        return
    filling = [s.at for s in diagnosis.stages if s.kind in _FILLING and s.at]
    share = diagnosis.breakdown.get("step", 0.0)
    yield Finding(
        cause="padding",
        share=min(share, 1 - 1 / upper),
        upper_bound=upper,
        upper_bound_interval=step_speedup_interval(diagnosis, padded.truncated_speedup),
        at=filling[-1] if filling else padded.at or diagnosis.workload.at,
        evidence=(
            f"rows of {padded.max_length:,} numbers are filled up with zeros, from "
            f"{padded.mean_length:.0f} "
            f"on average; put together by length they have {padded.bucketed_mean_length:.0f}, and "
            "on rows of "
            f"that the step itself, {format_ms(share * diagnosis.step_s)}, ran "
            f"{padded.truncated_speedup.ratio:.2f}x as "
            "fast"
        ),
        remedy="batches of like length: bucket_by_sequence_length, each filled up to its longest "
        "(other rows share a batch then: another order)",
    )
