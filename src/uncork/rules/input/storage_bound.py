"""Data in very many small files, or in more than memory holds: ``storage_bound``.

Opening a file costs more than reading a few kilobytes of it does, on any storage. And what is
larger than the memory that is free comes from the disk anew in every epoch, at the disk's speed. A
cache in files that is read again in every epoch has the same name, and is found where caches are.
"""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import costs_bound, input_finding, step_finding, waits_for_input
from uncork.rules.base.thresholds import MIN_FINDING_SPEEDUP, format_ms, stage_label


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One for what every epoch reads from the disk, one for each map that opens many files."""
    yield from _from_disk(diagnosis)
    if not waits_for_input(diagnosis):
        return
    costs = attribute_costs(diagnosis, machine.cpus)
    for stage in diagnosis.stages:
        reading, cost_s = stage.file_reads, stage.cpu_s_per_element
        if reading is None or not cost_s or not stage.elements_per_step:
            continue
        # What is left: one file in place of all.
        spared = reading.cpu_s_per_element * (1 - 1 / reading.files_per_element)
        together = costs.with_stages_share([stage.index], 1 - spared / cost_s)
        upper = costs_bound(diagnosis, costs, together)
        read_s = reading.cpu_s_per_element * stage.elements_per_step
        evidence = (
            f"{stage_label(stage)} opens {reading.files_per_element:,} files for each element; "
            f"opening and reading them takes {format_ms(read_s)} of "
            f"{format_ms(stage.cpu_s_per_step)} of CPU a step"
        )
        remedy = "pack the files into TFRecord files of about 100 MB each"
        yield from input_finding(diagnosis, "storage_bound", upper, stage.at, evidence, remedy)


def _from_disk(diagnosis: WorkloadDiagnosis) -> Iterator[Finding]:
    """The disk is slower than the training step; what was measured may have come from memory."""
    files, disk = diagnosis.cold_files, diagnosis.ceilings.get("disk", 0.0)
    consumer = diagnosis.ceilings.get("consumer", 0.0)
    if files is None or not disk or files.total_bytes <= diagnosis.memory_available_bytes:
        return
    reached = min(disk, diagnosis.measurement.samples_per_s)
    upper = consumer / reached
    if upper < MIN_FINDING_SPEEDUP or disk > reached * MIN_FINDING_SPEEDUP:
        return
    at = next((s.at for s in diagnosis.stages if s.file_bytes == files.total_bytes), None)
    evidence = (
        f"{files.total_bytes / 1e9:,.0f} GB of files do not fit into the "
        f"{diagnosis.memory_available_bytes / 1e9:,.0f} GB of free memory, so each epoch reads "
        f"them from the disk: Uncork measured {files.read_bytes_per_s / 1e6:,.0f} MB/s, which "
        f"allows {disk:,.0f} samples/s"
    )
    remedy = (
        "use a faster disk, or smaller files: images in the size that the model uses, records with "
        "only the features that it trains on"
    )
    yield from step_finding(diagnosis, "storage_bound", upper, at, evidence, remedy)
