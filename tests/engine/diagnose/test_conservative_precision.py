"""A training that few bits harm in one layer alone: its output is large, and differs by little."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from uncork.core.base.record import replace
from uncork.core.edits.step import DtypePolicy
from uncork.engine.fit.fit_subject import FitSubject

OFFSET = 300.0  # in bfloat16 the next number is 302


def subject(folder: Path) -> FitSubject:
    keras.utils.set_random_seed(2)
    draw = np.random.default_rng(2)
    x = draw.normal(size=(512, 8)).astype("float32")
    y = OFFSET + x.sum(1, keepdims=True) + 0.3 * draw.normal(size=(512, 1)).astype("float32")
    given = keras.Input((8,))
    hidden = keras.layers.Dense(32, "relu", name="hidden")(given)
    start = keras.initializers.Constant(OFFSET)
    model = keras.Model(given, keras.layers.Dense(1, bias_initializer=start, name="last")(hidden))
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return FitSubject(model, {"x": x, "y": y, "epochs": 4}, 0, "train.py:9", str(folder))


@pytest.mark.deep
def test_the_proof_tells_harm_and_is_content_with_the_last_layer_in_float32(tmp_path: Path) -> None:
    tried = subject(tmp_path)
    keep = tried.workload.precision_sensitive_layers
    assert keep == ("last",)
    policy = DtypePolicy(policy="mixed_bfloat16", float32_layers=())
    low, careful = (
        tried.original.with_step_edits((edit,))
        for edit in (policy, replace(policy, float32_layers=keep, is_precision_conservative=True))
    )
    harmed = tried.prove_step(low, "precision", 30.0)
    assert (harmed.passed, harmed.is_disproved) == (False, True), harmed.detail
    proof = tried.prove_step(careful, "precision", 30.0)
    assert (proof.passed, proof.is_disproved) == (True, False), proof.detail
    tried.restore()
