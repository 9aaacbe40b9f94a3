"""Facts about devices and processes: memory limits, determinism, the other processes of a cluster.

Borrowed: ``device_lib.list_local_devices``, ``is_op_determinism_enabled``, the server definition,
    the class of the default strategy.
Why: public functions return used memory, not its limit; they enable determinism, but do not tell
    whether it is enabled; strategies know their replicas, not the processes of a cluster; and
    ``tf.distribute.has_strategy`` tells of the current strategy only.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported; for the server
    definition, when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from uncork.compat.borrow import borrow, borrow_attribute

_DefaultStrategy: Final[Any] = borrow(
    "tensorflow.python.distribute.distribute_lib", "_DefaultDistributionStrategy"
)

# Whether ``tf.config.experimental.enable_op_determinism`` was called.
is_op_determinism_enabled: Final[Callable[[], bool]] = borrow(
    "tensorflow.python.framework.config", "is_op_determinism_enabled"
)

_list_local_devices: Final[Callable[[], Sequence[Any]]] = borrow(
    "tensorflow.python.client.device_lib", "list_local_devices"
)
_context: Final[Callable[[], Any]] = borrow("tensorflow.python.eager.context", "context")


def is_default_strategy(strategy: Any) -> bool:
    """Whether this is the strategy that TensorFlow uses where none was chosen.

    Example:
        >>> import tensorflow as tf
        >>> is_default_strategy(tf.distribute.get_strategy())
        True
    """
    return type(strategy) is _DefaultStrategy


def memory_limits() -> dict[str, int]:
    """Bytes that this process may allocate on each device, by TensorFlow's name of the device.

    Example:
        >>> "/device:CPU:0" in memory_limits()
        True
    """
    return {device.name: device.memory_limit for device in _list_local_devices()}


def collective_server() -> Any:
    """The ``ServerDef`` of a training in several processes; None for one process.

    It is None, too, in a process that alone hands out all the work, as to a TPU.
    """
    return borrow_attribute(_context(), "_collective_ops_server_def")
