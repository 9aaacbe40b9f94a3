"""``uncork tune`` and ``run`` of trainings that do the last map of their pipeline in the step."""

from __future__ import annotations

import functools
import gc
import inspect
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from records import MACHINE, STEPS, plan, workload_diagnosis
from uncork.capture.base.listener import FitCall
from uncork.core.base.errors import EditRefused, PlanRefused
from uncork.core.base.journal import Journal
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan, Policy
from uncork.core.edits.edit import Edit
from uncork.core.edits.pipeline import AutotuneOff, Rebatch
from uncork.core.edits.step import MapOnDevice, StepsPerExecution
from uncork.engine.apply.plan_listener import _PLANNED, PlanListener
from uncork.engine.diagnose.observe import observe
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.tune.guarantee_policy import GuaranteePolicy
from uncork.optimizations.base.proposal import Proposal
from uncork.optimizations.host.map_on_device import MapOnDeviceOptimization, device_map_edits
from uncork.pipeline.profile.stage_costs import measure_stage_costs
from uncork.training.transforms.device_maps import UnmappedBatch

PIXELS = np.random.default_rng(2).integers(0, 256, (32, 6), "uint8")
LABELS = np.arange(32, dtype="float32").reshape(-1, 1) % 2
KEPT = next(step for step in STEPS if step.outcome == "kept")


def scaled(x: Any, y: Any) -> Any:
    return tf.cast(x, tf.float32) / 255.0, y


def behind() -> tf.data.Dataset:
    pixels = tf.data.Dataset.from_tensor_slices((PIXELS, LABELS)).shuffle(32, seed=3)
    return pixels.batch(4).map(scaled).prefetch(1)


def below() -> tf.data.Dataset:
    pixels = tf.data.Dataset.from_tensor_slices((PIXELS, LABELS)).map(scaled)
    return pixels.shuffle(32, seed=3).batch(4)


def judged() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((PIXELS[:9] / 255.0, LABELS[:9])).batch(4)


def call(x: Any, **arguments: Any) -> FitCall:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(4, "relu"), layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"])
    model.optimizer.build(model.trainable_variables)
    given = {"x": x(), "verbose": 0, "epochs": 2, **arguments}
    bound = inspect.signature(model.fit).bind(**given)
    bound.apply_defaults()
    return FitCall(
        0, "train.py:9", model, dict(bound.arguments), functools.partial(keras.Model.fit, model)
    )


def subject_of(made: FitCall, folder: Any) -> FitSubject:
    return FitSubject(made.model, made.arguments, 0, made.at, str(folder))


def edits_for(subject: FitSubject, *others: Edit, kind: str = "map") -> tuple[Edit, ...]:
    """As the stages of a diagnosis name them."""
    stages = measure_stage_costs(subject.original.pipeline, batch_size=4, budget_s=0.2)
    last = next(stage for stage in stages if stage.step_offload and stage.kind == kind)
    return (*device_map_edits(last.step_offload, "", gathers_rows=kind != "map"), *others)


def planned(made: FitCall, folder: Any, *others: Edit, kind: str = "map") -> Plan:
    subject = subject_of(made, folder)
    edits = edits_for(subject, *others, kind=kind)
    version = subject.original.with_edits(edits)
    subject.restore()
    kept = replace(KEPT, edits=(*version.pipeline_edits, *version.step_edits))
    return plan(before=workload_diagnosis(workload=subject.workload, stages=()), steps=(kept,))


def weights(made: FitCall) -> list[Any]:
    return [np.asarray(value) for value in made.model.get_weights()]


