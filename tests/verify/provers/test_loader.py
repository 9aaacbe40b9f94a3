"""A Python loader edited: proved against the loader as it is, and put in force by a plan."""

from __future__ import annotations

import inspect
import multiprocessing
import time

import keras
import numpy as np
import pytest
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

import uncork
from plan_files import made_here
from records import STEPS, plan, workload_diagnosis
from uncork.capture.base.listener import FitCall
from uncork.core.base.errors import EditRefused, PlanRefused
from uncork.core.base.journal import Journal
from uncork.core.base.record import replace
from uncork.core.documents.plan_file import parse_plan, serialize_plan
from uncork.core.edits.edit import ArrayFeed, LoaderCache, LoaderProcesses, LoaderWorkers
from uncork.core.edits.pipeline import Cache
from uncork.engine.apply.plan_listener import PlanListener
from uncork.engine.diagnose.observe import observe
from uncork.engine.fit.fit_subject import FitSubject
from uncork.measure.machine.devices import detect_machine
from uncork.verify.provers import loader as loader_proofs

MADE = ArrayDataAdapter.get_tf_dataset
ROWS = np.random.default_rng(1).normal(size=(96, 5)).astype("float32")


class Loader(keras.utils.PyDataset):
    def __init__(self, sign=1):
        super().__init__()
        self.sign = sign
        self.ended = 0

    def __len__(self):
        return 12

    def on_epoch_end(self):
        self.ended += 1

    def __getitem__(self, index):
        time.sleep(0.001 * (index % 3))
        rows = slice(8 * index, 8 * index + 8)
        return self.sign * ROWS[rows], ROWS[rows, :1]


class InTurn(Loader):
    """Hands out what the calls before have left: right for one thread alone."""

    def __init__(self):
        super().__init__()
        self.given = 0

    def __getitem__(self, index):
        time.sleep(0.03 * (index % 2 == 0))
        self.given += 1
        return np.full((8, 5), self.given, "float32"), np.ones((8, 1), "float32")


class Noisy(Loader):
    """Augments; a batch that takes longer lets the next one draw first."""

    def __getitem__(self, index):
        time.sleep(0.03 * (index % 2 == 0))
        rows = slice(8 * index, 8 * index + 8)
        return ROWS[rows] + np.random.normal(size=(8, 5)).astype("float32"), ROWS[rows, :1]


def trained():
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def subject(loader, tmp_path):
    return FitSubject(trained(), {"x": loader, "epochs": 2}, 0, "train.py:9", str(tmp_path))


def edit(subject):
    return LoaderWorkers(workers=3, expected_digest=subject.workload.loader_digest)


@pytest.mark.parametrize("shuffle", [True, False])
def test_equal_batches_in_their_order_are_a_proof(tmp_path, shuffle):
    given = {"x": Loader(), "epochs": 2, "shuffle": shuffle}
    one = FitSubject(trained(), given, 0, "train.py:9", str(tmp_path))
    proof = one.prove_loader(one.original.with_loader_edits((edit(one),)), "exact", 60.0)
    assert proof.passed, proof.detail
    assert "all 12 batches" in proof.detail  # of one epoch: it has an on_epoch_end


def test_batches_that_depend_on_the_turn_are_none(tmp_path):
    one = subject(InTurn(), tmp_path)
    proof = one.prove_loader(one.original.with_loader_edits((edit(one),)), "exact", 60.0)
    assert not proof.passed


def test_draws_are_resampled_and_not_exact(tmp_path):
    one = subject(Noisy(), tmp_path)
    version = one.original.with_loader_edits((edit(one),))
    exact = one.prove_loader(version, "exact", 60.0)
    assert not exact.passed
    assert "is not fixed" in exact.detail
    assert one.prove_loader(version, "resampled", 60.0).passed


def test_state_beside_the_draws_is_seen_in_the_weaker_proof_too(tmp_path):
    class Both(InTurn):
        def __getitem__(self, index):
            rows, labels = super().__getitem__(index)
            return rows + np.random.normal(size=rows.shape), labels

    one = subject(Both(), tmp_path)
    version = one.original.with_loader_edits((edit(one),))
    assert not one.prove_loader(version, "resampled", 60.0).passed


def test_a_version_with_workers_is_described_so(tmp_path):
    one = subject(Loader(), tmp_path)
    version = one.original.with_loader_edits((edit(one),))
    found = observe(one, detect_machine(), Journal(None), variant=version, budget_s=1.0)
    one.restore()
    assert found.workload.loader_workers == 3
    (stage,) = found.stages
    assert (stage.kind, stage.parallelism, stage.is_random) == ("pydataset", 3, False)


class Fixed(Loader):
    """The same in every epoch."""

    on_epoch_end = keras.utils.PyDataset.on_epoch_end


def cache(subject):
    return LoaderCache(size_bytes=10_000, expected_digest=subject.workload.loader_digest)


