"""Whether it is the same training on longer rows: where what fills them up counts nowhere."""

from __future__ import annotations

import functools
import inspect
import sys
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from records import STEPS, plan, workload_diagnosis
from step_edits import subject_of
from uncork.capture.base.listener import FitCall
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.edits.step import PadLengths
from uncork.core.evidence.batches import VaryingAxis
from uncork.engine.apply.plan_listener import PlanListener
from uncork.engine.fit.fit_subject import FitSubject
from uncork.training.state.loss_value import find_logged_loss
from uncork.training.state.snapshot import read_weights
from uncork.training.variant import Variant

layers = keras.layers
TOKENS = 40
KEPT = next(step for step in STEPS if step.outcome == "kept")
# Of tokens and, where each has a target, of that.
LENGTHS = (
    VaryingAxis(tensor_index=0, axis=1, max_length=64),
    VaryingAxis(tensor_index=1, axis=1, max_length=64),
)


def texts(*, tagged: bool = False) -> tf.data.Dataset:
    """Rows of 3 to 7 tokens, four in a batch."""
    draw = np.random.default_rng(4)
    rows = [draw.integers(1, TOKENS, draw.integers(3, 8)) for _ in range(48)]
    tokens = tf.ragged.constant([row.tolist() for row in rows], dtype=tf.int32)
    labels = tokens % 3 if tagged else tf.constant([row[0] % 2 for row in rows])
    data = tf.data.Dataset.from_tensor_slices((tokens, labels)).map(lambda x, y: (x, y))
    return data.padded_batch(4)


def classifying(*body: Any, masked: bool = True) -> Any:
    keras.utils.set_random_seed(3)
    inputs = keras.Input((None,), dtype="int32")
    x = layers.Embedding(TOKENS, 6, mask_zero=masked)(inputs)
    for layer in (*body, layers.GlobalAveragePooling1D(), layers.Dense(1)):
        x = layer(x)
    made = keras.Model(inputs, x)
    made.compile("adam", "mse", jit_compile=True)
    return made


class Longest(keras.metrics.Metric):
    """It looks at all that a batch is filled up with."""

    def __init__(self) -> None:
        super().__init__(name="longest")
        self.most = self.add_variable((), "zeros")

    def update_state(self, y: Any, predicted: Any, sample_weight: Any = None) -> None:
        self.most.assign(tf.maximum(self.most.value, tf.cast(tf.shape(y)[1], tf.float32)))

    def result(self) -> Any:
        return self.most.value


def tagging(metric: Any) -> Any:
    """A target for each token; Keras masks the loss, and weighs metrics by all positions."""
    keras.utils.set_random_seed(3)
    inputs = keras.Input((None,), dtype="int32")
    x = layers.Embedding(TOKENS, 6, mask_zero=True)(inputs)
    made = keras.Model(inputs, layers.Dense(3, "softmax")(x))
    made.compile("adam", "sparse_categorical_crossentropy", metrics=metric, jit_compile=True)
    return made


class Attending(keras.layers.Layer):
    """To itself."""

    def __init__(self) -> None:
        super().__init__()
        self.supports_masking = True
        self.attention = layers.MultiHeadAttention(2, 3)

    def build(self, shape: Any) -> None:
        self.attention.build(shape, shape)

    def call(self, x: Any, mask: Any = None) -> Any:
        return self.attention(x, x, query_mask=mask, value_mask=mask, key_mask=mask)


def version_of(subject: FitSubject, axes: int) -> Variant:
    return subject.original.with_step_edits((PadLengths(multiple=8, axes=LENGTHS[:axes]),))


def judged(made: Any, folder: Path, data: Any = None) -> Proof:
    subject = subject_of(made, folder, texts() if data is None else data)
    before = read_weights(made)
    axes = 1 if data is None else 2
    found = subject.prove_step(version_of(subject, axes), "rounding", 20.0)
    assert all(np.array_equal(a, b) for a, b in zip(before, read_weights(made), strict=True))
    return found


