"""Ctrl-C, a full memory and an error in the middle of every lever leave the training as it was."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, get_args

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as keras_trainer
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from interruptions import cases, drawn_next
from uncork.capture.base.listener import FitCall
from uncork.core.base.record import replace
from uncork.core.edits.edit import (
    ArrayFeed,
    AsyncCheckpoint,
    LoaderCache,
    LoaderWorkers,
    ValidationInput,
)
from uncork.core.edits.pipeline import (
    AutotuneOff,
    Cache,
    DecodeAndCrop,
    DiskCache,
    DrawFirst,
    DropUnused,
    FilterFirst,
    GatherLast,
    GeneratorCache,
    GeneratorChunks,
    InlineMap,
    LessAhead,
    ParallelInterleave,
    ParallelMap,
    PipelineEdit,
    Prefetch,
    PyFunctionCache,
    ReadAhead,
    Rebatch,
    ShuffleFirst,
    SplitMap,
    VectorizeMap,
)
from uncork.core.edits.step import (
    ArrayArguments,
    DtypePolicy,
    FlatUpdates,
    FusedUpdates,
    JitCompile,
    JitCompileOff,
    LargerBatch,
    LayersInInput,
    MapOnDevice,
    MicroBatches,
    PadArguments,
    PadLengths,
    RecomputeActivations,
    ReduceRetracing,
    ReuseIterator,
    RowUpdates,
    StepEdit,
    StepsPerExecution,
    TensorArguments,
    TfFunction,
    VectorizedMapFn,
)
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.fit.repeated_fit import RepeatedFitSubject
from uncork.pipeline.equivalence.digests import element_digests
from uncork.pipeline.ir.python_functions import python_digest, user_generator_of
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.transforms.trailing_maps import find_trailing_maps
from uncork.pycode.purity.reachability import function_digest, loader_digest
from uncork.training.state.snapshot import read_training_state, read_weights, set_training_state
from uncork.training.variant import VariantRunner
from uncork.verify.provers.pipeline import PipelineProver

ROWS = np.random.default_rng(4).normal(size=(64, 6)).astype("float32")
Dataset = tf.data.Dataset
ROOM = 1 << 20
# Steps that go well before.
AFTER = 4


def example(row: Any) -> tuple[Any, Any]:
    row = tf.ensure_shape(row, [6])
    return row * 2, row[:2]


def noisy(row: Any) -> tuple[Any, Any]:
    return tf.tanh(row * 2) * tf.random.uniform([]), row[:2]


def asking(row: Any) -> Any:
    return tf.numpy_function(np.tanh, [row], tf.float32)


def rows() -> Iterator[Any]:
    yield from ROWS


def sliced(array: Any = ROWS) -> Dataset:
    return Dataset.from_tensor_slices(array)


def pipeline() -> Dataset:
    return sliced().map(example).shuffle(64, seed=7).batch(4)


def skipping() -> Dataset:
    return sliced().map(example).skip(8).batch(4)


def drawing() -> Dataset:
    return sliced().map(noisy).batch(4)


def interleaved() -> Dataset:
    return sliced(ROWS.reshape(8, 8, 6)).interleave(sliced, cycle_length=2).map(example).batch(4)


def in_turn() -> Dataset:
    return sliced(ROWS.reshape(8, 8, 6)).flat_map(sliced).map(example).batch(4)


def ahead() -> Dataset:
    return sliced().map(example).prefetch(40).batch(4)


def answering() -> Dataset:
    return sliced().map(asking).map(example).batch(4)


def yielding() -> Dataset:
    spec = tf.TensorSpec([6], tf.float32)
    return Dataset.from_generator(rows, output_signature=spec).map(example).batch(4)


def of_arrays() -> Dataset:
    return sliced((ROWS, ROWS[:, :2])).shuffle(64, seed=7).batch(4)


def ignoring() -> Dataset:
    """The second map looks at one of the two things that the first one makes."""
    made = sliced().map(lambda row: (tf.ensure_shape(row, [6]), tf.tanh(row) * 3))
    return made.map(lambda row, _: (row * 2, row[:2])).batch(4)


def cropping() -> Dataset:
    """Six pixels of each image that is decoded."""
    drawn = np.random.default_rng(3).integers(0, 255, (64, 48, 48, 1)).astype("uint8")
    files = [tf.io.encode_jpeg(image).numpy() for image in drawn]

    def row(file: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image = tf.io.decode_jpeg(file, channels=1)[9:11, 20:23]
        return tf.reshape(tf.cast(image, tf.float32) / 255.0, [6]), y

    data = tf.data.Dataset.from_tensor_slices((files, ROWS[:64, :2]))
    return data.map(row).batch(4)


def words() -> Dataset:
    return sliced((ROWS[:, :3] * 9, ROWS[:, :2])).shuffle(64, seed=7).batch(4)


def widening() -> Dataset:
    return of_arrays().map(lambda x, y: (tf.cast(x, tf.float64) / 3, y))


STEP_LEVERS: tuple[StepEdit, ...] = (
    StepsPerExecution(steps=3),
    LayersInInput(layer_names=("scale",)),
    MapOnDevice(expected_digest=""),
    FlatUpdates(),
    FusedUpdates(),
    MicroBatches(parts=2),
    RecomputeActivations(segments=2),
    JitCompile(),
    JitCompileOff(),
    DtypePolicy(policy="mixed_bfloat16"),
    DtypePolicy(policy="mixed_float16"),
    LargerBatch(batch_multiplier=2, learning_rate_multiplier=1.5),
    DtypePolicy(policy="float32"),
    TfFunction(code_digest=""),
)
PIPELINE_LEVERS: tuple[tuple[Callable[[], Dataset], PipelineEdit], ...] = (
    (pipeline, Cache(stage=1, expected_digest="")),
    (pipeline, ParallelMap(stage=1, expected_digest="")),
    (pipeline, Prefetch(expected_digest="")),
    (pipeline, ShuffleFirst(stage=2, expected_digest="")),
    (pipeline, VectorizeMap(stage=1, expected_digest="")),
    (pipeline, InlineMap(stage=1, expected_digest="")),
    (pipeline, AutotuneOff(expected_digest="")),
    (of_arrays, GatherLast(expected_digest="")),
    (skipping, FilterFirst(stage=2, expected_digest="")),
    (drawing, SplitMap(stage=1, expected_digest="")),
    (drawing, DrawFirst(stage=1, expected_digest="")),
    (interleaved, ParallelInterleave(stage=1, expected_digest="")),
    (in_turn, ReadAhead(stage=1, expected_digest="", readers=2, elements_per_reader=8)),
    (ahead, LessAhead(stage=2, expected_digest="")),
    (answering, PyFunctionCache(stage=1, expected_digest="", size_bytes=ROOM, code_digest="")),
    (yielding, GeneratorCache(stage=0, expected_digest="", size_bytes=ROOM, code_digest="")),
    (yielding, GeneratorChunks(stage=0, expected_digest="", max_elements=8)),
    (ignoring, DropUnused(stage=2, expected_digest="")),
    (cropping, DecodeAndCrop(stage=1, expected_digest="")),
    (pipeline, DiskCache(stage=1, expected_digest="")),
)
# Its elements are other ones: it is proved by what a training learns.
REBATCHED = ((pipeline, Rebatch(batch_multiplier=2, batch_size=8, expected_digest="")),)
# Looked at elsewhere: of steps of a loop, and of rows that differ in length.
ELSEWHERE = (TensorArguments, ArrayArguments, ReduceRetracing, PadArguments, PadLengths)


def test_no_lever_is_left_out() -> None:
    here = {type(edit) for edit in (*STEP_LEVERS, *TABLE_LEVERS, *MAPPED_LEVERS, *CALL_LEVERS)}
    assert here | set(ELSEWHERE) == set(get_args(StepEdit))
    assert {type(edit) for _, edit in PIPELINE_LEVERS + REBATCHED} == set(get_args(PipelineEdit))


TABLE_LEVERS: tuple[StepEdit, ...] = (RowUpdates(),)
MAPPED_LEVERS: tuple[StepEdit, ...] = (VectorizedMapFn(),)
CALL_LEVERS: tuple[StepEdit, ...] = (ReuseIterator(),)
LOADER_LEVERS = (
    LoaderWorkers(workers=2, expected_digest=""),
    LoaderCache(size_bytes=ROOM, expected_digest=""),
)
VALIDATION_LEVERS = (
    ValidationInput(edits=(Cache(stage=1, expected_digest=""),), expected_digest=""),
)


class Pages(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        rows = ROWS[4 * index : 4 * index + 4]
        return rows, rows[:, :2]


SAVING_LEVERS = (AsyncCheckpoint(size_bytes=ROOM),)


def validating() -> Dataset:
    return sliced(ROWS[:32]).map(example).batch(4)


def trained(
    *,
    twin: bool = False,
    eagerly: bool = False,
    xla: bool = False,
    policy: str = "float32",
    table: bool = False,
    mapped: bool = False,
) -> keras.Model:
    """A model that has been trained, and is to draw what it always does.

    Building one takes a second; so it is one and the same, with the values it had.

    Args:
        twin: The one that nobody may touch.
        eagerly: Its steps run op by op.
        xla: They are compiled with XLA.
        policy: For the dtypes of its layers.
        table: It is one that looks words up.
        mapped: It has a layer that goes through the examples of a batch one by one.
    """
    if table or mapped:
        model, state = with_table(twin) if table else with_map(twin)
    else:
        model, state = built(twin, eagerly, xla, policy)
    set_training_state(model, state)
    keras.utils.set_random_seed(3)
    return model


@functools.cache
def built(twin: bool, eagerly: bool, xla: bool, policy: str) -> tuple[keras.Model, list[Any]]:
    del twin
    keras.utils.set_random_seed(3)
    layers = keras.layers
    parts = [
        layers.Rescaling(0.5, dtype=policy, name="scale"),
        layers.BatchNormalization(dtype=policy),
        layers.Dropout(0.3, dtype=policy),
        layers.Dense(2, dtype=policy),
    ]
    model = keras.Sequential([keras.Input((6,)), *parts])
    model.compile("adam", "mse", metrics=["mae"], run_eagerly=eagerly, jit_compile=xla)
    model.fit(validating(), verbose=0)  # slots hold something by then
    return model, read_training_state(model)


@functools.cache
def with_table(twin: bool) -> tuple[keras.Model, list[Any]]:
    del twin
    keras.utils.set_random_seed(3)
    layers = keras.layers
    parts = [layers.Embedding(50, 4), layers.Flatten(), layers.Dropout(0.3), layers.Dense(2)]
    model = keras.Sequential([keras.Input((3,)), *parts])
    model.compile("adagrad", "mse")
    model.fit(words(), verbose=0)
    return model, read_training_state(model)


class OneByOne(keras.layers.Layer):
    def call(self, inputs: Any) -> Any:
        return tf.map_fn(tf.tanh, inputs)


@functools.cache
def with_map(twin: bool) -> tuple[keras.Model, list[Any]]:
    del twin
    keras.utils.set_random_seed(3)
    layers = keras.layers
    parts = [OneByOne(), layers.Dropout(0.3), layers.Dense(2)]
    model = keras.Sequential([keras.Input((6,)), *parts])
    model.compile("adam", "mse")
    model.fit(validating(), verbose=0)
    return model, read_training_state(model)


def settings(model: Any) -> tuple[Any, ...]:
    flags = (model.jit_compile, model.steps_per_execution, model.run_eagerly, model.stop_training)
    policies = [layer.dtype_policy.name for layer in model._flatten_layers()]
    return (*flags, policies, keras.config.dtype_policy().name)


@contextmanager
def interrupted(
    model: Any, error: BaseException, what: str = "train", which: int = 1
) -> Iterator[None]:
    """Some steps of a function happen; after the last of them the error does.

    Args:
        model: Compiled.
        error: What is raised.
        what: The function's kind: ``train`` or ``test``.
        which: Of those that are made inside the block; a proof runs the user's own first.
    """
    make, name = f"make_{what}_function", f"{what}_function"
    made_as_ever, happened, known = getattr(model, make), 0, []

    def made(force: bool = False) -> None:
        made_as_ever(force)
        function = getattr(model, name)
        if function in known:
            return
        known.append(function)
        if len(known) != which:
            return

        def stepping(iterator: Any) -> Any:
            nonlocal happened
            logs = function(iterator)
            happened += 1
            if happened >= AFTER:
                raise error
            return logs

        known.append(stepping)
        setattr(model, name, stepping)

    vars(model)[make] = made
    try:
        with pytest.raises(type(error)):
            yield
    finally:
        del vars(model)[make]
    assert happened == AFTER


@contextmanager
def half_read(error: BaseException) -> Iterator[None]:
    """The first pass of a proof goes well; in the middle of the second one the error happens."""
    calls = itertools.count(1)

    def reading(dataset: Dataset, **how: Any) -> Any:
        if next(calls) == 1:
            return element_digests(dataset, **how)
        for _ in zip(range(AFTER), dataset, strict=False):
            pass
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uncork.verify.provers.pipeline.element_digests", reading)
        with pytest.raises(type(error)):
            yield
    assert next(calls) == 3


def arguments_of_fit(data: Callable[[], Any], *, validated: bool) -> dict[str, Any]:
    made = data()
    x, y = made if isinstance(made, tuple) else (made, None)
    others = {"validation_data": validating() if validated else None, "epochs": 2}
    return {"x": x, "y": y, **others}


@functools.cache
def untouched(data: Callable[[], Any], *, validated: bool, **how: Any) -> tuple[Any, ...]:
    """Of a twin nobody has touched: weights after its training, its losses, what it draws next."""
    twin = trained(twin=True, **how)
    history = twin.fit(**arguments_of_fit(data, validated=validated), verbose=0).history
    return read_weights(twin), history, drawn_next()


def check_untouched(
    data: Callable[[], Any],
    folder: Path,
    attempt: Callable[[FitSubject, Any], None],
    *,
    validated: bool = False,
    **how: Any,
) -> None:
    """After an attempt that is interrupted, the user's own training is that of a twin.

    Args:
        data: Makes what it trains on.
        folder: For files of the attempt.
        attempt: Given the training under examination, and its data.
        validated: It validates, too.
        how: Its model is made.
    """
    theirs, history, next_draws = untouched(data, validated=validated, **how)
    model = trained(**how)
    given = arguments_of_fit(data, validated=validated)
    before = settings(model), drawn_next()
    functions = model.train_function, model.test_function
    subject = FitSubject(model, given, 0, "train.py:9", str(folder))
    subject.ends_process = True
    try:
        attempt(subject, given["x"])
    finally:
        subject.restore()
    assert (settings(model), drawn_next()) == before
    assert (model.train_function, model.test_function) == functions
    assert model.fit(**given, verbose=0).history == history
    assert drawn_next() == next_draws
    for ours, other in zip(read_weights(model), theirs, strict=True):
        np.testing.assert_array_equal(ours, other)


def run(runner: VariantRunner) -> None:
    runner.prime()
    runner.block(5.0)


@contextmanager
def each_by_itself(model: Any) -> Iterator[None]:
    """A normalization that learns looks across the batch."""
    (norm,) = (each for each in model.layers if isinstance(each, keras.layers.BatchNormalization))
    norm.trainable = False
    try:
        yield
    finally:
        norm.trainable = True


@pytest.mark.every(14, first=7)
@pytest.mark.parametrize(("edit", "at", "error"), cases(STEP_LEVERS, "measured", "proved"))
def test_in_the_middle_of_a_step_lever(
    edit: StepEdit, at: str, error: BaseException, tmp_path: Path
) -> None:
    def attempt(subject: FitSubject, data: Any) -> None:
        found = replace(edit, code_digest=subject.workload.step_code_digest) if eagerly else edit
        if moved:
            found = replace(
                edit, expected_digest=find_trailing_maps(subject.original.pipeline)[0].digest
            )
        version = subject.original.with_step_edits((found,))
        with each_by_itself(subject.model) if in_parts else nullcontext():
            runner = subject.runner(version)  # what the model's step reaches is looked up here
            if at == "measured":
                with interrupted(subject.model, error):
                    run(runner)
            else:
                with interrupted(subject.model, error, which=2):
                    subject.prove_step(version, "rounding", 5.0)

    eagerly, moved = isinstance(edit, TfFunction), isinstance(edit, MapOnDevice)
    in_parts = isinstance(edit, MicroBatches)
    is_mixed = isinstance(edit, DtypePolicy) and edit.policy == "float32"
    policy = "mixed_bfloat16" if is_mixed else "float32"
    data = widening if moved else pipeline
    how = {"eagerly": eagerly, "xla": isinstance(edit, JitCompileOff), "policy": policy}
    check_untouched(data, tmp_path, attempt, **how)


@pytest.mark.every(2)
@pytest.mark.parametrize(("edit", "at", "error"), cases(TABLE_LEVERS, "measured", "proved"))
def test_in_the_middle_of_a_lever_for_tables(
    edit: StepEdit, at: str, error: BaseException, tmp_path: Path
) -> None:
    look_up = keras.layers.Embedding.call

    def attempt(subject: FitSubject, data: Any) -> None:
        assert subject.workload.row_update_table_count == 1
        version = subject.original.with_step_edits((edit,))
        with interrupted(subject.model, error, which=1 if at == "measured" else 2):
            if at == "measured":
                run(subject.runner(version))
            else:
                subject.prove_step(version, "exact", 5.0)

    check_untouched(words, tmp_path, attempt, table=True)
    assert keras.layers.Embedding.call is look_up


@pytest.mark.every(2)
@pytest.mark.parametrize(("edit", "at", "error"), cases(MAPPED_LEVERS, "measured", "proved"))
def test_in_the_middle_of_a_lever_for_maps(
    edit: StepEdit, at: str, error: BaseException, tmp_path: Path
) -> None:
    map_fn = tf.map_fn

    def attempt(subject: FitSubject, data: Any) -> None:
        version = subject.original.with_step_edits((edit,))
        with interrupted(subject.model, error, which=1 if at == "measured" else 2):
            if at == "measured":
                run(subject.runner(version))
            else:
                subject.prove_step(version, "rounding", 5.0)

    check_untouched(pipeline, tmp_path, attempt, mapped=True)
    assert tf.map_fn is map_fn


@pytest.mark.every(2)
@pytest.mark.parametrize(("edit", "at", "error"), cases(CALL_LEVERS, "measured", "proved"))
def test_in_the_middle_of_a_lever_for_calls_of_fit(
    edit: StepEdit, at: str, error: BaseException, tmp_path: Path
) -> None:
    """The ``fit`` that a loop calls is another subject; its model goes on as a twin's does."""
    keras_s = keras_trainer.TFEpochIterator
    theirs, history, next_draws = untouched(arrays, validated=False)
    model = trained()
    given = arguments_of_fit(arrays, validated=False)
    whole = {"validation_split": 0.0, "shuffle": True, **given, "epochs": 1}
    before = settings(model), drawn_next()
    subject = RepeatedFitSubject(FitCall(0, "train.py:9", model, whole, model.fit), str(tmp_path))
    subject.ends_process = True
    version = subject.original.with_step_edits((edit,))
    try:
        with interrupted(model, error, which=1 if at == "measured" else 2):
            if at == "measured":
                run(subject.runner(version))
            else:
                subject.prove_step(version, "exact", 5.0)
    finally:
        subject.restore()
    assert keras_trainer.TFEpochIterator is keras_s
    assert (settings(model), drawn_next()) == before
    assert model.fit(**given, verbose=0).history == history
    assert drawn_next() == next_draws
    for ours, other in zip(read_weights(model), theirs, strict=True):
        np.testing.assert_array_equal(ours, other)