def test_kept_batches_are_proved_in_a_second_epoch(tmp_path):
    one = subject(Fixed(), tmp_path)
    version = one.original.with_loader_edits((cache(one),))
    runner = one.runner(version)
    runner.prime()
    proof = one.prove_loader(version, "exact", 60.0)
    assert proof.passed, proof.detail
    assert "24 batches of 2 epochs" in proof.detail


def test_a_cache_of_what_depends_on_the_turn_is_none(tmp_path):
    class Turning(InTurn):
        on_epoch_end = keras.utils.PyDataset.on_epoch_end

    one = subject(Turning(), tmp_path)
    version = one.original.with_loader_edits((cache(one),))
    assert not one.prove_loader(version, "exact", 60.0).passed


@pytest.fixture
def none_left():
    """No process is left of those that made batches."""
    yield
    deadline = time.monotonic() + 20
    while multiprocessing.active_children():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def processes(subject):
    return LoaderProcesses(processes=2, expected_digest=subject.workload.loader_digest)


def test_batches_of_other_processes_are_proved(tmp_path, none_left):
    one = subject(Fixed(), tmp_path)
    version = one.original.with_loader_edits((processes(one),))
    runner = one.runner(version)
    runner.prime()
    proof = one.prove_loader(version, "exact", 60.0)
    assert proof.passed, proof.detail
    assert "24 batches of 2 epochs" in proof.detail
    turning = subject(InTurn(), tmp_path)
    version = turning.original.with_loader_edits((processes(turning),))
    assert not turning.prove_loader(version, "exact", 60.0).passed


class NoisyAlways(Noisy):
    """Two epochs of it are read for a proof."""

    on_epoch_end = keras.utils.PyDataset.on_epoch_end


@pytest.mark.every(2)
@pytest.mark.parametrize("loader", [Noisy, NoisyAlways])
def test_draws_in_other_processes_are_resampled_and_not_exact(tmp_path, loader, none_left):
    one = subject(loader(), tmp_path)
    drawing = LoaderProcesses(
        processes=2, expected_digest=one.workload.loader_digest, is_random=True
    )
    version = one.original.with_loader_edits((drawing,))
    assert not one.prove_loader(version, "exact", 60.0).passed
    proof = one.prove_loader(version, "resampled", 60.0)
    assert proof.passed, proof.detail


