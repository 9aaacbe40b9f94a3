"""Arrays read through an iterator that is kept: all that Keras trains and tells is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as keras_trainer

from uncork.training.input import iterator_reuse as reused_iterator
from uncork.training.input.iterator_reuse import ReusedIterators
from uncork.training.state.snapshot import read_weights

KERAS_S = keras_trainer.TFEpochIterator
DRAW = np.random.default_rng(4)
ROWS = DRAW.random((40, 6)).astype("float32")
ANSWERS = DRAW.random((40, 2))  # float64: Keras makes float32 of it


def model(**options: Any) -> Any:
    layers = keras.layers
    stack = [layers.Dense(8, activation="relu"), layers.Dropout(0.3), layers.BatchNormalization()]
    made = keras.Sequential([keras.Input((6,)), *stack, layers.Dense(2)])
    made.compile("adam", "mse", metrics=["mae"], **options)
    made.optimizer.build(made.trainable_variables)
    return made


def two_inputs() -> Any:
    a, b = keras.Input((6,), name="a"), keras.Input((), name="b", dtype="int32")
    table = keras.layers.Embedding(5, 3)(b)
    made = keras.Model(
        {"a": a, "b": b}, keras.layers.Dense(2)(keras.layers.concatenate([a, table]))
    )
    made.compile("sgd", "mse")
    return made


def by_name(rows: int) -> dict[str, Any]:
    return {"x": {"a": ROWS[:rows], "b": np.arange(rows) % 5}, "y": ANSWERS[:rows]}


def plain(rows: int, **given: Any) -> dict[str, Any]:
    return {"x": ROWS[:rows], "y": ANSWERS[:rows], **given}


def tensors(rows: int) -> dict[str, Any]:
    return {"x": tf.constant(ROWS[:rows]), "y": tf.constant(ANSWERS[:rows])}


def grouped() -> Any:
    return model(steps_per_execution=2)


def classes(rows: int) -> dict[str, Any]:
    labels = (ANSWERS[:rows, 0] > 0.5).astype("int64")
    return {"x": ROWS[:rows], "y": labels, "class_weight": {0: 1.0, 1: 3.0}}


def classifier() -> Any:
    made = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
    made.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


CASES: dict[str, tuple[Callable[[], Any], list[dict[str, Any]]]] = {
    "whole batches, and a shorter one": (model, [plain(32), plain(40), plain(7), plain(32)] * 2),
    "in order": (model, [plain(40, shuffle=False)] * 3),
    "several epochs": (model, [plain(40, batch_size=16, epochs=3)] * 3),
    "weights of samples": (model, [plain(32, sample_weight=np.arange(32.0))] * 3),
    "weights of classes": (classifier, [classes(32)] * 3),
    "tensors": (model, [tensors(32)] * 3),
    "inputs by name": (two_inputs, [by_name(32), by_name(20)] * 2),
    "several steps an execution": (
        grouped,
        [plain(32, batch_size=16), plain(40, batch_size=16)] * 2,
    ),
    "validated": (model, [plain(32, validation_split=0.25)] * 3),
    "validated on others": (model, [plain(32, validation_data=(ROWS[:9], ANSWERS[:9]))] * 3),
}


@contextmanager
def kept() -> Iterator[ReusedIterators]:
    iterators = ReusedIterators()
    with iterators.active():
        yield iterators


def trained(make: Callable[[], Any], calls: list[dict[str, Any]], reading: Any) -> Any:
    """All that can be seen of some calls, and what would be drawn after them."""
    keras.utils.set_random_seed(7)
    made, seen = make(), []
    with reading as iterators:
        for call in calls:
            seen.append(made.fit(**call, verbose=0).history)
            seen.append(made.evaluate(call["x"], call["y"], verbose=0, return_dict=True))
            seen.append(made.predict(call["x"], verbose=0).tolist())
    drawn = float(tf.random.uniform([])), float(np.random.rand())
    return seen, [w.tobytes() for w in read_weights(made)], drawn, iterators


@pytest.mark.every(12, first=6)
@pytest.mark.parametrize("case", CASES)
def test_what_keras_trains_and_answers_is_the_same(case: str) -> None:
    *written, _ = trained(*CASES[case], nullcontext())
    *reused, iterators = trained(*CASES[case], kept())
    assert reused == written
    assert iterators.epoch_count >= len(CASES[case][1])
    assert iterators.iterator_count < iterators.epoch_count


def test_an_unseeded_shuffle_takes_each_sample_once_in_an_order_of_its_own() -> None:
    seen: list[list[float]] = []

    class Watched(keras.Model):
        def call(self, x: Any) -> Any:
            return x

        def train_step(self, data: Any) -> Any:
            tf.py_function(lambda x: seen.append(x.numpy()[:, 0].tolist()), [data], [])
            return {"loss": tf.reduce_sum(data)}

    made = Watched()
    made.compile("sgd", "mse")
    rows = np.arange(12.0)[:, None]
    tf.random.set_seed(None)
    with kept() as iterators:
        for _ in range(4):
            made.fit(rows, verbose=0)
    assert iterators.epoch_count == 4
    assert all(sorted(order) == rows[:, 0].tolist() for order in seen)
    assert len({tuple(order) for order in seen}) > 1


LEFT: dict[str, Callable[[Any], Any]] = {
    "a dataset": lambda m: m.fit(
        tf.data.Dataset.from_tensor_slices((ROWS, ANSWERS)).batch(8), verbose=0
    ),
    "steps_per_epoch": lambda m: m.fit(ROWS, ANSWERS, steps_per_epoch=2, verbose=0),
    "many batches": lambda m: m.fit(ROWS, ANSWERS, batch_size=1, verbose=0),
    "shuffled by batches": lambda m: m.fit(ROWS, ANSWERS, shuffle="batch", verbose=0),
    "arrays of a class of one's own": lambda m: m.predict(ROWS.view(Rows), verbose=0),
}


class Rows(np.ndarray[Any, Any]):
    """Somebody's arrays: what they do when they are read, nobody knows."""


