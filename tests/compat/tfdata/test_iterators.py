from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.compat.tfdata.iterators import ConvertedIterator, resource_of
from uncork.compat.tfdata.nested import flatten, pack_sequence_as, to_tensor_list
from uncork.core.base.errors import MissingPrivateApi


def converted(data):
    source = iter(data)

    def onward():
        rest = tf.data.Dataset.from_generator(
            lambda: (2 * each for each in source), output_signature=data.element_spec
        )
        return iter(rest)

    return ConvertedIterator(source, data.element_spec, lambda each: 2 * each, onward)


def test_a_converted_iterator_passes_for_tensorflow_s():
    iterator = converted(tf.data.Dataset.range(3))
    assert isinstance(iterator, tf.data.Iterator)
    assert iterator.element_spec == tf.TensorSpec([], tf.int64)
    assert [int(each) for each in iterator] == [0, 2, 4]


def test_a_function_reads_the_remaining_elements():
    iterator = converted(tf.data.Dataset.range(4))
    next(iterator)

    @tf.function
    def take(it):
        return next(it)

    assert [int(take(iterator)) for _ in range(3)] == [2, 4, 6]
    assert resource_of(iterator).dtype == tf.resource


def test_its_state_is_that_of_its_source():
    iterator = converted(tf.data.Dataset.range(4))
    next(iterator)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    state = iterator._save()
    next(iterator)
    iterator._restore(state)
    assert int(next(iterator)) == 2
    assert checkpoint is not None


def test_an_object_without_a_resource_is_a_named_error():
    with pytest.raises(MissingPrivateApi, match="_iterator_resource"):
        resource_of(object())


def test_lists_are_components_of_elements():
    spec = (tf.TensorSpec([2], tf.int32), {"a": tf.TensorSpec([], tf.int32)})
    tensors = to_tensor_list(spec, (tf.constant([1, 2]), {"a": tf.constant(3)}))
    assert [each.numpy().tolist() for each in tensors] == [[1, 2], 3]
    assert flatten(([1, 2], 3)) == [[1, 2], 3]
    assert pack_sequence_as({"a": 0, "b": (0, 0)}, [1, 2, 3]) == {"a": 1, "b": (2, 3)}
