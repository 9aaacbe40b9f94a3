"""What is left of the memory of an accelerator."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.client import device_lib


def room(device: str) -> int | None:
    """Bytes beyond the most that this process has had in use on a device so far.

    Args:
        device: In TensorFlow's words.

    Returns:
        None where TensorFlow does not tell, as of a TPU, or of a device of another process.

    Example:
        >>> room("/device:CPU:0") is None
        True
    """
    asked = tf.DeviceSpec.from_string(device)
    if asked.device_type != "GPU" or asked.job not in (None, "localhost"):
        return None
    name = f"GPU:{asked.device_index or 0}"
    limits = {each.name: each.memory_limit for each in device_lib.list_local_devices()}
    limit = limits.get(f"/device:{name}")
    if not limit:
        return None
    return max(0, int(limit) - int(tf.config.experimental.get_memory_info(name)["peak"]))
