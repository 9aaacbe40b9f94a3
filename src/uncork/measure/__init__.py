"""Measuring: the machine, one block of training steps, two versions in turn."""

from uncork.measure.contention import together
from uncork.measure.interleave import (
    Block,
    Runner,
    Trial,
    in_turn,
    interleave,
    paired,
    patiently,
    summarize,
)
from uncork.measure.machine import available_memory, probe
from uncork.measure.peak_memory import peak_memory

__all__ = [
    "Block",
    "Runner",
    "Trial",
    "available_memory",
    "in_turn",
    "interleave",
    "paired",
    "patiently",
    "peak_memory",
    "probe",
    "summarize",
    "together",
]
