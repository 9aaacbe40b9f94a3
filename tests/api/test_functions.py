"""The verbs as functions, for those who hold a model and a dataset."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import uncork
from records import STEPS
from records import plan as planned
from running import environment
from short_worker import shorten_measurements
from uncork.api import functions as api
from uncork.api.display import Displayable
from uncork.core.base.errors import NothingToMeasure, PlanRefused, WrongUse
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan, Policy
from uncork.core.documents.plan_file import serialize_plan
from uncork.core.edits.pipeline import DiskCache, Prefetch
from uncork.core.edits.step import JitCompile, LargerBatch, StepsPerExecution
from uncork.engine.apply.batch_schedule import is_resumed
from uncork.engine.apply.plan_listener import PlanListener
from uncork.engine.fit.fit_subject import FitSubject
from uncork.optimizations.order import OPTIMIZATIONS
from uncork.pipeline.ir.cache_files import remove_process_folder
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.disk_cache import has_complete_disk_caches

pytestmark = pytest.mark.slow

DRAW = np.random.default_rng(5)
X = DRAW.random((256, 16)).astype("float32")
Y = (X[:, 0] > 0.5).astype("int64")
QUICK = Policy(loosest_guarantee="exact", budget_s=20.0)


def mlp() -> keras.Model:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((16,)),
            keras.layers.Dense(8, "relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(2),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.optimizer.build(model.trainable_variables)
    return model


def busy(row: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Work that every epoch does again."""
    for _ in range(5):
        row = tf.sort(tf.tile(row, [40]))[:16]
    return row + tf.random.uniform([16], 0.0, 0.01), label


def dataset() -> tf.data.Dataset:
    rows = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(256, seed=3)
    return rows.map(busy).batch(8)


def state(model: keras.Model) -> list[bytes]:
    generator = tf.random.get_global_generator().state
    values = [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables), generator]
    return [np.asarray(value).tobytes() for value in values]


@pytest.fixture(scope="module")
def tuned() -> tuple[keras.Model, list[bytes], Displayable[Plan]]:
    model = mlp()
    before = state(model)
    return model, before, uncork.tune(model, dataset(), policy=QUICK, quiet=True)


def test_tuning_leaves_the_model_as_it_was(tuned) -> None:
    model, before, _ = tuned
    assert state(model) == before
    assert model.steps_per_execution == 1


def test_every_kept_step_is_proved(tuned) -> None:
    plan = tuned[2].record
    assert len(plan.steps) == len(OPTIMIZATIONS)
    assert all(step.proof.passed and step.proof.kind == "exact" for step in plan.accepted_steps)


def test_a_plan_shows_itself(tuned) -> None:
    plan = tuned[2]
    assert "samples/s" in str(plan)
    assert "<svg" in plan.html()
    assert plan._repr_html_().startswith("<iframe")


def test_callbacks_and_validation_of_a_living_process_are_left_alone(tmp_path):
    class Counting(keras.callbacks.Callback):
        batches = 0

        def on_train_batch_end(self, batch, logs=None):
            Counting.batches += 1

    x, y = np.ones((8, 2), np.float32), np.ones((8, 1), np.float32)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    for ends_here in (False, True):
        arguments = {"x": x, "y": y, "callbacks": [Counting()], "validation_data": (x, y)}
        subject = FitSubject(model, arguments, 0, "a.py:1", str(tmp_path))
        subject.ends_process = ends_here
        assert bool(subject.measure_callbacks()) is ends_here
        assert (subject.measure_validation(None, 0.1) is not None) is ends_here
        assert bool(Counting.batches) is ends_here


