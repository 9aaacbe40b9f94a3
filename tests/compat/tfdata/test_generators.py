from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.compat.tf.graphs import function_in
from uncork.compat.tf.py_function import registered
from uncork.compat.tfdata import generators
from uncork.core.base.errors import MissingPrivateApi


def numbers():
    yield from range(3)


def registered_functions(dataset):
    """Python functions that the graph of a ``from_generator`` reaches."""
    graphs = [dataset._map_func.function.graph]
    for graph in graphs:
        for op in graph.get_operations():
            for value in op.node_def.attr.values():
                inner = function_in(graph, value.func.name) if value.HasField("func") else None
                if inner is not None:
                    graphs.append(inner.graph)
            if "PyFunc" in op.type:
                entry = registered(op.get_attr("token").decode())
                around = dict(zip(entry.__code__.co_freevars, entry.__closure__ or (), strict=True))
                yield around["func"].cell_contents if "func" in around else entry


def test_the_user_s_generator_and_its_iterators_are_found():
    data = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int32))
    functions = list(registered_functions(data))
    (state,) = filter(None, map(generators.state_behind, functions))
    assert generators.generator_of(state) is numbers
    assert any(map(generators.returns_next_element, functions))
    iterator = iter(data)
    next(iterator)
    open_iterators = generators.iterators_of(state)
    assert len(open_iterators) == 1
    number = generators.new_number(state)
    assert number not in open_iterators


def test_other_functions_have_no_state():
    assert generators.state_behind(len) is None
    assert generators.state_behind([].append) is None
    assert not generators.returns_next_element(numbers)


def test_a_state_without_its_field_is_a_named_error():
    with pytest.raises(MissingPrivateApi, match="_generator"):
        generators.generator_of(object())
