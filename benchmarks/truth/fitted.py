"""Workloads in the precision that this machine is fast in.

An expert switches bfloat16 on where it pays, and the scripts were written where it does. Elsewhere
it is emulated, up to twenty times slower, or native and still slower: an Intel Xeon with
AVX512_BF16 and without AMX computed products and convolutions in it at 0.55 of float32's rate. That
is a bottleneck that nobody planted. There run copies that compute in float32; their lines are the
same otherwise.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import tensorflow as tf

from benchmarks.truth.catalog import Workload
from uncork.core.base.record import replace, write_atomically
from uncork.measure.machine.devices import has_native_bfloat16

_LOW: Final = '"mixed_bfloat16"'
_FULL: Final = '"float32"'
# Precision itself is what these are about.
_ABOUT_PRECISION: Final = ("low_precision_unused", "low_precision_harmful")
# Shows itself only where bfloat16 is fast.
_NEEDS_BFLOAT16: Final = "low_precision_unused"
_SIDE: Final = 1_024
_ROUNDS: Final = 9


def fast_bfloat16() -> bool:
    """Whether a product of two matrices is faster in bfloat16 than in float32, both timed."""
    return bool(has_native_bfloat16()) and _product_s("bfloat16") < _product_s("float32")


def _product_s(dtype: str) -> float:
    """Of the fastest of some: what else the machine does can only slow them down."""
    matrix = tf.cast(tf.random.normal((_SIDE, _SIDE)), dtype)
    taken = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        tf.matmul(matrix, matrix).numpy()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def fitted(workload: Workload, folder: Path, *, fast: bool) -> Workload | None:
    """The workload itself, or a copy for a machine where bfloat16 does not pay.

    Args:
        workload: As it was written.
        folder: Where copies are kept.
        fast: This machine computes faster in bfloat16 than in float32.

    Returns:
        None where the bottleneck cannot show itself on this machine.
    """
    if fast or (workload.cause in _ABOUT_PRECISION and workload.cause != _NEEDS_BFLOAT16):
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