def test_training_with_the_plan_is_training_as_written(tuned, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(serialize_plan(tuned[2].record))
    trained = []
    for plan in (None, tuned[2], path):
        model, data = mlp(), dataset()
        if plan is None:
            history = model.fit(data, epochs=2, verbose=0)
        else:
            history = uncork.fit(model, data, plan=plan, epochs=2, verbose=0)
        assert len(history.history["loss"]) == 2
        trained.append([w.tobytes() for w in model.get_weights()])
    assert trained[0] == trained[1] == trained[2]


def test_a_plan_for_another_model_is_refused_before_anything_is_trained(tuned) -> None:
    """Whatever was kept on this machine: the plan in hand has one edit, for the tuned pipeline."""
    record = tuned[2].record
    kept = next(step for step in STEPS if step.outcome == "kept")
    edit = Prefetch(expected_digest=record.before.workload.pipeline_digest)
    plan = replace(record, steps=(replace(kept, edits=(edit,)),))
    model = mlp()
    before = state(model)
    other = dataset().map(lambda row, label: (row * 2.0, label))
    with pytest.raises(PlanRefused, match="does not fit"):
        uncork.fit(model, other, plan=plan, epochs=1)
    assert state(model) == before


def test_a_plan_of_another_machine_or_version_is_refused_unless_a_part_is_enough(
    tuned, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tuned[2].record
    plan = replace(record, machine=replace(record.machine, cpu_model="AMD 486", keras="3.0.1"))
    model = mlp()
    before = state(model)
    with pytest.raises(PlanRefused, match=r"(?s)processor: AMD 486.*Keras: 3\.0\.1, here"):
        uncork.fit(model, dataset(), plan=plan, epochs=1, verbose=0)
    assert state(model) == before
    uncork.fit(model, dataset(), plan=plan, allow_partial=True, epochs=1, verbose=0)
    assert state(model) != before
    if plan.edits:
        assert "proven on another machine (processor: AMD 486" in capsys.readouterr().err


@pytest.mark.parametrize("plan", ["no-such.json", None, 3, {"steps": []}])
def test_what_is_no_plan_is_refused(plan: object) -> None:
    with pytest.raises(PlanRefused):
        uncork.fit(mlp(), dataset(), plan=plan, epochs=1)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """How fast a training is does not matter."""
    shorten_measurements(monkeypatch.setattr)


@pytest.mark.usefixtures("brief")
def test_diagnosis_of_arrays_leaves_the_model_as_it_was() -> None:
    model = mlp()
    before = state(model)
    (found,) = uncork.diagnose(model, (X, Y), batch_size=16, budget=2, quiet=True).record.workloads
    assert state(model) == before
    assert found.workload.data_kind == "numpy"
    assert "test_functions.py:" in found.workload.at


@pytest.mark.deep
def test_a_faster_dataset_has_the_same_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that is legal: that it is faster is set by the test."""

    def rows(data: tf.data.Dataset) -> list[list[bytes]]:
        return [
            [np.asarray(leaf).tobytes() for leaf in tf.nest.flatten(batch)]
            for _ in range(2)
            for batch in data
        ]

    keras.utils.set_random_seed(4)
    expected = rows(dataset())
    keras.utils.set_random_seed(4)
    mine = dataset()
    shorten_measurements(monkeypatch.setattr)
    faster = uncork.optimize(mine, budget=1e6, quiet=True)
    assert faster is not mine
    assert rows(faster) == expected


def test_generators_that_a_dataset_draws_from_are_given_back() -> None:
    draws = tf.random.Generator.from_seed(1)
    numbers = tf.data.Dataset.range(64).map(lambda x: tf.cast(x, tf.float32) + draws.uniform([]))
    before = draws.state.numpy().tolist()
    uncork.optimize(numbers.batch(8), budget=5.0, quiet=True)
    assert draws.state.numpy().tolist() == before


def found_best(monkeypatch, *edits):
    """As if the walk had kept these."""
    walk = SimpleNamespace(variant=SimpleNamespace(pipeline_edits=edits))
    monkeypatch.setattr(api, "_walked", lambda *args, **more: walk)


def test_what_is_kept_in_files_is_there_when_it_is_handed_over(monkeypatch, tmp_path) -> None:
    data = dataset()
    found_best(
        monkeypatch,
        DiskCache(
            stage=0, expected_digest=read_pipeline(data).digest, size_bytes=1, folder=str(tmp_path)
        ),
    )
    kept = uncork.optimize(data, disk_cache=tmp_path, quiet=True)
    assert has_complete_disk_caches(read_pipeline(kept))
    assert "cache" in [node.kind for node in read_pipeline(kept).stages]
    remove_process_folder(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_dataset_whose_files_cannot_be_filled_stays_as_it_is(monkeypatch, tmp_path, capsys):
    def failing(number):
        with tf.control_dependencies([tf.debugging.assert_less(number, 90, "too large")]):
            return tf.identity(number)

    data = tf.data.Dataset.range(100).map(lambda number: tf.cast(number, tf.int32)).map(failing)
    found_best(
        monkeypatch,
        DiskCache(stage=2, expected_digest=read_pipeline(data).digest, folder=str(tmp_path)),
    )
    assert uncork.optimize(data, disk_cache=tmp_path, quiet=True) is data
    told = capsys.readouterr().err
    assert "stays unmodified" in told
    assert "too large" in told
    remove_process_folder(str(tmp_path))


def test_a_dataset_with_nothing_to_gain_is_given_back() -> None:
    mine = tf.data.Dataset.from_tensors(tf.zeros([4])).repeat(10_000_000)
    assert uncork.optimize(mine, budget=30.0, quiet=True) is mine


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: uncork.optimize([1, 2, 3]), WrongUse),
        (lambda: uncork.optimize(dataset(), strict="roughly"), WrongUse),
        (lambda: uncork.optimize(tf.data.Dataset.range(0)), NothingToMeasure),
        (lambda: uncork.diagnose("model", dataset()), WrongUse),
        (lambda: uncork.diagnose(mlp(), None), WrongUse),
        (lambda: uncork.diagnose(mlp(), dataset(), epoch=3), WrongUse),
        (lambda: uncork.diagnose(mlp(), iter([(X, Y)])), WrongUse),
        (lambda: uncork.tune(mlp(), dataset(), policy="exact"), WrongUse),
        (lambda: uncork.diagnose(keras.Sequential([keras.layers.Dense(2)]), (X, Y)), WrongUse),
    ],
)
def test_wrong_use_says_what_was_expected(call, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert "expected:" in str(caught.value)


RUN_CELL = "import keras, sys\nexec(compile(sys.argv[1], '<stdin>', 'exec'))"


def test_it_works_where_there_is_no_file(tmp_path: Path) -> None:
    """A notebook's cell and a prompt have no source file, and this code has none."""
    cell = io.StringIO()
    cell.write("import keras, numpy as np, uncork\n")
    cell.write("model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n")
    cell.write("model.compile('sgd', 'mse')\n")
    cell.write("x = np.ones((64, 4), 'float32')\n")
    cell.write("shown = uncork.diagnose(model, (x, x[:, :1]), budget=2, quiet=True)\n")
    cell.write("print(shown.record.workloads[0].workload.kind, '<svg' in shown.html())")
    done = subprocess.run(
        [sys.executable, "-c", RUN_CELL, cell.getvalue()],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["fit", "True"]


@pytest.mark.usefixtures("brief")
def test_a_model_whose_fit_hands_everything_on_is_given_what_keras_takes(tmp_path: Path) -> None:
    class Handing(keras.Model):
        def fit(self, *args: object, **kwargs: object) -> object:
            return super().fit(*args, **kwargs)

    words = keras.Input((16,))
    model = Handing(words, keras.layers.Dense(2)(words))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    found = uncork.diagnose(model, (X, Y), budget=2.0, batch_size=16, quiet=True)
    assert found.record.workloads[0].workload.steps_per_epoch == 16


class Reordered(keras.utils.PyDataset):
    """In another order after each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.order, self.epoch = list(range(8)), 0
        self.draw = np.random.default_rng(3)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        rows = slice(32 * self.order[index], 32 * self.order[index] + 32)
        return X[rows], Y[rows]

    def on_epoch_end(self) -> None:
        self.epoch += 1
        self.draw.shuffle(self.order)


@pytest.mark.usefixtures("brief")
def test_a_loader_is_where_it_was() -> None:
    loader = Reordered()
    uncork.diagnose(mlp(), loader, budget=2.0, quiet=True)
    assert (loader.epoch, loader.order) == (0, list(range(8)))
    assert loader.draw.random() == np.random.default_rng(3).random()
    loader.lock = threading.Lock()
    with pytest.raises(WrongUse, match="cannot be copied"):
        uncork.diagnose(mlp(), loader, budget=2.0, quiet=True)


def test_another_plan_for_the_same_model_is_another_step() -> None:
    call = SimpleNamespace(at="train.py:9", arguments={}, model=mlp())
    steps = [StepsPerExecution(steps=2)], [StepsPerExecution(steps=4), JitCompile()]
    first, second = (
        replace(
            planned(), steps=tuple(replace(planned().accepted_steps[0], edits=(e,)) for e in edits)
        )
        for edits in steps
    )
    step = PlanListener(first, strict=True)._planned(call)
    assert PlanListener(first, strict=True)._planned(call) is step
    other = PlanListener(second, strict=True)._planned(call)
    assert other is not step
    assert other.edits == second.step_edits != step.edits


@pytest.mark.parametrize(
    ("epoch", "of_larger", "resumed"), [(3, 3, True), (3, 12, False), (0, 3, False)]
)
def test_a_training_that_goes_on_is_told_from_one_that_goes_on_otherwise(epoch, of_larger, resumed):
    """By its steps: four of the script's count as one under the plan."""
    steps = planned().before.workload.steps_per_epoch
    larger = replace(
        planned().accepted_steps[0],
        edits=(LargerBatch(batch_multiplier=4, learning_rate_multiplier=2.0),),
    )
    call = SimpleNamespace(at="train.py:9", arguments={"initial_epoch": epoch}, model=mlp())
    call.model.optimizer.iterations.assign(of_larger * -(-steps // 4))
    assert is_resumed(replace(planned(), steps=(larger,)), call) is resumed


class Counted(keras.utils.PyDataset):
    """Keeps count of its batches, which nobody can give back."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        self.made += 1
        return X[:8], Y[:8]


@pytest.mark.usefixtures("brief")
def test_what_reading_has_moved_on_is_said(capsys) -> None:
    uncork.diagnose(mlp(), Counted(), budget=2.0, quiet=True)
    assert "create the data again" in capsys.readouterr().err
    uncork.explain(tf.data.Dataset.range(9), budget=0.1)
    assert capsys.readouterr().err == ""


def test_a_page_does_not_take_the_place_of_its_plan(tuned, tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="would be both the report"):
        tuned[2].save(tmp_path / "plan.html")
    tuned[2].save(tmp_path / "plan.json")
    assert {path.name for path in tmp_path.iterdir()} == {"plan.json", "plan.html"}


class OfWords(keras.utils.PyDataset):
    """Its code reaches a layer, of which Keras writes down the time of day."""

    def __init__(self) -> None:
        self.words = keras.layers.Rescaling(0.5)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(self.words(X[:8])), Y[:8]


@pytest.mark.deep
@pytest.mark.usefixtures("brief")
def test_a_layer_in_a_loader_is_not_said_to_have_moved(capsys) -> None:
    uncork.diagnose(mlp(), OfWords(), budget=2.0, quiet=True)
    assert "create the data again" not in capsys.readouterr().err
