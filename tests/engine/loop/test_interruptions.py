"""Ctrl-C, a full memory and an error in the middle of a lever of a loop leave it as it was."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from interruptions import cases, drawn_next
from uncork.capture.base.listener import LoopCall, LoopEvidence
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.step import (
    ArrayArguments,
    DtypePolicy,
    FusedUpdates,
    JitCompile,
    JitCompileOff,
    PadArguments,
    ReduceRetracing,
    StepEdit,
    TensorArguments,
    TfFunction,
    VectorizedMapFn,
)
from uncork.core.evidence.batches import VaryingAxis
from uncork.engine.loop.dataset_loop_subject import DatasetLoopSubject
from uncork.engine.loop.loop_driver import run_engine_thread
from uncork.engine.loop.step_switch import mode_of
from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.eager_step import EagerStep
from uncork.training.loop_step.loop_step import InterceptedStep
from uncork.training.loop_step.mode import StepMode

LEVERS: dict[str, Callable[[str], StepEdit]] = {
    "graph": lambda code: TfFunction(code_digest=code),
    "tensors": lambda code: TensorArguments(code_digest=code, argument_names=("rate",)),
    "arrays": lambda code: ArrayArguments(code_digest=code, argument_names=("x",)),
    "all shapes": lambda code: ReduceRetracing(code_digest=code),
    "lengths": lambda code: PadArguments(
        code_digest=code, call_signature=FORM, multiple=8, axes=LENGTHS
    ),
    "at once": lambda code: VectorizedMapFn(code_digest=code),
    "fused": lambda code: FusedUpdates(code_digest=code),
    "xla": lambda code: JitCompile(code_digest=code),
    "no xla": lambda code: JitCompileOff(code_digest=code),
    "bfloat16": lambda code: DtypePolicy(policy="mixed_bfloat16", code_digest=code),
    "float16": lambda code: DtypePolicy(policy="mixed_float16", code_digest=code),
    "float32": lambda code: DtypePolicy(policy="float32", code_digest=code),
}
# Of rows of six numbers, of which a step uses six, however many it is given.
FORM = "(('float32 2', 'float32 2', 'float'), {})"
LENGTHS = (VaryingAxis(tensor_index=0, axis=1, max_length=8),)
PROOFS: dict[str, Guarantee] = dict.fromkeys(("bfloat16", "float16", "float32"), "precision")
ROWS = np.random.default_rng(4).normal(size=(64, 6)).astype("float32")
# Numbers of Python's that the loop hands to its step in turn.
RATES = {"tensors": (0.5, 1.0, 2.0)}
# Calls of a lever's function: in the last of them the error happens.
CALLS = 4
# Steps after it.
STEPS = 4
CALL_OF_LAYERS = keras.layers.Layer.__call__


class Ended(BaseException):
    """The engine has no more use for the loop."""


class Training:
    """A model, its optimizer, and a step of the user's own."""

    def __init__(self, lever: str) -> None:
        keras.utils.set_random_seed(3)
        layers, policy = keras.layers, "mixed_bfloat16" if lever == "float32" else "float32"
        scale = layers.Normalization(mean=[1.0] * 6, variance=[4.0] * 6, dtype=policy)
        parts = [
            scale,
            layers.BatchNormalization(dtype=policy),
            layers.Dropout(0.3, dtype=policy),
            layers.Dense(2, dtype=policy),
        ]
        self.model = keras.Sequential([keras.Input((6,)), *parts])
        self.rates = RATES.get(lever, (1.0,))
        self.maps = lever == "at once"
        self.optimizer = keras.optimizers.Adam(0.01)
        self.optimizer.build(self.model.trainable_variables)
        xla = lever in ("no xla", "lengths")
        made = tf.function(self.eager, jit_compile=True if xla else None)
        self.step = self.eager if lever == "graph" else made

    def eager(self, x: Any, y: Any, rate: float) -> Any:
        x = x[:, :6]
        if self.maps:
            x = tf.map_fn(tf.square, x)
        with tf.GradientTape() as tape:
            loss = rate * tf.reduce_mean((y - tf.cast(self.model(x, training=True), y.dtype)) ** 2)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return loss

    @property
    def settings(self) -> list[Any]:
        policies = [layer.dtype_policy.name for layer in self.model._flatten_layers()]
        mean = self.model.layers[0].mean
        return [policies, mean.dtype, hasattr(mean, "numpy"), keras.config.dtype_policy().name]

    @property
    def values(self) -> list[Any]:
        return [variable.numpy() for variable in self._variables]

    @property
    def _variables(self) -> list[Any]:
        return [*self.model.variables, *self.optimizer.variables]

    def take(self, values: list[Any]) -> None:
        for variable, value in zip(self._variables, values, strict=True):
            variable.assign(value)

    def trained(self, calls: list[Any]) -> list[float]:
        return [float(self.step(*call)) for call in calls]