@pytest.mark.every(14, first=7)
@pytest.mark.parametrize(
    ("lever", "at", "error"),
    cases(PIPELINE_LEVERS, "measured", "proved") + cases(REBATCHED, "measured"),
)
def test_in_the_middle_of_a_pipeline_lever(
    lever: tuple[Callable[[], Dataset], PipelineEdit],
    at: str,
    error: BaseException,
    tmp_path: Path,
) -> None:
    def attempt(subject: FitSubject, data: Any) -> None:
        original = subject.original.pipeline
        found = with_code(edit, original)
        if isinstance(found, DiskCache):
            found = replace(found, folder=str(tmp_path), size_bytes=ROOM)
        version = subject.original.with_pipeline_edits((found,))
        if at == "measured":
            with interrupted(subject.model, error):
                run(subject.runner(version))
        else:
            with half_read(error):
                PipelineProver(original).prove(version, "exact", 20.0)

    data, edit = lever
    check_untouched(data, tmp_path, attempt)


def with_code(edit: PipelineEdit, pipeline: Pipeline) -> PipelineEdit:
    """The edit, which knows the Python that it is for."""
    if isinstance(edit, PyFunctionCache):
        return replace(edit, code_digest=python_digest(pipeline.stages[edit.stage].functions[0]))
    if isinstance(edit, GeneratorCache):
        return replace(
            edit, code_digest=function_digest(user_generator_of(pipeline.stages[edit.stage]))
        )
    return edit


