"""Memory that a training takes, of what there is: measured on few rows first, then on more.

What a step takes is a line over the number of its examples, near enough: it is measured on few
rows, then on more, as long as the next is foreseen to fit. So no trial takes what the machine has
not got.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import psutil
import tensorflow as tf

from uncork.core.base.errors import OutOfMemory
from uncork.engine.fit.fit_subject import FitSubject
from uncork.measure.benchmark.peak_memory import measure_peak_memory
from uncork.measure.machine.device_memory import (
    device_limit_bytes,
    device_peak_bytes,
    reset_device_peak,
)
from uncork.measure.machine.probe import available_memory_bytes

# What TensorFlow, Python and NumPy raise.
_NO_MEMORY: Final = (tf.errors.ResourceExhaustedError, MemoryError)
# What TensorFlow makes of oneDNN's "out of memory", its status 1.
_ONEDNN: Final = "Compute received an exception:Status:1,"
# Of the memory that is left: what the input and the callbacks take beside a step is not known.
_MARGIN: Final = 0.8
# Parts of a batch, and times as many rows, that are measured.
_FIRST: Final = 64
_MORE: Final = 4
_SAID: Final = "OOM when allocating"
_SMALLER: Final = "a smaller batch, or a smaller model"


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error says that there was no memory.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("no memory"))
        (True, False)
    """
    return isinstance(error, _NO_MEMORY) or (
        isinstance(error, tf.errors.AbortedError) and _ONEDNN in str(error)
    )


def out_of_memory_message(error: BaseException) -> str:
    """The line of an error that says what there was no memory for.

    Example:
        >>> out_of_memory_message(MemoryError("Unable to allocate 3 GiB"))
        'Unable to allocate 3 GiB'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = next((line for line in lines if _SAID in line or _ONEDNN in line), "")
    found = found or (lines[0] if lines else "no memory")
    return found[max(0, found.find(_SAID)) :].split(" on /job")[0].split(" in file ")[0]


def out_of_memory_error(error_message: str, reason: str) -> OutOfMemory:
    """There is no way to train it."""
    return OutOfMemory(f"{error_message}; {reason}", "a training that fits into memory", _SMALLER)


def measure_rows(subject: FitSubject, size: int, memory: MemoryMeter) -> dict[int, int]:
    """What the step as written takes on so many rows, as long as the next is foreseen to fit."""
    taken: dict[int, int] = {}
    rows = max(1, size // _FIRST)
    while rows < size and predict_bytes(taken, rows) <= memory.max_bytes:
        used = memory.measure_peak(subject.runner_on_rows(rows).prime)
        subject.restore()
        if used is None and (taken or rows == 1):
            break
        if used is None:
            rows = 1
            continue
        taken[rows] = used
        rows *= _MORE
    return taken


def bytes_per_row(bytes_by_rows: dict[int, int]) -> float:
    """Bytes of each row more, by the last two sizes."""
    (less, few), (more, many) = sorted(bytes_by_rows.items())[-2:]
    return max(0.0, (many - few) / (more - less))


def predict_bytes(bytes_by_rows: dict[int, int], rows: int) -> float:
    """What so many rows will take, by the last two sizes; nothing where there are none.

    Example:
        >>> predict_bytes({1: 100, 4: 130}, 16), predict_bytes({1: 100}, 16)
        (250.0, 0.0)
    """
    if len(bytes_by_rows) < 2:
        return 0.0
    last = max(bytes_by_rows)
    return bytes_by_rows[last] + bytes_per_row(bytes_by_rows) * (rows - last)


class MemoryMeter:
    """Of the device that trains, or of this process where that is the host's.

    Attributes:
        initial_bytes: What was taken when this was made.
        max_bytes: That may be taken.
    """

    def __init__(self, device: str) -> None:
        total = device_limit_bytes(device)
        self._device = device if total else ""
        if total:
            self.initial_bytes, self.max_bytes = device_peak_bytes(device), _MARGIN * total
        else:
            self.initial_bytes = int(psutil.Process().memory_info().rss)
            self.max_bytes = self.initial_bytes + _MARGIN * available_memory_bytes()

    def measure_peak(self, run: Callable[[], object]) -> int | None:
        """The most while something runs, with all that was taken before; None if it ran out."""
        try:
            if self._device:
                reset_device_peak(self._device)
                run()
                return device_peak_bytes(self._device)
            with measure_peak_memory() as found:
                run()
            return found.total_bytes
        except Exception as error:
            if is_out_of_memory(error):
                return None
            raise
