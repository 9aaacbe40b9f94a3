from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.compat.tf import autograph


def sign(x):
    return 1 if x > 0 else -1


def called(x):
    return autograph.convert_like_caller(sign)(x)


autograph.mark_as_artifact(called)


def test_a_function_is_converted_where_its_caller_is():
    assert int(tf.function(called)(tf.constant(-2.0))) == -1
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        tf.function(called, autograph=False)(tf.constant(-2.0))
