"""Python numbers handed over as tensors: as large as Python's grow, where that can be."""

from __future__ import annotations

import tensorflow as tf

from uncork.training.loop_step.number_arguments import TensorArgumentFunction


def test_a_count_goes_on_beyond_32_bits() -> None:
    tokens = TensorArgumentFunction(
        tf.function(lambda step: tf.cast(step * 1_048_576, tf.float32)), ("step",)
    )
    assert [float(tokens(step)) for step in (1, 3_000)] == [1_048_576.0, 3_000 * 1_048_576.0]
    assert tokens.experimental_get_tracing_count() == 1


def test_what_goes_with_shapes_has_32_bits_as_they_do() -> None:
    cut = TensorArgumentFunction(
        tf.function(lambda x, n: tf.minimum(n * 2, tf.shape(x)[0])), ("n",)
    )
    assert [int(cut(tf.ones(5), n)) for n in (1, 4)] == [2, 5]
