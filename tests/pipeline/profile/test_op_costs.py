from pathlib import Path

import pytest
import tensorflow as tf

from pipeline.helpers import measured
from uncork.core.edits.pipeline import DrawFirst, SplitMap
from uncork.measure.profile.kernels import Kernel, profile_kernels
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.profile.op_costs import measure_op_costs
from uncork.pipeline.transforms.apply import apply_edit

# A product that takes long enough to be told, however busy the machine is; how it compares with
# what runs beside it is up to that machine.
SQUARES = tf.data.Dataset.from_tensors(tf.ones([400, 400])).repeat(20)


def squared(x):
    return x @ x  # the line of the op


@tf.function
def in_a_function(x):
    return squared(x)


def in_a_loop(x):
    return tf.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, squared(y / 9.0)), (0, x))[1]


def in_a_branch(x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: squared(x), lambda: x)


def nested(x):
    return tf.function(in_a_branch)(x)


def drawn(x):
    y = squared(x)
    return y + tf.random.uniform([])


def costs(data):
    return measure_op_costs(read_pipeline(data).root, SQUARES, budget_s=5.0)


WAYS = (squared, in_a_function, in_a_branch, in_a_loop, nested, drawn)
LINE = f"{Path(__file__).name}:{squared.__code__.co_firstlineno + 1}"


@pytest.mark.every(3)
@pytest.mark.parametrize("function", WAYS)
def test_an_op_is_named_with_its_line(function):
    products = [cost for cost in costs(SQUARES.map(function)) if cost.op == "MatMul"]
    assert [cost.at.rpartition("/")[2] for cost in products] == [LINE]


def test_the_dearest_op_comes_first(monkeypatch):
    kernels = Kernel("add", "AddV2", 1, 2e-3), Kernel("MatMul", "MatMul", 1, 6e-3)
    monkeypatch.setattr("uncork.pipeline.profile.op_costs.profile_kernels", lambda _: kernels)
    assert [(cost.op, cost.share) for cost in costs(SQUARES.map(drawn))] == [
        ("MatMul", 0.75),
        ("AddV2", 0.25),
    ]


@pytest.mark.every(2)
@pytest.mark.parametrize("edit", [SplitMap, DrawFirst])
def test_the_parts_of_a_map_keep_their_lines(edit):
    before = read_pipeline(SQUARES.map(drawn, num_parallel_calls=1))
    after = apply_edit(before, edit(stage=2, expected_digest=before.digest))
    works = [
        measure_op_costs(stage, stage.inputs[0].dataset, budget_s=5.0)
        for stage in after.stages
        if stage.kind == "map"
    ]
    found = [cost for ops in works for cost in ops if cost.op == "MatMul"]
    assert [cost.at.rpartition("/")[2] for cost in found] == [LINE]


def test_python_is_an_op_like_others():
    def python(x):
        return tf.numpy_function(lambda y: y.copy(), [x], tf.float32)

    assert "PyFunc" in [cost.op for cost in costs(SQUARES.map(python))]


def test_shares_are_of_the_whole_function():
    found = costs(SQUARES.map(lambda x: tf.sort(squared(x))))
    assert sum(cost.share for cost in found) <= 1.0 + 1e-9
    assert [cost.share for cost in found] == sorted((c.share for c in found), reverse=True)


def test_elements_that_cannot_be_made_are_no_failure():
    broken = SQUARES.map(lambda x: tf.debugging.check_numerics(x / 0.0, "")).map(squared)
    node = read_pipeline(broken).root
    assert measure_op_costs(node, node.inputs[0].dataset, budget_s=1.0) == ()


def test_a_script_that_profiles_itself_is_left_alone():
    found = []
    profile_kernels(lambda: found.append(costs(SQUARES.map(squared))))
    assert found == [()]


def test_a_dictionary_is_handed_over_as_the_map_was_given_it():
    data = SQUARES.map(lambda x: {"b": x, "a": tf.shape(x)})
    mapped = read_pipeline(data.map(lambda each: squared(each["b"]))).root
    assert "MatMul" in [cost.op for cost in measure_op_costs(mapped, data, budget_s=5.0)]


@pytest.mark.deep
def test_only_maps_that_cost_something_are_looked_into():
    data = tf.data.Dataset.from_tensors(tf.ones([700, 700])).repeat(8).map(squared)
    stages = measured(data.map(lambda x: x[0, 0]).batch(2), batch_size=2)
    assert [bool(stage.op_costs) for stage in stages if stage.kind == "map"] == [True, False]
