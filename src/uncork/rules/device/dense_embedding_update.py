"""A pass over a whole table for the few rows of a batch: ``dense_embedding_update``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms

_BY_TUNE: Final = "read and update only these rows ('uncork tune' tries it: row_updates)"
_BY_HAND: Final = (
    "update only these rows, with SGD or a row-wise optimizer for the table; or use a smaller table"
)


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, for all tables of which a batch looks up but a part."""
    del machine
    work = diagnosis.workload
    parts = [p for p in diagnosis.kernels if p.max_used_rows < p.table_rows]
    if not parts:
        return
    spared = sum(p.share * (1 - p.max_used_rows / p.table_rows) for p in parts)
    upper = diagnosis.speedup_without_kernels(spared)
    largest = max(parts, key=lambda p: p.share)
    evidence = (
        f"{format_ms(diagnosis.step_s * (1 - 1 / upper))} of a {format_ms(diagnosis.step_s)} step "
        f"go to passes over whole tables: a batch looks up {largest.max_used_rows:,} of "
        f"{largest.table_rows:,} rows"
    )
    remedy = _BY_TUNE if work.row_update_table_count else _BY_HAND
    at = largest.at or work.step_setup_at
    yield from step_finding(diagnosis, "dense_embedding_update", upper, at, evidence, remedy)