@pytest.mark.parametrize(("edit", "at", "error"), cases(LOADER_LEVERS, "measured"))
def test_in_the_middle_of_a_loader_lever(
    edit: LoaderWorkers | LoaderCache, at: str, error: BaseException, tmp_path: Path
) -> None:
    def attempt(subject: FitSubject, data: Any) -> None:
        version = subject.original.with_loader_edits(
            (replace(edit, expected_digest=loader_digest(data)),)
        )
        with interrupted(subject.model, error):
            run(subject.runner(version))

    check_untouched(Pages, tmp_path, attempt)


def arrays() -> tuple[Any, Any]:
    return ROWS * 2, ROWS[:, :2]


@pytest.mark.parametrize(("edit", "at", "error"), cases((ArrayFeed(),), "measured", "proved"))
def test_in_the_middle_of_a_lever_for_arrays(
    edit: ArrayFeed, at: str, error: BaseException, tmp_path: Path
) -> None:
    keras_s = ArrayDataAdapter.get_tf_dataset

    def attempt(subject: FitSubject, data: Any) -> None:
        version = subject.original.with_loader_edits((edit,))
        if at == "measured":
            with interrupted(subject.model, error):
                run(subject.runner(version))
        else:
            with half_read(error):
                subject.prove_loader(version, "exact", 20.0)

    check_untouched(arrays, tmp_path, attempt)
    assert ArrayDataAdapter.get_tf_dataset is keras_s


