"""Arithmetic and nothing else, most of it at the full size of the input: ``compute_bound``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.model import FullResolutionLayer
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms

# Ratio. Another model must be trained and judged anew: nobody does that for a few percent.
_WORTH: Final = 1.3
_REMEDIES: Final = {
    "strides": "use strides=2 in the first of them, as in the stem of a ResNet",
    "stacking": "stack neighbouring time steps before it, as speech recognition does with frames",
}


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding: layers that a coarser input would make cheaper.

    It tells the price of a decision, not of a mistake, so it stands only where there is nothing
    else to gain.
    """
    del machine
    shares = {
        each: _share(diagnosis, each) for each in dict.fromkeys(diagnosis.full_resolution_layers)
    }
    if not shares:
        return
    upper = diagnosis.speedup_without_kernels(
        sum(s * (1 - 1 / each.reduction_factor) for each, s in shares.items())
    )
    if upper < _WORTH:
        return
    most, share = max(shares, key=shares.__getitem__), sum(shares.values())
    size = "x".join(map(str, most.position_counts))
    evidence = (
        f"{share:.0%} of the kernel time of a {format_ms(diagnosis.step_s)} step goes to "
        f"{_named(shares)} at the full size of the input, {size}"
    )
    remedy = (
        f"{_REMEDIES[most.reduced_by]}, which leaves one position in {most.reduction_factor}. This "
        "changes the model: check its accuracy"
    )
    yield from step_finding(diagnosis, "compute_bound", upper, most.at, evidence, remedy)


def _share(diagnosis: WorkloadDiagnosis, layer: FullResolutionLayer) -> float:
    """Of all kernels of the step."""
    parts = (p for p in diagnosis.kernels if (p.layer, p.at) == (layer.layer, layer.at))
    return sum(part.share for part in parts)


def _named(layers: Iterable[FullResolutionLayer]) -> str:
    """Classes, and on how many lines each is made."""
    lines = Counter(each.layer for each in layers)
    return " and ".join(f"{name} (on {n} lines)" if n > 1 else name for name, n in lines.items())
