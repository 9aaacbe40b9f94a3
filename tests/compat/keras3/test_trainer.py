from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.compat.keras3.trainer import (
    HAS_STEP_GENERATOR,
    IN_FIT,
    EpochIterator,
    TensorFlowTrainer,
    TFEpochIterator,
    distributed_dataset,
    epoch_iterator_class,
    release_iterators,
    use_epoch_iterator,
)
from uncork.core.base.errors import MissingPrivateApi

ARRAYS = np.ones((5, 2), "float32"), np.zeros((5, 1), "float32")


@pytest.fixture
def model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


@pytest.fixture
def epochs(model):
    x, y = ARRAYS
    return TFEpochIterator(model.distribute_strategy, x=x, y=y, batch_size=2)


def test_it_is_the_trainer_of_a_model_and_iterates_as_fit_does(model, epochs):
    assert isinstance(model, TensorFlowTrainer)
    assert isinstance(epochs, EpochIterator)
    assert [begin for begin, *_ in epochs] == [0, 1, 2]
    assert HAS_STEP_GENERATOR


def test_the_dataset_has_the_batches_of_the_steps(epochs):
    assert isinstance(distributed_dataset(epochs), tf.data.Dataset)
    assert [len(x) for x, _ in distributed_dataset(epochs)] == [2, 2, 1]


def test_fit_reads_through_another_class_while_it_is_set(model):
    reads = []

    class Other(TFEpochIterator):
        def __init__(self, *args, **kwargs):
            reads.append(len(kwargs["x"]))
            super().__init__(*args, **kwargs)

    use_epoch_iterator(Other)
    try:
        assert epoch_iterator_class() is Other
        model.fit(*ARRAYS, verbose=0)
    finally:
        use_epoch_iterator(TFEpochIterator)
    model.fit(*ARRAYS, verbose=0)
    assert reads == [5]


def test_released_iterators_are_dropped(epochs):
    next(iter(epochs))
    kept = vars(epochs)
    assert kept["_current_iterator"] is not None
    release_iterators(epochs)
    assert (kept["_current_iterator"], kept["_epoch_iterator"]) == (None, None)


def test_the_validation_of_a_fit_is_told_apart(model, monkeypatch):
    seen, evaluate = [], TensorFlowTrainer.evaluate

    def evaluated(model, *args, **kwargs):
        seen.append(kwargs.get(IN_FIT))
        return evaluate(model, *args, **kwargs)

    monkeypatch.setattr(TensorFlowTrainer, "evaluate", evaluated)
    model.fit(*ARRAYS, validation_data=ARRAYS, verbose=0)
    model.evaluate(*ARRAYS, verbose=0)
    assert seen == [True, None]


@pytest.mark.parametrize(
    ("read", "field"),
    [(distributed_dataset, "_distributed_dataset"), (release_iterators, "_epoch_iterator")],
)
def test_a_missing_field_is_reported(read, field):
    with pytest.raises(MissingPrivateApi, match=rf"object\.{field}'"):
        read(object())