@contextmanager
def interrupted(error: BaseException, mode: StepMode, at: str) -> Iterator[list[str]]:
    """The error happens inside the block: while a function is traced, or at a call of the lever's.

    Args:
        error: What is raised.
        mode: Of the lever.
        at: ``traced``: each time that anything is, its layers called by then. Otherwise once, some
            calls of the lever's function have gone well by then.
    """
    happened = list[str]()

    def happens() -> None:
        happened.append(at)
        raise error

    with failing_traces(happens) if at == "traced" else failing_calls(mode, happens):
        try:
            yield happened
        finally:
            assert happened


@contextmanager
def failing_traces(happens: Callable[[], None]) -> Iterator[None]:
    gradient = tf.GradientTape.gradient

    @tf.autograph.experimental.do_not_convert
    def failing(tape: Any, *args: Any, **kwargs: Any) -> Any:
        if tf.inside_function():
            happens()
        return gradient(tape, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.GradientTape, "gradient", failing)
        yield


@contextmanager
def failing_calls(mode: StepMode, happens: Callable[[], None]) -> Iterator[None]:
    calls = itertools.count(1)

    def before() -> None:
        if next(calls) == CALLS:
            happens()

    with pytest.MonkeyPatch.context() as patch:
        for kind in (CompiledStep, EagerStep):
            patch.setattr(kind, "graph_function", failing_graph(kind.graph_function, mode, before))
        yield


def failing_graph(graph: Any, mode: StepMode, before: Callable[[], None]) -> Callable[..., Any]:
    def made(step: InterceptedStep, asked: StepMode = StepMode.GRAPH) -> Any:
        function = graph(step, asked)
        return Failing(function, before) if asked == mode else function

    return made


class Failing:
    """A traced function that something happens to before it runs."""

    def __init__(self, function: Any, before: Callable[[], None]) -> None:
        self._function = function
        self._before = before

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._before()
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


class Examined:
    """A loop of the user's own under examination, its engine on a thread of its own."""

    def __init__(self, training: Training, folder: Path) -> None:
        data = tf.data.Dataset.from_tensor_slices((ROWS, ROWS[:, :2])).batch(8)
        eager = training.step == training.eager
        codes = (Training.eager.__code__,) if eager else ()
        evidence = LoopEvidence(
            has_eager_step=eager, steps_seen=0, tape_calls_per_step=1, eager_codes=codes
        )
        call = LoopCall(0, "train.py:9", data, lambda: iter(data), evidence)
        self.training = training
        self.subject = DatasetLoopSubject(call, epochs=None, scratch=str(folder))
        self.raised: BaseException | None = None

    def loop(self, work: Callable[[DatasetLoopSubject], None]) -> tuple[list[Any], BaseException]:
        """The user's; calls of the step that were made, and what ended it."""
        ended, done, rates = threading.Event(), list[Any](), self.training.rates

        def working() -> None:
            try:
                work(self.subject)
            except BaseException as error:
                self.raised = error
            finally:
                self.subject.restore()
                ended.set()

        board = run_engine_thread(working, self.subject.driver, Ended())
        try:
            for x, y in board:
                call = x, y, rates[len(done) % len(rates)]
                self.training.step(*call)
                done.append(call)
        except BaseException as error:
            board.abandon(error)
            assert ended.wait(60)
            return done, error
        raise AssertionError("the data has no end")

    def give_back(self) -> None:
        """The function of the user's, to those who come after."""
        step = self.subject._step._step
        assert step is not None
        step.restore()


