"""``uncork tune`` and ``run`` of loops whose batches are made on the device of their step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from records import STEPS, WORKLOAD, plan, workload_diagnosis
from uncork.capture.base.listener import LoopCall, LoopEvidence
from uncork.capture.hooks import install as hooks
from uncork.core.base.errors import EditRefused, PlanRefused
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan, Proof
from uncork.core.edits.pipeline import Prefetch
from uncork.core.edits.step import MapOnDevice, StepEdit
from uncork.engine.apply.plan_listener import PlanListener
from uncork.engine.loop.dataset_loop_subject import DatasetLoopSubject
from uncork.engine.loop.device_batches import DeviceBatchComparison, device_batches_of
from uncork.engine.loop.loop_driver import run_engine_thread
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.device_iterator import DeviceMappedPipeline
from uncork.pipeline.transforms.trailing_maps import find_trailing_maps
from uncork.training.variant import Variant

PIXELS = np.random.default_rng(2).integers(0, 256, (32, 6), "uint8")
LABELS = np.arange(32, dtype="float32").reshape(-1, 1) % 2
HERE = tf.zeros([]).device
KEPT = next(step for step in STEPS if step.outcome == "kept")


def scaled(x: Any, y: Any) -> Any:
    return tf.cast(x, tf.float32) / 255.0, y


def data(work: Any = scaled) -> tf.data.Dataset:
    tf.random.set_seed(3)
    rows = tf.data.Dataset.from_tensor_slices((PIXELS, LABELS))
    return rows.shuffle(32, seed=3).batch(8).map(work)


def edit_for(dataset: Any, device: str = HERE) -> MapOnDevice:
    return MapOnDevice(
        expected_digest=find_trailing_maps(read_pipeline(dataset))[0].digest, placement=device
    )


class Training:
    """A model and a compiled step of the user's own."""

    def __init__(self) -> None:
        keras.utils.set_random_seed(3)
        self.model = keras.Sequential(
            [keras.Input((6,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)]
        )
        self.optimizer = keras.optimizers.Adam(0.01)
        self.optimizer.build(self.model.trainable_variables)
        self.step = tf.function(self._step)

    def _step(self, x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((y - self.model(x, training=True)) ** 2)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply(gradients, self.model.trainable_variables)
        return loss

    @property
    def weights(self) -> list[Any]:
        return [w.numpy() for w in (*self.model.variables, *self.optimizer.variables)]


def trained(dataset: Any, epochs: int = 3) -> tuple[list[Any], list[Any]]:
    """Weights at the end, and all batches that the loop was given."""
    training, seen = Training(), []
    for _ in range(epochs):
        for number, (x, y) in enumerate(dataset):
            training.step(x, y)
            seen.append((number, x.dtype, x.numpy().tobytes(), y.numpy().tobytes()))
    return training.weights, seen


def under(made: Plan, dataset: Any, *, strict: bool = True, **how: Any) -> tuple[PlanListener, Any]:
    running = PlanListener(made, strict=strict)
    with hooks.report_training_calls(running):
        found = trained(dataset, **how)
    return running, found


def planned(dataset: Any, *edits: Any) -> Plan:
    workload = replace(
        WORKLOAD,
        kind="custom_loop",
        index=0,
        pipeline_digest=read_pipeline(dataset).digest,
        model=None,
    )
    before = workload_diagnosis(workload=workload, stages=())
    return plan(before=before, after=None, steps=(replace(KEPT, edits=edits, guarantee="exact"),))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was sent."""
    sent, made = list[Any](), DeviceMappedPipeline.map_element

    def counting(there: DeviceMappedPipeline, given: Any) -> Any:
        sent.append(given[0].dtype)
        return made(there, given)

    monkeypatch.setattr(DeviceMappedPipeline, "map_element", counting)
    return sent


@pytest.mark.parametrize("others", [(), (Prefetch(expected_digest=""),)])
def test_the_loop_is_given_what_it_always_was(others: Any, asked: list[Any]) -> None:
    wanted = trained(data())
    edits = (
        *Variant(read_pipeline(data())).with_pipeline_edits(others).pipeline_edits,
        edit_for(data()),
    )
    running, found = under(planned(data(), *edits), data())
    assert running.is_settled
    assert asked == [tf.uint8] * 12
    assert found[1] == wanted[1]
    assert all(np.array_equal(a, b) for a, b in zip(found[0], wanted[0], strict=True))


def test_another_pipeline_and_another_machine_are_refused_aloud(capsys: Any) -> None:
    made = planned(data(), edit_for(data()))
    with pytest.raises(PlanRefused, match="has changed"):
        under(made, data(lambda x, y: (tf.cast(x, tf.float32) / 254.0, y)), epochs=30)
    elsewhere = planned(data(), edit_for(data(), "/job:card/replica:0/task:0/device:CPU:0"))
    with pytest.raises(PlanRefused, match="no device"):
        under(elsewhere, data())
    _, found = under(elsewhere, data(), strict=False)
    assert found[1] == trained(data())[1]
    assert "no device /job:card" in capsys.readouterr().err


def test_a_function_that_is_given_the_dataset_reads_it_as_written(asked: list[Any]) -> None:
    @tf.function
    def total(dataset: Any) -> Any:
        return dataset.reduce(0.0, lambda so_far, element: so_far + tf.reduce_sum(element[0]))

    @tf.function
    def taken(iterator: Any) -> Any:
        return next(iterator)

    dataset = data()
    with hooks.report_training_calls(
        PlanListener(planned(dataset, edit_for(dataset)), strict=True)
    ):
        assert float(total(dataset)) > 0
        iterator = iter(dataset)
        first, second = next(iterator), taken(iterator)
        assert [len(asked), int(tf.size(second[0]))] == [2, 48]
        assert first[0].dtype == second[0].dtype == tf.float32
        assert len(list(iterator)) == 2


class Ended(BaseException):
    """The engine has no more use for the loop."""


def examined(
    work: Callable[[DatasetLoopSubject], Any],
    folder: Path,
    loop: Any = lambda step, x, y: step(x, y),
) -> Any:
    """What the engine finds in a loop of the user's own."""
    dataset, training, found = data(), Training(), list[Any]()
    evidence = LoopEvidence(has_eager_step=False, steps_seen=0, tape_calls_per_step=1)
    call = LoopCall(0, "train.py:9", dataset, lambda: iter(dataset), evidence)
    subject, ended = DatasetLoopSubject(call, epochs=None, scratch=str(folder)), threading.Event()

    def working() -> None:
        try:
            found.append(work(subject))
        except Exception as error:
            found.append(error)
        finally:
            subject.restore()
            ended.set()

    board = run_engine_thread(working, subject.driver, Ended())
    with suppress(Ended):
        for x, y in board:
            loop(training.step, x, y)
    assert ended.wait(60)
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for seconds in ("_WATCHED_S", "_RECORDED_S"):
        monkeypatch.setattr(f"uncork.engine.loop.dataset_loop_subject.{seconds}", 0.1)
    return


def moved(subject: DatasetLoopSubject, *others: StepEdit) -> Variant:
    return subject.original.with_step_edits((edit_for(subject.original.pipeline.dataset), *others))


@pytest.mark.usefixtures("at_once")
def test_it_is_proved_by_the_batches_and_by_what_the_step_makes_of_them(tmp_path: Path) -> None:
    def work(subject: DatasetLoopSubject) -> Proof:
        version = moved(subject)
        subject.runner(version).block(0.05)
        subject.resident_runner(version).prime()
        assert subject.grouped_runner(version, 0.001) is None
        assert subject.measure_transfer(version) is None  # all of it is in this host's memory
        return subject.prove_step(version, "exact", 10.0)

    proof = examined(work, tmp_path)
    assert (proof.passed, proof.kind) == (True, "exact"), proof.detail
    assert (
        "batches created on the device and on the host are equal bit for bit; weights"
        in proof.detail
    )


@pytest.mark.usefixtures("at_once")
def test_what_the_loop_makes_of_a_batch_is_not_proved(tmp_path: Path) -> None:
    def prove(subject: DatasetLoopSubject) -> Proof:
        return subject.prove_step(moved(subject), "exact", 10.0)

    with pytest.raises(EditRefused, match="is not in its batches"):
        examined(prove, tmp_path, lambda step, x, y: step(x * 2, y))


@pytest.mark.usefixtures("at_once")
def test_what_is_made_otherwise_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = DeviceMappedPipeline.map_element
    monkeypatch.setattr(
        DeviceMappedPipeline, "map_element", lambda there, given: otherwise(*made(there, given))
    )

    def otherwise(x: Any, y: Any) -> Any:
        return np.nextafter(x, 2.0) + tf.zeros([]), y

    def prove(subject: DatasetLoopSubject) -> list[Proof]:
        return [subject.prove_step(moved(subject), kind, 10.0) for kind in ("exact", "rounding")]

    exact, rounding = examined(prove, tmp_path)
    assert not exact.passed
    assert "on the host differ" in exact.detail
    assert rounding.kind == "rounding"


def test_a_whole_number_is_no_part_of_a_batch() -> None:
    version = Variant(read_pipeline(data()), (edit_for(data()),))
    compared = DeviceBatchComparison(device_batches_of(version))
    x, y = next(compared.epoch())
    (there, _, number), _ = compared.device_arguments(((x, y, tf.constant(3)), {}))
    assert there is not x
    assert int(number) == 3
    assert (compared.compared_count, compared.has_difference) == (1, False)
    for call in (((x, tf.constant(0.1)), {}), ((x.numpy(),), {}), ((3,), {})):
        with pytest.raises(EditRefused, match="the loop calls its step with"):
            compared.device_arguments(call)
