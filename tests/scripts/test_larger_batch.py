"""``uncork run`` with a plan that makes the batch larger."""

from __future__ import annotations

import functools
import inspect
from contextlib import suppress
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from records import STEPS, plan, workload_diagnosis
from uncork.capture.base.listener import FitCall
from uncork.core.base.errors import PlanRefused
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan
from uncork.core.edits.pipeline import Rebatch
from uncork.core.edits.step import LargerBatch
from uncork.engine.apply.plan_listener import PlanListener
from uncork.engine.fit.fit_subject import FitSubject

ROWS = np.random.default_rng(0).normal(size=(124, 4)).astype("float32")
SUMS = ROWS.sum(1, keepdims=True)
KEPT = next(step for step in STEPS if step.outcome == "kept")
FOUR = LargerBatch(batch_multiplier=4, learning_rate_multiplier=2.0)


class Sizes(keras.callbacks.Callback):
    """How many steps an epoch has, and a validation."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.before = int(self.model.optimizer.iterations)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.steps = int(self.model.optimizer.iterations) - self.before
        self.rate = float(self.model.optimizer.learning_rate)


def call(**arguments: Any) -> FitCall:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    bound = inspect.signature(model.fit).bind(**{"verbose": 0, **arguments})
    bound.apply_defaults()
    fit = functools.partial(keras.Model.fit, model)
    return FitCall(0, "train.py:9", model, dict(bound.arguments), fit)


def planned(made: FitCall, tmp_path: Any) -> Plan:
    subject = FitSubject(made.model, made.arguments, 0, made.at, str(tmp_path))
    version, edits = subject.original, ()
    if version.pipeline is not None:
        rebatch = Rebatch(batch_multiplier=4, batch_size=32, expected_digest="")
        edits = version.with_pipeline_edits((rebatch,)).pipeline_edits
    kept = replace(KEPT, edits=(*edits, FOUR), guarantee="training")
    subject.restore()
    return plan(before=workload_diagnosis(workload=subject.workload, stages=()), steps=(kept,))


def arrays(**more: Any) -> dict[str, Any]:
    return {"x": ROWS, "y": SUMS, "batch_size": 8, "shuffle": False, **more}


def pipeline() -> dict[str, Any]:
    return {"x": tf.data.Dataset.from_tensor_slices((ROWS, SUMS)).batch(8)}


@pytest.mark.parametrize("given", [arrays, pipeline])
def test_an_epoch_has_a_quarter_of_the_steps_and_all_samples(given, tmp_path):
    sizes = Sizes()
    made = call(**given(), epochs=2, callbacks=[sizes])
    PlanListener(planned(made, tmp_path), strict=True).fit(made)
    assert sizes.steps == 4  # 32, 32, 32, 28
    assert sizes.rate == pytest.approx(0.01)
    by_hand = call(x=ROWS, y=SUMS, batch_size=32, shuffle=False, epochs=2)
    by_hand.model.optimizer.learning_rate = 0.02
    by_hand.original(**by_hand.arguments)
    pairs = zip(made.model.get_weights(), by_hand.model.get_weights(), strict=True)
    assert all(np.allclose(ours, theirs, atol=1e-6) for ours, theirs in pairs)


def test_the_validation_keeps_its_batch(tmp_path, monkeypatch):
    seen: list[int] = []
    made = call(**arrays(validation_data=(ROWS, SUMS)), epochs=1)
    step = type(made.model).test_step

    def watched(self: Any, data: Any) -> Any:
        tf.py_function(lambda x: seen.append(len(x)), [data[0]], [])
        return step(self, data)

    monkeypatch.setattr(keras.Sequential, "test_step", watched)
    PlanListener(planned(made, tmp_path), strict=True).fit(made)
    assert set(seen) == {8, 124 % 8}


def test_the_optimizer_is_the_user_s_again(tmp_path):
    made = call(**arrays(), epochs=1)
    PlanListener(planned(made, tmp_path), strict=True).fit(made)
    assert "_get_current_learning_rate" not in vars(made.model.optimizer)


@pytest.mark.parametrize(
    "changed", [arrays(batch_size=16), arrays(steps_per_epoch=3), arrays(batch_size=None)]
)
def test_for_another_batch_the_plan_is_refused(changed, tmp_path):
    made = planned(call(**arrays(), epochs=1), tmp_path)
    with pytest.raises(PlanRefused, match=r"steps_per_epoch|samples of a batch"):
        PlanListener(made, strict=True).fit(call(**changed, epochs=1))


def test_where_the_last_larger_batch_would_lack_much_the_plan_is_refused(tmp_path):
    """Its schedule would go on as if it were whole."""
    made = planned(call(**arrays(), epochs=1), tmp_path)
    few = call(x=ROWS[:40], y=SUMS[:40], batch_size=8, shuffle=False, epochs=1)  # five for four
    with pytest.raises(PlanRefused, match="batches of an epoch"):
        PlanListener(made, strict=True).fit(few)


def test_a_second_fit_has_its_schedule_where_the_first_left_it(tmp_path):
    """What was traced for full batches, and what is traced for a short one now, agree."""
    made = call(**arrays(), epochs=1)
    falling = keras.optimizers.schedules.PolynomialDecay(0.01, 160, 0.0)
    made.model.compile(keras.optimizers.SGD(falling), "mse")
    running = PlanListener(planned(made, tmp_path), strict=True)
    told = []
    for _ in range(2):
        sizes = Sizes()
        again = FitCall(
            0, made.at, made.model, {**made.arguments, "callbacks": [sizes]}, made.original
        )
        running.fit(again)
        told.append(sizes.rate)
    # Sixteen of the script's batches are behind the first, thirty-two behind the second.
    assert told == pytest.approx([0.01 * (1 - 16 / 160), 0.01 * (1 - 32 / 160)])


class Stops(keras.callbacks.Callback):
    """Somebody presses Ctrl-C at the end of the first epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        raise KeyboardInterrupt


def test_so_it_has_after_one_that_was_interrupted(tmp_path):
    made = call(**arrays(), epochs=1)
    falling = keras.optimizers.schedules.PolynomialDecay(0.01, 160, 0.0)
    made.model.compile(keras.optimizers.SGD(falling), "mse")
    running, sizes = PlanListener(planned(made, tmp_path), strict=True), Sizes()
    for callback in (Stops(), sizes):
        given = {**made.arguments, "callbacks": [callback]}
        with suppress(KeyboardInterrupt):
            running.fit(FitCall(0, made.at, made.model, given, made.original))
    assert sizes.rate == pytest.approx(0.01 * (1 - 32 / 160))