@pytest.mark.every(4)
@pytest.mark.parametrize("case", LEFT)
def test_what_it_does_not_serve_goes_through_keras_s_own_pipeline(case: str) -> None:
    with kept() as iterators:
        LEFT[case](model())
    assert iterators.epoch_count == 0


def test_what_is_read_may_end_in_an_error_and_the_next_call_begins_anew() -> None:
    made = model()

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            del batch, logs
            raise RuntimeError("enough")

    with kept() as iterators:
        with pytest.raises(RuntimeError, match="enough"):
            made.fit(ROWS, ANSWERS, batch_size=8, callbacks=[Stop()], verbose=0)
        found = made.predict(ROWS, batch_size=8, verbose=0)
        again = made.predict(ROWS, batch_size=8, verbose=0)
    assert iterators.epoch_count == 3
    assert (found == again).all()
    assert (found == made.predict(ROWS, batch_size=8, verbose=0)).all()


@pytest.mark.deep
def test_a_callback_may_predict_on_batches_of_the_same_form() -> None:
    def run(reading: Any) -> tuple[list[Any], list[bytes]]:
        keras.utils.set_random_seed(2)
        made, seen = model(), []

        class Look(keras.callbacks.Callback):
            def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
                del batch, logs
                seen.append(made.predict(ROWS[:8], batch_size=8, verbose=0).tolist())
                made.evaluate(ROWS[:8], ANSWERS[:8], batch_size=8, verbose=0)

        with reading:
            made.fit(ROWS, ANSWERS, batch_size=8, callbacks=[Look()], verbose=0)
        return seen, [w.tobytes() for w in read_weights(made)]

    assert run(kept()) == run(nullcontext())


@pytest.mark.deep
def test_a_model_that_is_built_by_its_first_call() -> None:
    def run(reading: Any) -> list[bytes]:
        keras.utils.set_random_seed(2)
        made = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(2)])
        made.compile("adam", "mse")
        with reading:
            for _ in range(3):
                made.fit(ROWS, ANSWERS, verbose=0)
        return [w.tobytes() for w in read_weights(made)]

    assert run(kept()) == run(nullcontext())


def test_of_many_forms_the_first_are_kept_and_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reused_iterator, "_MOST_KEPT", 1)
    made = model()
    with kept() as iterators:
        for rows in (7, 32, 5):
            made.evaluate(ROWS[:rows], ANSWERS[:rows], verbose=0)
    assert (iterators.epoch_count, iterators.iterator_count) == (2, 1)


def test_a_session_that_is_cleared_takes_nothing_with_it() -> None:
    made = model()
    with kept() as iterators:
        before = made.evaluate(ROWS, ANSWERS, verbose=0)
        keras.utils.clear_session()
        after = made.evaluate(ROWS, ANSWERS, verbose=0)
    assert (iterators.epoch_count, iterators.iterator_count) == (2, 1)
    assert before == after


def test_keras_has_its_own_again_afterwards() -> None:
    with kept():
        assert keras_trainer.TFEpochIterator is not KERAS_S
    assert keras_trainer.TFEpochIterator is KERAS_S


def test_what_the_user_changes_in_place_after_a_call_was_read_by_then() -> None:
    made = model()
    rows = ROWS[:8].copy()
    with kept():
        before = made.predict(rows, verbose=0)
        rows[:] = 0.0
        after = made.predict(rows, verbose=0)
    assert (before == made.predict(ROWS[:8], verbose=0)).all()
    assert (after == made.predict(rows, verbose=0)).all()


def test_a_generator_is_read_from_its_first_batch_on() -> None:
    made = model()

    def batches() -> Iterator[tuple[Any, Any]]:
        for begin in range(0, 40, 8):
            yield ROWS[begin : begin + 8], ANSWERS[begin : begin + 8]

    expected = made.predict(ROWS, batch_size=8, verbose=0), made.evaluate(batches(), verbose=0)
    with kept():
        found = made.predict(((x,) for x, _ in batches()), verbose=0)
        evaluated = made.evaluate(batches(), verbose=0)
    assert found.shape == expected[0].shape
    assert (found == expected[0]).all()
    assert evaluated == expected[1]


class Meddles(keras.callbacks.Callback):
    """Overwrites what fit was given, and sets another seed, while fit runs."""

    def __init__(self, *given: Any) -> None:
        super().__init__()
        self.given = given

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del logs
        tf.random.set_seed(100 + epoch)
        for array in self.given:
            array[:] = epoch


@pytest.mark.deep
def test_a_call_trains_to_its_end_on_what_it_was_given_and_in_the_order_of_its_seed() -> None:
    def run(reading: Any) -> Any:
        seen, made = [], model()
        with reading as iterators:
            for _ in range(3):
                tf.random.set_seed(3)
                given = [a.astype("float32") for a in (ROWS, ANSWERS, ROWS[:9], ANSWERS[:9])]
                x, y, *others = given
                call = {"validation_data": others, "epochs": 3, "batch_size": 16, "verbose": 0}
                seen.append(made.fit(x, y, callbacks=[Meddles(*given)], **call).history)
        return seen, iterators

    keras.utils.set_random_seed(7)
    written, _ = run(nullcontext())
    keras.utils.set_random_seed(7)
    reused, iterators = run(kept())
    assert reused == written
    assert iterators.epoch_count >= 6 + 9
