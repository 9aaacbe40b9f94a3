"""Workloads in the precision that this machine computes natively.

An expert switches bfloat16 on where the processor has it, and the scripts were written on one that
does. Elsewhere it is emulated, up to twenty times slower: a brake that nobody planted. There run
copies that compute in float32; line by line they are the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.truth.catalog import Workload
from uncork.core.record import replace, write_atomically

_LOW: Final = '"mixed_bfloat16"'
_FULL: Final = '"float32"'
# Precision itself is what these are about.
_ABOUT_PRECISION: Final = ("low_precision_unused", "low_precision_harmful")
# Shows itself only where bfloat16 is fast.
_NEEDS_BFLOAT16: Final = "low_precision_unused"


def fitted(workload: Workload, folder: Path, *, native: bool) -> Workload | None:
    """The workload itself, or a copy for a machine without bfloat16.

    Args:
        workload: As it was written.
        folder: Where copies are kept.
        native: This machine computes bfloat16 natively.

    Returns:
        None where the brake cannot show itself on this machine.
    """
    if native or (workload.cause in _ABOUT_PRECISION and workload.cause != _NEEDS_BFLOAT16):
        return workload
    if workload.cause == _NEEDS_BFLOAT16:
        return None
    if _LOW not in workload.script.read_text():
        return workload
    fixed = workload.fixed
    return replace(
        workload,
        script=_copy(workload.script, folder / workload.name),
        fixed=_copy(fixed, folder / workload.name) if fixed is not None else None,
    )


def _copy(script: Path, folder: Path) -> Path:
    write_atomically(folder / script.name, script.read_text().replace(_LOW, _FULL).encode())
    return folder / script.name