@pytest.mark.every(4)
@pytest.mark.parametrize("kind", ["map", "from_tensor_slices"])
@pytest.mark.parametrize(
    ("x", "others"),
    [(behind, (StepsPerExecution(steps=3),)), (below, (AutotuneOff(expected_digest=""),))],
)
def test_weights_and_history_are_those_of_the_script(
    x: Any, others: Any, kind: str, tmp_path: Any
) -> None:
    plain = call(x, validation_data=judged())
    history = plain.original(**plain.arguments).history
    made = call(x, validation_data=judged())
    found = PlanListener(planned(made, tmp_path, *others, kind=kind), strict=True).fit(made).history
    assert found == history
    assert all(np.array_equal(a, b) for a, b in zip(weights(made), weights(plain), strict=True))


@pytest.mark.parametrize("x", [behind, below])
def test_it_is_proved_by_what_the_pipeline_makes_and_what_the_step_makes(
    x: Any, tmp_path: Any
) -> None:
    subject = subject_of(call(x), tmp_path)
    edits = edits_for(subject)
    version = subject.original.with_edits(edits)
    promises = GuaranteePolicy(subject, Policy())
    proposal = Proposal(edits=edits, predicted=2.0, at="train.py:9", rationale="")
    proof = promises.prove(
        version, MapOnDeviceOptimization(), proposal, part=None, time_left_s=60.0
    )
    subject.restore()
    assert (proof.passed, proof.kind) == (True, "exact")
    assert "weights" in proof.detail
    assert ("batches" in proof.detail) == (x is below)


@pytest.mark.deep
def test_a_version_is_measured_as_it_is_fed(tmp_path: Any) -> None:
    subject = subject_of(call(behind), tmp_path)
    version = subject.original.with_edits(edits_for(subject))
    assert all(isinstance(batch, UnmappedBatch) for batch in subject._step_batches(version))
    subject.runner(version).block(0.05)
    subject.resident_runner(version).block(0.05)
    found = observe(subject, MACHINE, Journal(), variant=version, budget_s=0.5)
    subject.restore()
    last = next(stage for stage in found.stages if stage.kind == "map")
    assert (last.cpu_s_per_element, last.step_offload) == (0.0, None)


ARRAYS = {"x": PIXELS, "y": LABELS, "batch_size": 5}


@pytest.mark.every(6)
@pytest.mark.parametrize(
    "more",
    [{}, {"class_weight": {0: 1.0, 1: 2.0}, "shuffle": False}, {"validation_split": 0.25}],
)
@pytest.mark.parametrize("calls", [1, 2])
def test_arrays_are_trained_on_alike(more: Any, calls: int, tmp_path: Any) -> None:
    """What they hold by the time of a second call counts there."""

    def trained(*, planned: bool) -> Any:
        given = {**ARRAYS, "x": PIXELS.copy(), **more}
        made, told = call(lambda: given["x"], **{k: v for k, v in given.items() if k != "x"}), []
        running = None
        if planned:
            subject = subject_of(made, tmp_path)
            edit = MapOnDevice(expected_digest=subject.workload.array_offload.digest)
            subject.restore()
            step = replace(KEPT, edits=(edit,))
            before = workload_diagnosis(workload=subject.workload, stages=())
            running = PlanListener(plan(before=before, steps=(step,)), strict=True)
        keras.utils.set_random_seed(2)
        for _ in range(calls):
            fit = running.fit if running else lambda made: made.original(**made.arguments)
            told.append(fit(made).history)
            given["x"] += 3
        return told, weights(made)

    plain, planned = trained(planned=False), trained(planned=True)
    assert planned[0] == plain[0]
    assert all(np.array_equal(a, b) for a, b in zip(planned[1], plain[1], strict=True))


