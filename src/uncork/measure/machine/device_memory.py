"""The memory of an accelerator: what it has, what was taken at most, what is left."""

from __future__ import annotations

import tensorflow as tf

from uncork.compat.tf.devices import memory_limits


def free_device_bytes(device: str) -> int | None:
    """Bytes beyond the most that this process has had in use on a device so far.

    Args:
        device: In TensorFlow's words.

    Returns:
        None where TensorFlow does not tell, as of a TPU, or of a device of another process.

    Example:
        >>> free_device_bytes("/device:CPU:0") is None
        True
    """
    total = device_limit_bytes(device)
    return None if total is None else max(0, total - device_peak_bytes(device))


def device_limit_bytes(device: str) -> int | None:
    """Bytes that this process may take on a device; None as of :func:`free_device_bytes`.

    Args:
        device: In TensorFlow's words.

    Example:
        >>> device_limit_bytes("/device:CPU:0") is None
        True
    """
    name = _name(device)
    if name is None:
        return None
    return int(memory_limits().get(f"/device:{name}") or 0) or None


def device_peak_bytes(device: str) -> int:
    """Bytes that this process has had in use on a device at most, since :func:`reset_device_peak`.

    Args:
        device: One that has a :func:`device_limit_bytes`.
    """
    return int(tf.config.experimental.get_memory_info(_name(device))["peak"])


def reset_device_peak(device: str) -> None:
    """Reset the :func:`device_peak_bytes` of a device that has a :func:`device_limit_bytes`."""
    tf.config.experimental.reset_memory_stats(_name(device))


def _name(device: str) -> str | None:
    asked = tf.DeviceSpec.from_string(device)
    if asked.device_type != "GPU" or asked.job not in (None, "localhost"):
        return None
    return f"GPU:{asked.device_index or 0}"