@pytest.fixture(autouse=True, scope="module")
def seen_by_the_collector() -> Iterator[None]:
    """The function that has the step's code is looked for among what the collector knows."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One function has the step's code, and gets it back."""
    for seconds in ("_WATCHED_S", "_RECORDED_S"):
        monkeypatch.setattr(f"uncork.engine.loop.dataset_loop_subject.{seconds}", 0.1)
    code = Training.eager.__code__
    Training.eager.__code__ = code.replace()
    yield
    Training.eager.__code__ = code


def tried(subject: DatasetLoopSubject, lever: str, at: str, error: BaseException) -> None:
    """What the engine does with a lever, until something happens to it."""
    subject.runner(subject.original).prime()
    subject._know_step()
    version = subject.original.with_step_edits(
        (LEVERS[lever](subject.observed_workload().step_code_digest),)
    )
    runner = subject.runner(version)
    with interrupted(error, mode_of(version.step_edits), at) as happened:
        if at == "proved":
            subject.prove_step(version, PROOFS.get(lever, "rounding"), 5.0)
            return
        runner.prime()
        while not happened:
            runner.block(0.2)


def same(ours: list[Any], theirs: list[Any]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.every(8)
@pytest.mark.parametrize(("lever", "at", "error"), cases(LEVERS, "traced", "measured", "proved"))
def test_in_the_middle_of_a_lever_that_is_tried(
    lever: str, at: str, error: BaseException, tmp_path: Path
) -> None:
    """The loop's next steps are those of a loop that nobody has touched."""
    ours = Training(lever)
    before = ours.settings, drawn_next()
    examined = Examined(ours, tmp_path)
    done, ending = examined.loop(lambda subject: tried(subject, lever, at, error))
    # What only the lever's function did is no error of the user's.
    own = isinstance(error, KeyboardInterrupt) or (at == "measured" and lever != "xla")
    assert isinstance(ending, type(error) if own else Ended), repr(examined.raised)
    assert (ours.settings, drawn_next()) == before
    assert keras.layers.Layer.__call__ is CALL_OF_LAYERS

    then = ours.values
    losses = ours.trained(done[:STEPS])
    examined.give_back()
    twin = Training(lever)
    if at == "measured":
        twin.take(then)  # some of its steps were the lever's
    else:
        twin.trained(done)
    same(then, twin.values)
    assert twin.trained(done[:STEPS]) == losses
    same(ours.values, twin.values)


@pytest.mark.every(5)
@pytest.mark.parametrize(("lever", "at", "error"), cases(LEVERS, "traced", "called"))
def test_in_the_middle_of_a_lever_in_force(lever: str, at: str, error: BaseException) -> None:
    """The loop gets the error before its step has changed anything, or goes on as written."""
    ours = Training(lever)
    x, y = tf.constant(ROWS[:8]), tf.constant(ROWS[:8, :2])
    calls = [(x, y, rate) for rate in 3 * ours.rates]
    before = ours.settings, drawn_next()
    step = EagerStep(Training.eager) if lever == "graph" else CompiledStep(ours.step)
    ours.trained(calls)
    step.mode = mode_of((LEVERS[lever](""),))
    with interrupted(error, step.mode, at) as happened:
        for call in itertools.cycle(calls):
            then = ours.values
            raised = raised_by(ours, call)
            if happened:
                break
    own = isinstance(error, KeyboardInterrupt) or (at == "called" and lever != "xla")
    assert raised is (error if own else None)
    assert (ours.settings, drawn_next()) == before
    assert keras.layers.Layer.__call__ is CALL_OF_LAYERS

    twin = Training(lever)
    twin.take(then)
    if not own:
        twin.step(*call)
    same(ours.values, twin.values)
    if own:
        ours.step(*call)  # as the lever has it, which goes on
        assert step.mode_refusal == ""
        step.restore()
        twin.take(ours.values)
    assert ours.trained(calls) == twin.trained(calls)
    same(ours.values, twin.values)


def raised_by(training: Training, call: Any) -> BaseException | None:
    try:
        training.step(*call)
    except BaseException as error:
        return error
    return None