@pytest.mark.parametrize(("edit", "at", "error"), cases(VALIDATION_LEVERS, "measured", "proved"))
def test_in_the_middle_of_a_lever_of_the_validation(
    edit: ValidationInput, at: str, error: BaseException, tmp_path: Path
) -> None:
    def attempt(subject: FitSubject, data: Any) -> None:
        version = subject.original.with_validation_edits(edit.edits)
        if at == "measured":
            with interrupted(subject.model, error, "test"):
                run(subject.validation_runner(version))
        else:
            with half_read(error):
                subject.prove_validation(version, "exact", 20.0)

    check_untouched(pipeline, tmp_path, attempt, validated=True)


@pytest.mark.parametrize(("edit", "at", "error"), cases(SAVING_LEVERS, "measured", "proved"))
def test_in_the_middle_of_a_lever_of_checkpoints(
    edit: AsyncCheckpoint, at: str, error: BaseException, tmp_path: Path
) -> None:
    def attempt(subject: FitSubject, data: Any) -> None:
        callbacks = [keras.callbacks.ModelCheckpoint(tmp_path / "c.keras")]
        subject._arguments = {**subject._arguments, "callbacks": callbacks}
        assert subject.measure_checkpoint_cost(step_s=0.01)
        version = subject.original.with_edits((edit,))
        with interrupted(subject.model, error):
            if at == "measured":
                run(subject.checkpoint_runner(version))
            else:
                subject.prove_checkpoints(version, "exact", 20.0)

    check_untouched(pipeline, tmp_path, attempt)
    assert not list(tmp_path.glob(".uncork-*"))
