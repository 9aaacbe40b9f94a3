"""Time and bytes of sending a batch to the training device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.core.evidence.model import Transfer
from uncork.measure.machine.device_memory import free_device_bytes

# Smaller tensors cost no more than a message does.
_LEAST_BYTES: Final = 1 << 16
_ROUNDS: Final = 5
# What dividing by 255 in float32 leaves of a whole number, at most.
_ROUNDED: Final = 1e-3
_HOST: Final = "/device:CPU:0"


def measure_batch_transfer(batch: Any, device: str) -> Transfer | None:
    """Send a batch from this host's memory to a device, timed; None where it need not travel.

    Args:
        batch: What a step is given; any nest of tensors and arrays.
        device: Where the step's variables are, in TensorFlow's words; ``""`` where not known.

    Example:
        >>> measure_batch_transfer(tf.zeros([1000, 1000]), "/device:CPU:0") is None
        True
    """
    tensors = [leaf for leaf in tf.nest.flatten(batch) if _counts(leaf)]
    if not device or not tensors or _is_here(device):
        return None
    with tf.device(_HOST):
        tensors = [tf.constant(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in tensors]
        rows = [leaf[:1] for leaf in tensors]
    received, little = _receiver(tensors, device), _receiver(rows, device)
    clocks = [(_clock(received, tensors), _clock(little, rows)) for _ in range(1 + _ROUNDS)]
    return Transfer(
        device=_name(device),
        batch_bytes=sum(_bytes(t) for t in tensors),
        min_bytes=sum(_needed_bytes(t) for t in tensors),
        wall_s=_beyond(clocks[1:], 0),
        cpu_s=_beyond(clocks[1:], 1),
        free_device_bytes=free_device_bytes(device),
        placement=device,
    )


def _receiver(tensors: list[Any], device: str) -> Callable[..., Any]:
    """A function that the tensors are sent to as to a training step; it reads a number of each."""

    def receive(*given: Any) -> list[Any]:
        with tf.device(device):
            return [tf.reshape(tensor, [-1])[0] for tensor in given]

    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
    compiled: Callable[..., Any] = tf.function(receive).get_concrete_function(*specs)
    return compiled


def _clock(receive: Callable[..., Any], tensors: list[Any]) -> tuple[float, float]:
    """Elapsed and CPU seconds until all have arrived."""
    begin, cpu = time.perf_counter(), time.process_time()
    for number in receive(*tensors):
        number.numpy()
    return time.perf_counter() - begin, time.process_time() - cpu


def _beyond(clocks: Sequence[tuple[tuple[float, float], tuple[float, float]]], i: int) -> float:
    """What sending whole tensors takes longer than the same call with little of them."""
    return max(0.0, statistics.median(whole[i] - call[i] for whole, call in clocks))


def _counts(leaf: Any) -> bool:
    if not isinstance(leaf, (tf.Tensor, np.ndarray)):
        return False
    dtype = tf.as_dtype(leaf.dtype)
    return bool(dtype.is_floating or dtype.is_integer) and _bytes(leaf) >= _LEAST_BYTES


def _bytes(leaf: Any) -> int:
    return int(np.prod(leaf.shape) * tf.as_dtype(leaf.dtype).size)


def _needed_bytes(tensor: Any) -> int:
    """Of a tensor whose floats are whole numbers of one byte, or those over 255: a byte each."""
    values = np.asarray(tensor)
    if values.dtype.kind != "f" or not np.isfinite(values).all() or values.min() < 0:
        return int(values.nbytes)
    highest = np.iinfo(np.uint8).max
    scaled = values * highest if values.max() <= 1 else values
    whole = scaled.max() <= highest and np.abs(scaled - np.rint(scaled)).max() < _ROUNDED
    return int(values.size if whole else values.nbytes)


def _name(device: str) -> str:
    """Without the names of jobs, which are the user's."""
    found = tf.DeviceSpec.from_string(device)
    name = f"{found.device_type}:{found.device_index or 0}"
    return name if found.job in (None, "localhost") else f"{name} of another host"


def _is_here(device: str) -> bool:
    """The host's own memory."""
    found = tf.DeviceSpec.from_string(device)
    here = tf.DeviceSpec.from_string(tf.zeros([]).device if found.job else device)
    return found.device_type == "CPU" and (found.job, found.task) == (here.job, here.task)
