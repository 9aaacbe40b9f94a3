"""A step that waits for its batch to be sent to its device: ``transfer``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.transfer_time import (
    TransferSaving,
    find_array_offload,
    find_transfer_saving,
    predict_transfer_gain,
)
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.model import Transfer
from uncork.core.evidence.stage import Stage
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms, speedup_bound

_BYTES: Final = "send uint8, and convert it to floats in the model (Rescaling)"
_IN_STEP: Final = (
    f"'uncork tune' runs this map in the training step (map_on_device); by hand, {_BYTES}"
)
_FOR_LOOP: Final = (
    "'uncork tune' runs this map on the device, before each step (map_on_device); by hand, send "
    "uint8, and convert it to floats in the step"
)
# No word of tf.data.experimental.prefetch_to_device: on an H200, Keras's fit was slower with it,
# for batches of 77 MB (0.95x) as well as of 19 MB (0.89x).
_ONCE: Final = (
    "if the data fit into the memory of the device: copy them there once, and gather each batch in "
    "the step"
)
_ROWS_ONCE: Final = (
    "'uncork tune' copies these arrays to the device once, if they fit, and gathers each batch "
    "there (data_on_device)"
)


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, from the time that sending a batch was seen to take."""
    transfer = diagnosis.transfer
    if transfer is None:
        return
    spared = find_transfer_saving(transfer, diagnosis.stages)
    upper = _upper(diagnosis, transfer, spared or TransferSaving(share=1.0), machine.cpus)
    source = next((s for s in diagnosis.stages if s.step_offload and s.kind != "map"), None)
    by = spared.widening_map if spared else source
    least = f"; as uint8, it would send {_least(transfer, spared) / 1e6:,.1f} MB" if spared else ""
    evidence = (
        f"each step sends {transfer.batch_bytes / 1e6:,.1f} MB to {transfer.device}: "
        f"{format_ms(transfer.wall_s)} of a {format_ms(diagnosis.step_s)} step{least}"
    )
    remedy = _remedy(diagnosis, by, narrow=spared is None)
    yield from step_finding(diagnosis, "transfer", upper, by.at if by else None, evidence, remedy)


def _upper(
    diagnosis: WorkloadDiagnosis, transfer: Transfer, spared: TransferSaving, cpus: float
) -> float:
    """The gain of sending less, and of making no floats here: the device has them made at once."""
    if _is_loop(diagnosis):  # nothing else runs meanwhile
        return speedup_bound(diagnosis.step_s, diagnosis.step_s - spared.share * transfer.wall_s)
    return predict_transfer_gain(diagnosis, transfer, spared, cpus)


def _least(transfer: Transfer, spared: TransferSaving) -> float:
    return transfer.batch_bytes * (1 - spared.share)


def _remedy(diagnosis: WorkloadDiagnosis, by: Stage | None, *, narrow: bool) -> str:
    in_fit = diagnosis.workload.kind == "fit"
    if narrow:
        return _ROWS_ONCE if in_fit and find_array_offload(diagnosis) is not None else _ONCE
    if by is None or by.step_offload is None:
        return _BYTES
    if in_fit:
        return _IN_STEP
    # A loop whose step is one compiled function.
    return _FOR_LOOP if diagnosis.workload.step_code_digest else _BYTES


def _is_loop(diagnosis: WorkloadDiagnosis) -> bool:
    return any(stage.kind == "loop" for stage in diagnosis.stages)
