from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.compat.tf import functions
from uncork.core.base.errors import MissingPrivateApi


def test_another_callable_answers_the_calls_of_one_function():
    double, other = tf.function(lambda x: 2 * x), tf.function(lambda x: 5 * x)
    original = functions.intercept_calls(double, lambda x: 3 * x)
    assert int(double(tf.constant(4))) == 12
    assert int(original(tf.constant(4))) == 8
    assert int(other(tf.constant(4))) == 20
    functions.restore_calls(double)
    assert int(double(tf.constant(4))) == 8


def test_a_clone_has_the_options_that_are_replaced():
    double = tf.function(lambda x: 2 * x)
    compiled = functions.clone(double, jit_compile=True)
    assert isinstance(compiled, functions.Function)
    assert functions.is_xla_compiled(compiled)
    assert not functions.is_xla_compiled(double)
    assert functions.clone(double).python_function is double.python_function


def test_options_are_read_from_functions_only():
    with pytest.raises(MissingPrivateApi, match="_jit_compile"):
        functions.is_xla_compiled(len)


def test_traces_are_listed_in_their_order():
    double = tf.function(lambda x: 2 * x)
    assert functions.has_traces(double)
    assert functions.traces(double) == []
    double(tf.constant(1))
    double(tf.constant(1.0))
    first, second = functions.traces(double)
    assert isinstance(first.graph, functions.FuncGraph)
    assert functions.tracing_order(first.graph) < functions.tracing_order(second.graph)
    assert not functions.has_traces(len)


def test_a_decorated_function_is_converted_inside():
    def sign(x):
        return 1 if x > 0 else -1

    def traced(*args):
        return traced.__wrapped__(*args)

    step = tf.function(functions.make_decorator(sign, traced))
    assert int(step(tf.constant(3.0))) == 1