@pytest.mark.parametrize("strict", [True, False])
def test_arrays_that_find_no_room_are_refused_aloud(
    strict: bool, tmp_path: Any, monkeypatch: Any, capsys: Any
) -> None:
    plain = call(lambda: PIXELS, y=LABELS, shuffle=False)
    history = plain.original(**plain.arguments).history
    made = call(lambda: PIXELS, y=LABELS, shuffle=False)
    subject = subject_of(made, tmp_path)
    edit = MapOnDevice(expected_digest=subject.workload.array_offload.digest)
    subject.restore()
    before = workload_diagnosis(workload=subject.workload, stages=())
    kept = plan(before=before, steps=(replace(KEPT, edits=(edit,)),))
    monkeypatch.setattr("uncork.training.transforms.device_maps._TRIFLE", 0)
    monkeypatch.setattr(
        "uncork.training.transforms.device_maps.free_device_bytes", lambda device: 0
    )
    if strict:
        with pytest.raises(PlanRefused, match="cannot run as planned: the arrays take"):
            PlanListener(kept, strict=True).fit(made)
    else:
        assert PlanListener(kept, strict=False).fit(made).history == history
        assert "continues unmodified: the arrays take" in capsys.readouterr().err


def test_arrays_are_proved_and_measured_as_they_are_fed(tmp_path: Any) -> None:
    made = call(lambda: PIXELS, y=LABELS, batch_size=5)
    subject = subject_of(made, tmp_path)
    edit = MapOnDevice(expected_digest=subject.workload.array_offload.digest)
    version = subject.original.with_step_edits((edit,))
    subject.runner(version).block(0.05)
    subject.resident_runner(version).block(0.05)
    assert all(isinstance(batch, UnmappedBatch) for batch in subject._step_batches(version))
    traced = subject._settings_for(version.step_edits)._train_function
    subject.runner(version).block(0.05)
    assert subject._settings_for(version.step_edits)._train_function is traced  # put there once
    proof = subject.prove_step(version, "exact", 30.0)
    subject.restore()
    assert (proof.passed, proof.kind) == (True, "exact")


def held(rows: int) -> int:
    """Tensors of so many rows that something still holds."""
    gc.collect()
    tensors = (o for o in gc.get_objects() if isinstance(o, tf.Tensor) and hasattr(o, "numpy"))
    return sum(1 for tensor in tensors if tuple(tensor.shape)[:1] == (rows,))


def test_the_arrays_are_let_go_with_the_training(tmp_path: Any) -> None:
    """Keras keeps the graph of each training step for ever, and with it what the graph holds."""
    rows = 4099
    x, y = np.zeros((rows, 6), "uint8"), np.zeros((rows, 1), "float32")
    made = call(lambda: x, y=y, batch_size=2048)
    subject = subject_of(made, tmp_path)
    edit = MapOnDevice(expected_digest=subject.workload.array_offload.digest)
    before = workload_diagnosis(workload=subject.workload, stages=())
    subject.restore()
    del subject
    running = PlanListener(plan(before=before, steps=(replace(KEPT, edits=(edit,)),)), strict=True)
    found = []
    for _ in range(2):
        running.fit(made)
        found.append(held(rows))
    assert len(set(found)) == 1  # those of the last one, at most
    maps = vars(made.model)[_PLANNED]._transforms.map_in_step._map.maps
    (placed,) = maps[0].dataset.__dict__["_uncork_placed"].values()
    assert [variable.value().shape[0] for variable in placed._rows.values()] == [0, 0]
    del running, maps, placed, made
    assert held(rows) == 0


def test_another_pipeline_is_refused_aloud(tmp_path: Any, capsys: Any) -> None:
    made = planned(call(behind), tmp_path)

    def other() -> tf.data.Dataset:
        return behind().map(lambda x, y: (x * 2, y))

    with pytest.raises(PlanRefused):
        PlanListener(made, strict=True).fit(call(other))
    PlanListener(made, strict=False).fit(call(other))
    assert "trains unmodified, without the plan" in capsys.readouterr().err


def test_what_is_put_together_behind_the_map_is_refused(tmp_path: Any) -> None:
    subject = subject_of(call(behind), tmp_path)
    edits = edits_for(subject)
    version = subject.original.with_edits(
        (Rebatch(batch_multiplier=2, batch_size=8, expected_digest=""), *edits)
    )
    with pytest.raises(EditRefused, match="ends with no such map"):
        subject.runner(version).block(0.05)
    subject.restore()