@pytest.mark.deep
def test_a_model_that_masks_them_learns_the_same(tmp_path: Path) -> None:
    found = judged(classifying(Attending()), tmp_path)
    assert found.passed, found.detail
    assert found.kind == "rounding"


def test_a_model_that_looks_at_them_does_not(tmp_path: Path) -> None:
    found = judged(classifying(masked=False), tmp_path)
    assert not found.passed
    assert "weights" in found.detail


@pytest.mark.deep
def test_layers_that_drop_at_random_draw_more(tmp_path: Path) -> None:
    found = judged(classifying(layers.Dropout(0.3)), tmp_path)
    assert found.passed, found.detail
    assert found.kind == "resampled"
    assert "without dropout" in found.detail


@pytest.mark.every(3, first=2)
@pytest.mark.parametrize(
    ("metric", "told"), [([], ""), (["accuracy"], "accuracy"), ([Longest()], "longest")]
)
def test_what_the_training_tells_must_not_count_them(
    metric: Any, told: str, tmp_path: Path
) -> None:
    """The weights are the same in all cases."""
    found = judged(tagging(metric), tmp_path, texts(tagged=True))
    assert found.passed is (not told), found.detail
    assert not told or f"another {told}" in found.detail


def test_batches_that_are_as_long_as_that_already_tell_nothing(tmp_path: Path) -> None:
    subject = subject_of(classifying(), tmp_path, filled_to_8())
    found = subject.prove_step(version_of(subject, 1), "rounding", 20.0)
    assert not found.passed
    assert "is padded in axis 1 of tensor 0" in found.detail


class TellsItself(keras.Model):
    """What its steps tell is no metric of Keras's, and counts what batches are filled up with."""

    def train_step(self, data: Any) -> Any:
        found = super().train_step(data)
        return {"loss": found["loss"], "tokens": tf.size(data[0])}

    def test_step(self, data: Any) -> Any:
        return {"mean": tf.reduce_mean(tf.cast(data[0], tf.float32))}


class ValidatesItself(TellsItself):
    train_step = keras.Model.train_step


def telling_itself(kind: Any) -> Any:
    one = classifying()
    made = kind(one.inputs, one.outputs)
    made.compile("adam", "mse", jit_compile=True)
    return made


class JudgedByLength(keras.Model):
    """When it is validated, what batches are filled up with counts."""

    def test_step(self, data: Any) -> Any:
        self.longest.update_state(data[0], None)
        return super().test_step(data)


def judged_by_length() -> Any:
    one = classifying()
    made = JudgedByLength(one.inputs, one.outputs)
    made.longest = Longest()
    made.compile("adam", "mse", jit_compile=True)
    return made


def filled_to_8() -> tf.data.Dataset:
    data = texts().map(lambda x, y: (tf.pad(x, [[0, 0], [0, 8 - tf.shape(x)[1]]]), y))
    return data.map(lambda x, y: (tf.ensure_shape(x, (None, None)), y))


BOTH = PadLengths(multiple=8, axes=LENGTHS[:1], has_validation=True)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("make", "data", "detail"),
    [
        (classifying, texts(), ""),
        (judged_by_length, texts(), "the validation reports another longest"),
        (partial(telling_itself, ValidatesItself), texts(), "the validation reports another mean"),
        (partial(telling_itself, TellsItself), texts(), "the training reports another tokens"),
        (classifying, filled_to_8(), "of the validation data"),
        (classifying, None, "cannot be tried in this process"),
    ],
)
def test_a_validation_is_compared_too(make: Any, data: Any, detail: str, tmp_path: Path) -> None:
    made = make()
    given = {"x": texts(), "validation_data": data, "epochs": 3}
    subject = FitSubject(made, given, 0, "train.py:9", str(tmp_path))
    subject.ends_process, before = True, read_weights(made)
    found = subject.prove_step(subject.original.with_step_edits((BOTH,)), "rounding", 20.0)
    assert found.passed is (not detail), found.detail
    assert detail in found.detail
    assert all(np.array_equal(a, b) for a, b in zip(before, read_weights(made), strict=True))


