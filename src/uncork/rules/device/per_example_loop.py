"""A loop in the step that takes one example at a time: ``per_example_loop``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.kernels import KernelGroup
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms

# By how much a count of rounds may be off, as part of it.
_OFF: Final = 0.1
# Keras's own loops over time.
_RECURRENT: Final = ("RNN", "LSTM", "GRU", "SimpleRNN", "ConvLSTM")


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding; a loop of as many rounds as a batch has examples goes over these."""
    del machine
    examples = diagnosis.workload.batch_size or 0
    parts = [p for p in diagnosis.kernels if _is_over(p, examples)]
    if not parts:
        return
    share = sum(p.share for p in parts) * (1 - 1 / examples)
    upper = diagnosis.speedup_without_kernels(share)
    lost_s = diagnosis.step_s * (1 - 1 / upper)
    calls = sum(p.calls_per_step for p in parts)
    at = next((p.at for p in parts if p.phase == "forward" and p.at), None)
    evidence = (
        f"{format_ms(lost_s)} of a {format_ms(diagnosis.step_s)} step go to a loop of {examples} "
        f"iterations, one for each example of the batch, and to its gradient: {calls:.0f} small "
        "kernels"
    )
    remedy = "vectorize the loop over all examples, with a mask where their lengths differ"
    yield from step_finding(diagnosis, "per_example_loop", upper, at, evidence, remedy)


def _is_over(part: KernelGroup, examples: int) -> bool:
    """The condition of a loop is asked once more than there are rounds, and steps overlap."""
    recurrent = part.layer.startswith(_RECURRENT)
    near = abs(part.loop_iterations - examples) <= max(1.0, _OFF * examples)
    return part.loop_iterations > 1 and near and not recurrent
