"""Whose kernels the step of a ``fit`` runs, as it is looked at in a diagnosis."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from layer_watching import watched_layers
from uncork.core.base.journal import Journal
from uncork.engine.diagnose.collect_evidence import EvidenceContext, collect_evidence
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.subject.dataset_subject import DatasetSubject


@pytest.fixture
def layers():
    with watched_layers() as layers:
        yield layers


def data():
    return tf.data.Dataset.from_tensor_slices(
        (np.ones((256, 300), "float32"), np.ones((256, 1), "float32"))
    ).batch(32)


def subject(tmp_path, layers, **compiled):
    model = keras.Sequential([keras.Input((300,)), keras.layers.Dense(400), keras.layers.Dense(1)])
    model.compile("adam", "mse", **compiled)
    found = FitSubject(model, {"x": data(), "epochs": 2}, 0, "train.py:9", str(tmp_path))
    found.layers, found.ends_process = layers, True
    return found


def test_the_parts_of_a_step_have_owners(tmp_path, layers):
    fit = subject(tmp_path, layers)
    weights = [v.numpy().copy() for v in fit.model.variables]
    parts = fit.measure_kernels(fit.original, 0.1)
    assert sum(part.share for part in parts) == pytest.approx(1.0)
    dense = {part.phase for part in parts if part.layer == "Dense"}
    assert dense == {"forward", "backward"}
    assert any(
        "test_kernel_owners.py" in (part.at or "") for part in parts if part.layer == "Dense"
    )
    assert sum(part.calls_per_step for part in parts if part.phase == "optimizer") > 30
    fit.restore()
    after = [v.numpy() for v in fit.model.variables]
    assert all(np.array_equal(a, b) for a, b in zip(weights, after, strict=True))


def test_many_steps_in_one_execution_are_no_loop_over_examples(tmp_path, layers):
    fit = subject(tmp_path, layers, steps_per_execution=32)
    parts = fit.measure_kernels(fit.original, 0.1)
    assert not any(part.loop_iterations == 32 for part in parts)
    assert all(part.batch_only_share < 0.1 for part in parts)


def test_an_optimizer_with_many_small_weights_is_tried_with_one_update(tmp_path, layers):
    model = keras.Sequential([keras.Input((4,)), *(keras.layers.Dense(4) for _ in range(16))])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    before = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    x = tf.data.Dataset.from_tensor_slices(np.ones((64, 4), "float32"))
    data = tf.data.Dataset.zip((x, x)).batch(16)
    watched = FitSubject(model, {"x": data}, 0, "train.py:9", str(tmp_path))
    watched.layers, watched.ends_process = layers, True
    profiled, not_profiled = (
        collect_evidence(
            EvidenceContext(
                *(watched, watched.original, Journal()),
                step_s=0.001,
                block_s=0.1,
                is_step_dominant=False,
                has_kernel_profile=has_profile,
            )
        )["flat_updates_speedup"]
        for has_profile in (True, False)
    )
    assert profiled.ratio > 0
    assert not_profiled is None
    watched.restore()
    after = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_where_no_script_was_watched_nothing_is_told(tmp_path, layers):
    fit = subject(tmp_path, layers)
    fit.layers = None
    assert fit.measure_kernels(fit.original, 0.1) == ()
    alone = DatasetSubject(data(), epochs=1, at="train.py:9", scratch=str(tmp_path))
    assert alone.measure_kernels(alone.original, 0.1) == ()
    assert alone.find_slow_layers(()) == ()
