from __future__ import annotations

import itertools

import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import Cache, ParallelMap
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.runtime import resume_state as continuing
from uncork.pipeline.runtime.resume_state import continue_shuffles
from uncork.pipeline.transforms.apply import apply_edit


def pipeline_after_a_look(seed):
    data = tf.data.Dataset.range(20).shuffle(20, seed=seed).map(lambda x: x + 1).batch(5)
    for _ in data.take(1):
        pass
    return data


def values(dataset):
    return [batch.tolist() for batch in dataset.as_numpy_iterator()]


def cached(data):
    pipeline = read_pipeline(data)
    return apply_edit(pipeline, Cache(stage=2, expected_digest=pipeline.digest))


def test_training_goes_on_in_the_epoch_that_plain_tensorflow_would():
    plain = pipeline_after_a_look(seed=3)
    expected = [values(plain) for _ in range(3)]
    changed = continue_shuffles(cached(pipeline_after_a_look(seed=3)))
    assert [values(changed.dataset) for _ in range(3)] == expected


def test_the_state_outlives_the_users_own_objects():
    expected = values(pipeline_after_a_look(seed=5))
    data = pipeline_after_a_look(seed=5)
    changed = continue_shuffles(cached(data))
    del data
    assert values(changed.dataset) == expected


def test_without_a_look_nothing_differs():
    data = tf.data.Dataset.range(20).shuffle(20, seed=3).map(lambda x: x + 1).batch(5)
    twin = tf.data.Dataset.range(20).shuffle(20, seed=3).map(lambda x: x + 1).batch(5)
    changed = continue_shuffles(cached(data))
    assert [values(changed.dataset) for _ in range(2)] == [values(twin) for _ in range(2)]


def test_what_was_not_rebuilt_is_the_users_own_object():
    data = tf.data.Dataset.range(20).shuffle(20, seed=3).batch(5)
    assert continue_shuffles(read_pipeline(data)).dataset is data


def test_one_order_without_a_seed_is_shared_with_what_else_reads_it():
    """Validation is taken from it, and the training skips that."""
    data = tf.data.Dataset.range(100).map(lambda x: x + 1)
    data = data.shuffle(100, reshuffle_each_iteration=False)
    validation, training = data.take(50), data.skip(50)
    pipeline = read_pipeline(training)
    changed = continue_shuffles(
        apply_edit(pipeline, Cache(stage=1, expected_digest=pipeline.digest))
    )
    seen = [int(x) for x in (*validation, *changed.dataset)]
    assert sorted(seen) == list(range(1, 101))


def test_unseeded_shuffles_need_no_state():
    changed = continue_shuffles(cached(pipeline_after_a_look(seed=None)))
    assert sorted(itertools.chain(*values(changed.dataset))) == list(range(1, 21))


def test_a_shuffle_that_holds_too_much_to_ask_for_its_epochs_is_not_made_anew(monkeypatch):
    """Plain TensorFlow goes on with the second order; a copy would begin with the first."""
    seeded, unseeded = (cached(pipeline_after_a_look(seed=seed)) for seed in (3, None))
    monkeypatch.setattr(continuing, "_SERIALIZED_LIMIT_BYTES", -1)
    with pytest.raises(EditRefused, match="how many passes there were"):
        continue_shuffles(seeded)
    assert continue_shuffles(unseeded)


def test_that_is_told_before_anything_is_tried(monkeypatch):
    """A plan that is proved and measured must not be refused in the end."""
    monkeypatch.setattr(continuing, "_SERIALIZED_LIMIT_BYTES", 0)
    rows = tf.data.Dataset.from_tensor_slices(tf.range(20))

    def prepared(seed):
        return rows.shuffle(20, seed=seed).map(lambda x: x + 1).batch(5)

    with pytest.raises(EditRefused, match="how many passes there were"):
        cached(prepared(3))
    assert cached(prepared(None))
    pipeline = read_pipeline(prepared(3))
    above = apply_edit(pipeline, ParallelMap(stage=2, expected_digest=pipeline.digest))
    assert values(continue_shuffles(above).dataset)
    twin = create_seeded_copy(
        pipeline, 5
    )  # whose shuffle is a copy: what is proved is not what is trained on
    assert apply_edit(twin, ParallelMap(stage=2, expected_digest=twin.digest))
