"""NVIDIA's TensorFloat-32, left out for a while.

From Ampere on, GPUs multiply what is told to be float32 with 10 bits of each number's fraction, and
each compiler and library cuts them where it likes. Two ways to run the same mathematics then differ
by a thousandth, and a mistake of a thousandth would not be seen. So they are compared without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf


@contextmanager
def without_tf32() -> Iterator[None]:
    """What is traced, compiled and chosen inside the block computes in whole float32.

    What cuDNN was chosen for before, by shape, stays as it is.

    Example:
        >>> with without_tf32():
        ...     tf.config.experimental.tensor_float_32_execution_enabled()
        False
    """
    was_on = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(was_on)
