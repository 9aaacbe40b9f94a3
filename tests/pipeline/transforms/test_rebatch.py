from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import Rebatch
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

RANGE = tf.data.Dataset.range


def larger(data, times=4, size=32):
    pipeline = read_pipeline(data)
    return apply_edit(
        pipeline, Rebatch(batch_multiplier=times, batch_size=size, expected_digest=pipeline.digest)
    )


def sizes(dataset):
    return [int(batch.shape[0]) for batch in dataset]


def test_the_same_samples_in_the_same_order():
    data = RANGE(103).shuffle(50, seed=3).map(lambda x: x * 2).batch(8)
    found = larger(data)
    assert sizes(found.dataset) == [32, 32, 32, 7]
    assert found.cardinality == 4
    again = np.concatenate(list(found.dataset.as_numpy_iterator()))
    assert sorted(again) == [2 * n for n in range(103)]
    assert found.root.kind == "prefetch"


def test_each_pass_is_shuffled_as_it_would_have_been():
    def data():
        return RANGE(40).shuffle(40, seed=3).batch(4)

    ours, theirs = larger(data(), 2, 8).dataset, data()
    for _ in range(2):
        whole = [np.concatenate(list(d.as_numpy_iterator())) for d in (ours, theirs)]
        assert np.array_equal(*whole)


def test_what_drops_a_remainder_goes_on_to_do_so():
    found = larger(RANGE(103).batch(8, drop_remainder=True).map(lambda x: x + 1).prefetch(2))
    assert sizes(found.dataset) == [32, 32, 32]
    assert found.cardinality == 3
    assert found.dataset.element_spec.shape == [32]


def test_an_endless_one_stays_endless():
    found = larger(RANGE(10).batch(8).repeat())
    assert found.cardinality == tf.data.INFINITE_CARDINALITY
    assert sizes(found.dataset.take(2)) == [32, 32]


@pytest.mark.parametrize(
    "data",
    [
        RANGE(20).batch(8).repeat(3),
        RANGE(64).batch(8).shuffle(4),
        RANGE(64).filter(lambda x: x > 1).batch(8),
    ],
    ids=["repeated batches", "shuffled batches", "of unknown length"],
)
def test_a_length_that_does_not_follow_is_not_claimed(data):
    found = larger(data)
    assert found.cardinality == tf.data.UNKNOWN_CARDINALITY
    assert sum(sizes(found.dataset)) == sum(sizes(data))


@pytest.mark.parametrize(
    "data",
    [
        RANGE(8).map(lambda x: tf.ones([x])).padded_batch(2, [None]),
        RANGE(8).map(lambda x: tf.ones([x])).ragged_batch(2),
        RANGE(8),
    ],
    ids=["of several lengths", "ragged", "no batches"],
)
def test_what_cannot_be_put_together_is_refused(data):
    with pytest.raises(EditRefused, match=r"batches (are|differ)"):
        larger(data)


def test_another_pipeline_is_refused():
    with pytest.raises(EditRefused):
        apply_edit(
            read_pipeline(RANGE(8).batch(2)),
            Rebatch(batch_multiplier=2, batch_size=4, expected_digest="another"),
        )


def test_batches_that_would_be_left_over_keep_their_samples():
    found = larger(RANGE(104).batch(8, drop_remainder=True), times=5, size=40)
    assert sizes(found.dataset) == [40, 40, 24]
    assert found.cardinality == 3
    assert found.dataset.element_spec.shape == [None]


def test_a_map_that_may_leave_samples_out_leaves_the_number_of_batches_open():
    data = RANGE(96).batch(8).map(lambda x: tf.boolean_mask(x, x % 3 > 0))
    found = larger(data, times=4, size=16)
    assert found.cardinality == tf.data.UNKNOWN_CARDINALITY
    assert sizes(found.dataset) == [16, 16, 16, 16]
