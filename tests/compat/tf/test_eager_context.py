from __future__ import annotations

import tensorflow as tf

from uncork.compat.tf import eager_context


def test_the_global_seed_is_read_and_set():
    before = eager_context.global_seed()
    try:
        tf.random.set_seed(5)
        assert eager_context.global_seed() == 5
        eager_context.set_global_seed(6)
        assert eager_context.global_seed() == 6
    finally:
        eager_context.set_global_seed(before)


def test_the_state_of_op_seeds_repeats_random_numbers():
    tf.random.set_seed(5)
    state = eager_context.op_seed_state()
    first = float(tf.random.uniform([]))
    eager_context.set_op_seed_state(state)
    eager_context.clear_kernel_cache()
    assert float(tf.random.uniform([])) == first
    eager_context.set_global_seed(None)


def test_a_function_is_registered_under_its_name():
    square = tf.function(tf.square).get_concrete_function(tf.TensorSpec([], tf.float32))
    definition = square.function_def
    copy = type(definition)()
    copy.CopyFrom(definition)
    copy.signature.name = "uncork_test_registered"
    eager_context.register_function(copy)
    eager_context.register_function(copy)  # the second time it is known
    assert eager_context._has_function(eager_context._context(), "uncork_test_registered")


def test_ops_are_awaited():
    eager_context.async_wait()
    assert not eager_context.is_async()
