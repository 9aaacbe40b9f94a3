"""Larger batches: what they are worth, and that one that teaches less is refused."""

from __future__ import annotations

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.record import replace
from uncork.core.edits.pipeline import Rebatch
from uncork.core.edits.step import LargerBatch
from uncork.engine.fit import larger_batches
from uncork.engine.fit.fit_subject import FitSubject
from uncork.training.state.snapshot import read_weights

DRAW = np.random.default_rng(0)
ROWS = DRAW.normal(size=(4096, 16)).astype("float32")
KINDS = np.argmax(ROWS @ DRAW.normal(size=(16, 4)) + 0.5 * DRAW.normal(size=(4096, 4)), 1)


def classifier(optimizer: str = "adam") -> keras.Model:
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [keras.Input((16,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(4)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    return model


def subject(tmp_path, model=None, **arguments) -> FitSubject:
    given = {"x": ROWS, "y": KINDS, "batch_size": 4, "epochs": 3, **arguments}
    return FitSubject(model or classifier(), given, 0, "train.py:9", str(tmp_path))


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    monkeypatch.setattr(larger_batches, "_STEPS", (256, 256))
    monkeypatch.setattr(larger_batches, "_BLOCK_S", 0.05)


@pytest.mark.deep
@pytest.mark.every(2)
@pytest.mark.parametrize(("faster", "times"), [((1.9, 3.5, 3.9), [2, 4]), ((1.1,), [])])
def test_sizes_are_timed_and_trained_and_all_is_given_back(tmp_path, monkeypatch, faster, times):
    """All are run, and as fast as is said; what does not pay is the last to be tried."""
    said, against = iter(faster), larger_batches.compare_in_memory

    def by_decree(base, sized, block_s):
        return replace(against(base, sized, block_s), ratio=next(said))

    monkeypatch.setattr(larger_batches, "compare_in_memory", by_decree)
    found = subject(tmp_path)
    before = read_weights(found.model)
    sizes = found.measure_batch_sizes(found.original, 4.0)
    assert next(said, None) is None
    assert [size.batch_multiplier for size in sizes] == times
    assert [size.speedup.ratio for size in sizes] == list(faster)[: len(times)]
    assert all(size.loss_noise > 0 for size in sizes)
    assert all(size.learning_rate_multiplier == size.batch_multiplier**0.5 for size in sizes)
    assert all(size.baseline_loss < 1.3 for size in sizes)  # of four kinds, log 4 by chance
    assert all(np.array_equal(a, b) for a, b in zip(before, read_weights(found.model), strict=True))
    assert found.model.train_function is None


def test_the_step_trains_on_larger_batches(tmp_path):
    found = subject(tmp_path)
    four = found.original.with_step_edits(
        (LargerBatch(batch_multiplier=4, learning_rate_multiplier=2.0),)
    )
    runner = found.runner(four)
    runner.prime()
    block = runner.block(0.1)
    assert block.samples == 16 * block.steps
    batch = next(iter(found.batches_dataset(four)))
    assert batch[0].shape[0] == 16


def test_a_pipeline_gives_them(tmp_path):
    data = tf.data.Dataset.from_tensor_slices((ROWS, KINDS)).shuffle(64, seed=1).batch(4)
    found = subject(tmp_path, x=data, y=None, batch_size=None)
    edits = (Rebatch(batch_multiplier=4, batch_size=16, expected_digest=""),)
    version = found.original.with_pipeline_edits(edits)
    four = version.with_step_edits((LargerBatch(batch_multiplier=4, learning_rate_multiplier=2.0),))
    assert next(iter(found.batches_dataset(four)))[0].shape[0] == 16
    assert four.pipeline.cardinality == 256
    assert found.runner(four).prime() > 0


def test_a_rate_that_spoils_the_training_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(larger_batches, "_STEPS", (64, 64))
    found = subject(tmp_path)
    harmful = found.original.with_step_edits(
        (LargerBatch(batch_multiplier=2, learning_rate_multiplier=300.0),)
    )
    proof = found.prove_training(harmful, 6.0)
    assert not proof.passed
    assert proof.kind == "training"
    assert "not ruled out" in proof.detail or "NaN" in proof.detail


@pytest.mark.deep
def test_one_that_learns_a_tenth_as_fast_is_refused(tmp_path):
    found = subject(tmp_path)
    slow = found.original.with_step_edits(
        (LargerBatch(batch_multiplier=8, learning_rate_multiplier=0.1),)
    )
    assert not found.prove_training(slow, 6.0).passed


@pytest.mark.deep
def test_the_very_same_training_is_believed(tmp_path):
    found = subject(tmp_path)
    same = found.original.with_step_edits(
        (LargerBatch(batch_multiplier=1, learning_rate_multiplier=1.0),)
    )
    proof = found.prove_training(same, 6.0)
    assert proof.passed, proof.detail


def test_what_counts_steps_is_not_tried(tmp_path):
    model = classifier(keras.optimizers.Adam(gradient_accumulation_steps=2))
    found = subject(tmp_path, model)
    assert found.measure_batch_sizes(found.original, 4.0) == ()
    assert not found.prove_training(found.original, 1.0).passed


def test_a_model_for_one_size_of_batch_is_left_alone(tmp_path):
    fixed = keras.Sequential([keras.Input(batch_shape=(4, 16)), keras.layers.Dense(4)])
    fixed.add(keras.layers.Lambda(lambda x: tf.reshape(x, (4, 4))))
    fixed.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    found = subject(tmp_path, fixed)
    assert found.measure_batch_sizes(found.original, 4.0) == ()


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("steps", "times", "full"),
    [(19, 16, False), (19, 4, False), (32, 16, True), (1_563, 16, True), (None, 16, True)],
)
def test_batches_that_no_data_fills_are_not_counted_as_faster(tmp_path, steps, times, full):
    """600 samples are 19 steps of 32, and two of 512 that would count as 1,024."""
    sizes = dataclasses.replace(subject(tmp_path)._larger_batches(), steps_per_epoch=steps)
    assert sizes._fill_epochs(times) is full


def test_where_samples_come_again_in_any_order_none_can_be_laid_aside(tmp_path):
    data = tf.data.Dataset.from_tensor_slices((ROWS, KINDS)).repeat().shuffle(64).batch(4)
    found = subject(tmp_path, x=data, y=None, batch_size=None, steps_per_epoch=100)
    assert found.measure_batch_sizes(found.original, 4.0) == ()


@pytest.mark.every(3)
@pytest.mark.parametrize(("diverging", "times"), [(4, [2]), (2, []), (1, [])])
def test_from_a_size_on_that_diverges_there_are_none(tmp_path, monkeypatch, diverging, times):
    """The sound ones are kept."""
    monkeypatch.setattr(larger_batches, "_PAYS", 0.0)
    monkeypatch.setattr(larger_batches, "_TIMES", (2, 4))
    monkeypatch.setattr(larger_batches, "_STEPS", (32, 32))
    curve = larger_batches.LargerBatchTrials._curve

    def made(self, version, seed, steps):
        found = curve(self, version, seed, steps)
        if version.batch_multiplier < diverging:
            return found
        return [*found[:-1], (found[-1][0], float("nan"))]

    monkeypatch.setattr(larger_batches.LargerBatchTrials, "_curve", made)
    found = subject(tmp_path)
    assert [
        size.batch_multiplier for size in found.measure_batch_sizes(found.original, 4.0)
    ] == times
