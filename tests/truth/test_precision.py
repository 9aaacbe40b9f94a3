"""The parts of the benchmark of the precision proof: what it does to a training, and its sums."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.precision.ask import CANDIDATES, Asked, Asker
from benchmarks.precision.binomial import interval
from benchmarks.precision.harms import (
    Harmed,
    coarse_gradients,
    coarse_layers,
    coarse_weights,
    faster_learning,
    rounded,
)
from benchmarks.precision.models import MODELS, PLANTED, compiled
from benchmarks.precision.page import Precision, page
from records import MACHINE
from uncork.core.edits.step import DtypePolicy
from uncork.training.run.replay import BatchRecording
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot
from uncork.verify.provers.fit_step import StepProver

# So little time that the proof takes its least number of steps.
NO_TIME_S = 0.0


@pytest.fixture(scope="module")
def asker() -> Asker:
    return Asker(*compiled("MLP", 1))


def ask(asker: Asker, name: str) -> dict:
    return asker.ask(CANDIDATES[name][1](asker), budget_s=NO_TIME_S)


def test_bits_are_rounded_to_the_nearest():
    assert rounded(tf.constant([1.0, 1.1, -3.3, 0.0]), 2).numpy().tolist() == [1.0, 1.0, -3.5, 0.0]
    x = tf.random.stateless_normal([1000], [1, 2])
    as_bfloat16 = tf.cast(tf.cast(x, tf.bfloat16), tf.float32)
    np.testing.assert_array_equal(rounded(x, 7), as_bfloat16)


@pytest.mark.deep
def test_the_same_training_is_kept_and_harm_refused(asker):
    before = [w.copy() for w in asker.model.get_weights()]
    again = ask(asker, "float32 again")
    assert (again["kept"], again["bias"], again["steps"]) == (True, 0.0, 40), again["detail"]
    harmed = ask(asker, "weights after each step, 3 bits")
    assert not harmed["kept"]
    assert harmed["bias"] > 1
    for ours, held in zip(asker.model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, held)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "harm", [coarse_layers(1), coarse_gradients(0), coarse_weights(3), faster_learning(2)]
)
def test_harm_changes_a_training_and_is_undone(asker, harm):
    rate = float(asker.model.optimizer.learning_rate)
    order = list(range(4))
    original, harmed, again = (
        asker.under(settings)(order, 1)
        for settings in (
            StepSettings(asker.model),
            Harmed(asker.model, harm),
            StepSettings(asker.model),
        )
    )
    assert original.distance(harmed) > 1e-4
    assert original.is_equal_to(again)
    assert float(asker.model.optimizer.learning_rate) == rate


@pytest.mark.deep
def test_the_answer_is_that_of_a_tuning():
    bfloat16 = DtypePolicy(policy="mixed_bfloat16")
    model, feed = compiled("autoencoder", 1)
    said = ask(Asker(model, feed), "mixed_bfloat16")
    snapshot, recording = (
        Snapshot(model),
        BatchRecording.from_feed(feed, model, max_batches=64, max_bytes=1 << 28),
    )
    prover = StepProver(StepSettings(model), snapshot, recording)
    proof = prover.prove(StepSettings(model, (bfloat16,)), "precision", NO_TIME_S)
    assert (said["kept"], said["detail"]) == (proof.passed, proof.detail)


def test_an_interval_holds_what_was_seen():
    assert interval(1, 20) == pytest.approx((0.00127, 0.24873), abs=1e-5)
    assert interval(0, 20) == pytest.approx((0.0, 0.16843), abs=1e-5)
    assert interval(20, 20) == pytest.approx((0.83157, 1.0), abs=1e-5)


def asked(model: str, candidate: str, seed: int, bias: float | None, detail: str) -> Asked:
    return Asked(
        model=model,
        seed=seed,
        candidate=candidate,
        kind="same",
        kept=not detail,
        orders=4,
        steps=400,
        bias=bias,
        detail=detail,
    )


def test_the_page_counts_refusals_and_tells_why():
    outside = "window 1 of 4: loss 2 outside 1 +- 0.1"
    found = [asked(model, "float32 again", 1, 0.0, "") for model in MODELS]
    found.append(asked("LSTM", "float32 again", 2, 0.5, outside))
    (planted,) = PLANTED
    found.append(asked(planted, "mixed_float16", 1, None, "the loss became NaN or infinite"))
    text = page(Precision(date="2026-01-31", sources="0", machine=MACHINE, asked=tuple(found)))
    assert "| float32 again | 1 of 6 | 0% to 64% |" in text
    assert "| 0 (0 to 0.5) | a run outside the band 1 |" in text
    assert f"{planted}, mixed_float16: 1 of 1 refused. not finite 1" in text
