"""The speed of TensorFlow's file cache in one folder, measured with a few files.

A record costs something whatever its size (a key, a checksum, the element handed on), and each
byte something more. So two files are timed: of small elements, and of large ones. What is read
comes from the disk, as far as that is this machine's to decide: the system is told to forget the
files first. A virtual machine's host, or a disk itself, may remember them still, so each is read
only once.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Final

import numpy as np
import psutil
import tensorflow as tf

from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.core.base.errors import EditRefused
from uncork.core.evidence.storage import CacheFolder, ElementIoCost
from uncork.pipeline.ir.builders import file_cache
from uncork.pipeline.ir.cache_files import check_cache_folder, create_cache_files

# Bytes of an element, and how many.
_SMALL: Final = (4 << 10, 2_048)
_LARGE: Final = (1 << 20, 64)
_IN_MEMORY: Final = frozenset({"ramfs", "tmpfs"})


def measure_cache_folder(folder: str) -> CacheFolder:
    """Facts about a cache folder, including its speed; the measurement takes about a second.

    Args:
        folder: As the user has named it.

    Example:
        >>> measure_cache_folder("/no/such/folder").refusal_reason
        'Uncork cannot cache files in /no/such/folder: No such file or directory'
    """
    place = os.path.abspath(folder)  # noqa: PTH100 - symbolic links stay
    if _is_memory(os.path.realpath(place)):
        return CacheFolder(
            path=place, refusal_reason=f"files in {place} would be in memory, not on a disk"
        )
    most = 2 * (_SMALL[0] * _SMALL[1] + _LARGE[0] * _LARGE[1])
    try:
        check_cache_folder(place, most)
        small, large = (_timed(place, *each) for each in (_SMALL, _LARGE))
    except EditRefused as refusal:
        return CacheFolder(path=place, refusal_reason=refusal.received)
    except (OSError, tf.errors.OpError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        return CacheFolder(
            path=place, refusal_reason=f"Uncork cannot cache files in {place}: {first}"[:150]
        )
    read, write = (_speed(small[i], large[i]) for i in (0, 1))
    return CacheFolder(
        path=place, free_bytes=shutil.disk_usage(place).free, read_cost=read, write_cost=write
    )


def _is_memory(place: str) -> bool:
    """Whether the file system of a folder keeps its files in memory."""
    mounted = {each.mountpoint: each.fstype for each in psutil.disk_partitions(all=True)}
    above = (str(path) for path in (Path(place), *Path(place).parents))
    return next((mounted[path] for path in above if path in mounted), "") in _IN_MEMORY


def _timed(place: str, size: int, count: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Elapsed and CPU seconds of an element, read and written."""
    files = create_cache_files(place, size * count)
    made = _elements(size, count)
    cached = file_cache(made, files)
    _pass(made)  # what its first pass takes besides is not the elements'
    alone = _pass(made)
    begin = time.perf_counter()
    filling = _pass(cached)
    files.drop_page_cache()
    written_s = time.perf_counter() - begin
    write = max(0.0, written_s - alone[0]), max(0.0, filling[1] - alone[1])
    read = _pass(cached)
    return (read[0] / count, read[1] / count), (write[0] / count, write[1] / count)


def _elements(size: int, count: int) -> Dataset:
    """No two alike, and nothing to be compressed."""
    with tf.device("CPU:0"):  # where files are read, whatever else there is
        noise = tf.constant(np.random.default_rng(0).integers(0, 1 << 62, size // 8))
    return tf.data.Dataset.range(count).map(lambda number: noise + number)


def _pass(dataset: Dataset) -> tuple[float, float]:
    """Elapsed and CPU seconds, without Python between the elements."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    dataset.reduce(np.int64(0), lambda count, _: count + 1)
    return time.perf_counter() - wall_s, time.process_time() - cpu_s


def _speed(small: tuple[float, float], large: tuple[float, float]) -> ElementIoCost:
    """The line through two sizes, that of an element of no bytes at least 0."""
    wall, cpu = (_line(small[i], large[i]) for i in (0, 1))
    return ElementIoCost(
        wall_s_per_element=wall[0],
        wall_s_per_byte=wall[1],
        cpu_s_per_element=cpu[0],
        cpu_s_per_byte=cpu[1],
    )


def _line(small_s: float, large_s: float) -> tuple[float, float]:
    per_byte = max(0.0, large_s - small_s) / (_LARGE[0] - _SMALL[0])
    return max(0.0, small_s - per_byte * _SMALL[0]), per_byte