@pytest.mark.every(3)
@pytest.mark.parametrize("edits", [(cache,), (edit,), (processes,)])
def test_a_plan_that_keeps_batches_trains_to_the_same_weights(tmp_path, edits, none_left):
    one = subject(Fixed(), tmp_path)
    kept = planned(one, *(make(one) for make in edits))
    plain, ours, loader = trained(), trained(), Fixed()
    keras.utils.set_random_seed(5)
    plain.fit(Fixed(), epochs=3, verbose=0)
    keras.utils.set_random_seed(5)
    uncork.fit(ours, loader, plan=kept, epochs=3, verbose=0)
    for mine, other in zip(plain.get_weights(), ours.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert type(loader) is Fixed


def test_steps_per_epoch_are_refused(made):
    with pytest.raises(PlanRefused, match="steps_per_epoch=5"):
        uncork.fit(trained(), Loader(), plan=made, epochs=2, steps_per_epoch=5, verbose=0)


class Rarely(Fixed):
    """Draws for one batch, which is none of those that are looked at."""

    def __getitem__(self, index):
        rows, labels = super().__getitem__(index)
        return rows + (np.random.normal() if index == 4 else 0.0), labels


@pytest.mark.parametrize("make", [cache, edit])
def test_a_draw_that_is_rare_is_found_by_the_proof(tmp_path, make):
    one = subject(Rarely(), tmp_path)
    version = one.original.with_loader_edits((make(one),))
    proof = one.prove_loader(version, "exact", 60.0)
    assert not proof.passed
    assert "batch 4 draws" in proof.detail
    assert not one.prove_loader(version, "resampled", 60.0).passed


LABELS = (ROWS[:, 0] > 0).astype("float32")[:, None]
ARRAYS = {"x": ROWS, "y": LABELS, "batch_size": 8}


def of_arrays(tmp_path, **more):
    given = {**ARRAYS, "epochs": 2, **more}
    return FitSubject(trained(), given, 0, "train.py:9", str(tmp_path))


@pytest.mark.parametrize("shuffle", [True, False])
def test_arrays_in_one_thread_are_proved(tmp_path, shuffle):
    one = of_arrays(tmp_path, shuffle=shuffle)
    version = one.original.with_loader_edits((ArrayFeed(),))
    proof = one.prove_loader(version, "exact", 60.0)
    assert (proof.passed, proof.kind) == (True, "exact")
    assert "all 12 batches are equal" in proof.detail
    before = [w.tobytes() for w in one.model.get_weights()]
    runner = one.runner(version)
    runner.prime()
    assert runner.block(0.05).samples > 0
    one.restore()
    assert [w.tobytes() for w in one.model.get_weights()] == before
    assert ArrayDataAdapter.get_tf_dataset is MADE


def test_an_order_that_freezes_is_no_proof(tmp_path, monkeypatch):
    def frozen(pipeline):
        return (Cache(stage=len(pipeline.stage_locations) - 2, expected_digest=pipeline.digest),)

    monkeypatch.setattr(loader_proofs, "array_feed_edits", frozen)
    one = of_arrays(tmp_path)
    version = one.original.with_loader_edits((ArrayFeed(),))
    proof = one.prove_loader(version, "exact", 60.0)
    assert not proof.passed
    assert "would freeze" in proof.detail


@pytest.mark.every(3)
@pytest.mark.parametrize("more", [{}, {"validation_split": 0.25}, {"shuffle": False}], ids=str)
def test_a_plan_for_arrays_trains_to_the_same_weights(tmp_path, more):
    made = planned(of_arrays(tmp_path), ArrayFeed())
    plain, ours = trained(), trained()
    keras.utils.set_random_seed(5)
    usual = plain.fit(**ARRAYS, epochs=3, verbose=0, **more)
    keras.utils.set_random_seed(5)
    found = uncork.fit(ours, ROWS, y=LABELS, batch_size=8, plan=made, epochs=3, verbose=0, **more)
    assert found.history == usual.history
    for one, other in zip(plain.get_weights(), ours.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert ArrayDataAdapter.get_tf_dataset is MADE


@pytest.mark.parametrize("strict", [True, False])
def test_arrays_that_keras_reads_otherwise(tmp_path, monkeypatch, capsys, strict):
    def unknown(pipeline):
        raise EditRefused("Keras makes another pipeline", "the known one", "leave it")

    made = planned(of_arrays(tmp_path), ArrayFeed())
    monkeypatch.setattr("uncork.training.input.array_feed.array_feed_edits", unknown)
    plain, ours = trained(), trained()
    if strict:
        with pytest.raises(PlanRefused, match="another pipeline"):
            uncork.fit(ours, ROWS, y=LABELS, batch_size=8, plan=made, verbose=0)
        return
    running = PlanListener(made, strict=False)
    arguments = {"epochs": 1, "verbose": 0, **ARRAYS}
    bound = inspect.signature(ours.fit).bind(**arguments)
    bound.apply_defaults()
    call = FitCall(0, "train.py:9", ours, dict(bound.arguments), ours.fit)
    keras.utils.set_random_seed(5)
    running.fit(call)
    assert "reads its arrays unmodified" in capsys.readouterr().err
    keras.utils.set_random_seed(5)
    plain.fit(**arguments)
    for one, other in zip(plain.get_weights(), ours.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_loader_is_refused(tmp_path):
    one = subject(Fixed(), tmp_path)
    with pytest.raises(PlanRefused, match="made for Fixed, here it is Loader"):
        uncork.fit(trained(), Loader(), plan=planned(one, cache(one)), epochs=2, verbose=0)


@pytest.fixture
def made(tmp_path):
    one = subject(Loader(), tmp_path)
    return planned(one, edit(one))


def planned(one, *edits):
    kept = next(step for step in STEPS if step.outcome == "kept")
    made = plan(
        before=workload_diagnosis(workload=one.workload, stages=()),
        after=None,
        steps=(replace(kept, edits=edits, guarantee="exact"),),
    )
    return parse_plan(serialize_plan(made_here(made)))


@pytest.mark.deep
def test_a_plan_trains_to_the_same_weights(made):
    plain, ours, usual, loader = trained(), trained(), Loader(), Loader()
    keras.utils.set_random_seed(5)
    plain.fit(usual, epochs=3, verbose=0)
    keras.utils.set_random_seed(5)
    uncork.fit(ours, loader, plan=made, epochs=3, verbose=0)
    for one, other in zip(plain.get_weights(), ours.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert vars(loader) == vars(usual)


def test_the_workers_are_in_force_while_it_trains(made):
    loader, seen = Loader(), []
    watch = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: seen.append(loader.workers)
    )
    uncork.fit(trained(), loader, plan=made, epochs=2, verbose=0, callbacks=[watch])
    assert seen == [3, 3]


def test_another_setting_that_the_code_reads_is_refused(made):
    with pytest.raises(PlanRefused, match="the code and settings of Loader"):
        uncork.fit(trained(), Loader(sign=-1), plan=made, epochs=1, verbose=0)


def test_workers_of_the_users_own_are_refused(made):
    loader = Loader()
    loader.workers = 2
    with pytest.raises(PlanRefused, match="already sets workers"):
        uncork.fit(trained(), loader, plan=made, epochs=1, verbose=0)