def test_it_is_proposed_for_a_validation_on_such_batches(tmp_path: Path) -> None:
    for data, found in ((texts(), True), (texts(tagged=True), False), (None, False)):
        given = {"x": texts(), "validation_data": data, "epochs": 3}
        subject = FitSubject(classifying(), given, 0, "train.py:9", str(tmp_path))
        subject.ends_process = True
        new = subject.measure_varying_shapes(0.001, 0.1)
        assert new is not None
        assert new.has_validation is found


def test_under_a_plan_a_validation_is_filled_up(tmp_path: Path) -> None:
    """Else the history is that of the script, but for what longer sums round."""
    plain, made = judged_by_length(), judged_by_length()
    given = {"x": texts(), "validation_data": texts(), "epochs": 2, "verbose": 0}
    history = plain.fit(**given).history
    subject = FitSubject(made, given, 0, "train.py:9", str(tmp_path))
    kept = replace(KEPT, guarantee="rounding", edits=(BOTH,))
    before = workload_diagnosis(workload=subject.workload, stages=())
    subject.restore()
    bound = inspect.signature(made.fit).bind(**given)
    bound.apply_defaults()
    fit = functools.partial(keras.Model.fit, made)
    call = FitCall(0, "train.py:9", made, dict(bound.arguments), fit)
    found = PlanListener(plan(before=before, steps=(kept,)), strict=True).fit(call).history
    del history["longest"]  # left from the validation
    assert (history.pop("val_longest"), found["val_longest"]) == ([7.0, 7.0], [8.0, 8.0])
    for name, values in history.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4)


def two_inputs(later: int) -> tf.data.Dataset:
    """The second one gets longer when some batches were read."""
    first = texts().map(lambda x, y: x).take(9)
    lengths = tf.data.Dataset.from_tensor_slices([4] * later + [5] * (9 - later))
    second = lengths.map(lambda length: tf.ones((4, length), tf.int32))
    return tf.data.Dataset.zip((first, second)).map(lambda a, b: ((a, b), a[:, 0]))


@pytest.mark.every(2)
@pytest.mark.parametrize(("later", "passes"), [(9, False), (8, False)])
def test_each_axis_is_to_be_seen_filled_up(later: int, passes: bool, tmp_path: Path) -> None:
    """Not masked in the second: what it is filled up with counts."""
    keras.utils.set_random_seed(3)
    inputs = [keras.Input((None,), dtype="int32") for _ in range(2)]
    parts = []
    for given, masked in zip(inputs, (True, False), strict=True):
        table = layers.Embedding(TOKENS, 6, mask_zero=masked)
        parts.append(layers.GlobalAveragePooling1D()(table(given)))
    made = keras.Model(inputs, layers.Dense(1)(layers.Concatenate()(parts)))
    made.compile("adam", "mse", jit_compile=True)
    axes = (*LENGTHS[:1], VaryingAxis(tensor_index=1, axis=1, max_length=8))
    subject = subject_of(made, tmp_path, two_inputs(later))
    version = subject.original.with_step_edits((PadLengths(multiple=4, axes=axes),))
    found = subject.prove_step(version, "rounding", 20.0)
    assert found.passed is passes, found.detail
    assert ("axis 1 of tensor 1" in found.detail) is (later == 9)


def test_in_the_middle_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the training on longer rows, when some steps of it were made."""
    made = classifying(layers.Dropout(0.3))
    subject = subject_of(made, tmp_path, texts())
    before, told = read_weights(made), iter(range(30))

    def interrupted(logs: Any) -> tuple[str, float]:
        if next(told) == 20:
            raise KeyboardInterrupt
        return find_logged_loss(logs)

    monkeypatch.setattr(sys.modules["uncork.training.run.replay"], "find_logged_loss", interrupted)
    with pytest.raises(KeyboardInterrupt):
        subject.prove_step(version_of(subject, 1), "rounding", 5.0)
    subject.restore()
    assert all(np.array_equal(a, b) for a, b in zip(before, read_weights(made), strict=True))
    (dropout,) = (layer for layer in made.layers if isinstance(layer, layers.Dropout))
    assert dropout(tf.ones((1, 1000)), training=True).numpy().min() == 0.0
