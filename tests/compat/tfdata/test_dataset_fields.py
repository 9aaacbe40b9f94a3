from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.compat.tfdata import dataset_fields as fields
from uncork.core.base.errors import MissingPrivateApi

RANGE = tf.data.Dataset.range


def test_parameters_are_read_by_the_names_that_constructors_have():
    mapped = RANGE(9).map(abs, num_parallel_calls=3)
    assert fields.int_parameter(mapped, "num_parallel_calls") == 3
    assert fields.has_parameter(mapped, "map_func")
    assert not fields.has_parameter(RANGE(9).map(abs), "num_parallel_calls")
    assert fields.parameter(RANGE(9), "map_func", None) is None


def test_a_parameter_that_is_gone_is_a_named_error():
    with pytest.raises(MissingPrivateApi, match=r"_RangeDataset\._batch_size'"):
        fields.int_parameter(RANGE(9), "batch_size")


def test_the_graph_of_a_pipeline_is_read():
    graph = fields.serialized_graph(RANGE(9).take(4))
    assert {"RangeDataset", "TakeDataset"} <= {node.op for node in graph.node}


def test_a_dataset_is_known_to_ops_by_its_variant_tensor():
    data = RANGE(9)
    assert fields.variant_tensor(data).dtype == tf.variant
    cardinality = tf.raw_ops.DatasetCardinality(input_dataset=fields.variant_tensor(data))
    assert int(cardinality) == 9


def test_equal_options_are_equal_bytes():
    one, other, third = (tf.data.Options() for _ in range(3))
    one.deterministic = other.deterministic = False
    assert fields.options_bytes(one) == fields.options_bytes(other)
    assert fields.options_bytes(one) != fields.options_bytes(third)
