"""A training step that runs eagerly: observed first, then run as a ``tf.function``.

A graph does in each call what it did when it was traced. What Python does beside TensorFlow's ops
happens then only: what it prints, counts, collects or draws would be lost, what it reads would
stand still. So a step is watched before it may become a graph, for each form of call anew, and what
it reads is guarded as long as it is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, final

import keras
import numpy as np
import tensorflow as tf

from uncork.compat.tf.summaries import summary_state
from uncork.core.base.errors import describe_error
from uncork.pycode.frames.stack import code_owner, iterate_frames
from uncork.pycode.purity.code_objects import is_caught_here
from uncork.pycode.purity.code_replacement import FunctionReplacement
from uncork.pycode.purity.guards import StateGuards, UnguardedError
from uncork.pycode.purity.observed_call import CHANGES_PREFIX, observe_call
from uncork.training.loop_step.array_arguments import CachedArrayFunction
from uncork.training.loop_step.loop_step import InterceptedStep, was_traced
from uncork.training.loop_step.loss import find_returned_names
from uncork.training.loop_step.mode import StepMode
from uncork.training.loop_step.number_arguments import (
    ChangingNumbers,
    NumberReplacer,
    TensorArgumentFunction,
    positional_parameter_names,
)
from uncork.training.tracing.dropped_checks import user_check_names

# Forms of a call, each watched and traced once: other shapes, other values of Python's.
_MOST_FORMS: Final = 16
# Changes of what it reads, each of which costs a call op by op and a trace; and calls that are to
# be made as a graph for each of them, on average, for that to be worth while.
_MOST_CHANGES: Final = 64
_FREE_CHANGES: Final = 3
_CALLS_A_CHANGE: Final = 50
_ANY_NUMBER: Final = "any number"


@final
class EagerStep(InterceptedStep):
    """A function of the user's that trains eagerly, intercepted wherever it is called.

    The first call of each form is watched. Others run as :attr:`mode` says.

    Args:
        function: Holds the gradient tape, or calls what does.
        on_refusal: Told how it goes on, and why, when it cannot run as it was to.

    Attributes:
        call_handler: Gets the arguments of each call, when set, in the place of :meth:`run`.
        on_change: Told what has changed where it is traced anew for that.
        expected_code_digest: A digest that :attr:`code_digest`, of all code of the user's, must be
            equal to; ``""`` for any.
    """

    def __init__(
        self,
        function: FunctionType,
        on_refusal: Callable[[str, str], None] = lambda _how, _why: None,
    ) -> None:
        super().__init__(on_refusal)
        self.call_handler: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None
        self.on_change: Callable[[str], None] = lambda _what: None
        self.expected_code_digest = ""
        self._changes = self._served = self._met = 0
        self._graphs: dict[tuple[StepMode, tuple[Any, ...]], Any] = {}
        self._summaries: tuple[Any, ...] = ()
        self._guards: StateGuards | None = None
        self._forms: dict[Any, tuple[Any, ...]] = {}
        self._seen_twice: set[Any] = set()
        self._taken = FunctionReplacement(function, self)
        self._written = self._taken.original
        self._parameters = positional_parameter_names(self._written)
        self.returned_names = find_returned_names(self._written)
        self._seen_numbers = ChangingNumbers(self._written)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In the place of the user's function."""
        if self._running or not tf.executing_eagerly():  # by itself, or from a graph of the user's
            return self._written(*args, **kwargs)
        if self.call_handler is not None:
            return self.call_handler(args, kwargs)
        return self.run(*args, **kwargs)

    def original(self, *args: Any, **kwargs: Any) -> Any:
        """Op by op."""
        return self._written(*args, **kwargs)

    def graph_function(self, mode: StepMode = StepMode.GRAPH) -> Any:
        """The step as a ``tf.function``; only where there is no :attr:`refusal`.

        Branches on tensors are not converted: both sides would be traced, also what they do in
        Python. A step with such branches cannot be traced, and stays as it is.
        """
        key = mode, self._summaries
        if key not in self._graphs:
            python = self._traced_as(mode, self._written)
            graph = tf.function(python, autograph=False, **mode.tf_function_options)
            if self.number_arguments:
                graph = TensorArgumentFunction(graph, self.number_arguments)
            if mode.array_arguments:
                graph = CachedArrayFunction(
                    graph, self._written, mode.array_arguments, self._tensors
                )
            self._graphs[key] = graph
        return self._graphs[key]

    def restore(self) -> None:
        """Let the user's function be what it was."""
        self._taken.restore()

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.refusal:
            return self._written(*args, **kwargs)
        if tf.distribute.has_strategy():
            self._refuse("the step runs under a tf.distribute strategy")
            return self._written(*args, **kwargs)
        known = self.refusal is not None
        if known:
            self._record(args, kwargs)
        if known and self.mode == StepMode.ORIGINAL:
            return self._written(*args, **kwargs)
        form, objects = self._form(args, kwargs)
        if known and form in self._forms:
            return self._as_graph(args, kwargs, form, objects)
        return self._watched(args, kwargs, form, objects)

    def _form(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        """Any number counts as any other where the graph is given a tensor."""
        if self.is_examined:
            self._seen_numbers.note_call(args, kwargs)
            if self.number_arguments != self._seen_numbers.changing_names:
                self.number_arguments = self._seen_numbers.changing_names
                self._graphs.clear()
        if self.number_arguments:
            numbers = NumberReplacer(self._parameters, self.number_arguments)
            args, kwargs = numbers.replace_numbers(args, kwargs, convert=lambda _: _ANY_NUMBER)
        objects: list[Any] = []
        self._summaries = _summaries(objects)
        form = (*self._summaries, *_form(args, kwargs, objects))
        return form, tuple(objects)

    def _watched(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], form: Any, objects: tuple[Any, ...]
    ) -> Any:
        """Run one call eagerly, and observe its side effects."""
        if self._guards is not None and self._guards.find_change() is not None:
            self._graphs.clear()  # what was traced before is of no use either
            self._forms.clear()
        if len(self._forms) >= _MOST_FORMS:
            if self._served < _CALLS_A_CHANGE * self._met:
                self._refuse(
                    "the script calls the step with too many different shapes or Python values"
                )
                return self._written(*args, **kwargs)
            self._graphs.clear()  # each of them has served long: a rate for each epoch, say
            self._forms.clear()
        try:
            known = [each for objects in self._forms.values() for each in objects]
            guards = self._guards = StateGuards(self._written, *known, *objects)
        except UnguardedError as reason:
            self._refuse(str(reason))
            return self._written(*args, **kwargs)
        found, refusal = observe_call(guards, lambda: self._written(*args, **kwargs))
        self._ran_as_written = True
        if not refusal and not _are_tensors(found):
            refusal = "the step returns something that is not a tensor"
        if not refusal and self.expected_code_digest not in ("", guards.code_digest):
            refusal = (
                "the code of the step, or a function that it calls, has changed since the "
                "plan was made"
            )
        if not refusal and self.is_examined and self.code_digest not in ("", guards.code_digest):
            refusal = "the script calls the step with objects of several classes of its own"
        if refusal.startswith(CHANGES_PREFIX) and form not in self._seen_twice:
            self._seen_twice.add(form)  # perhaps for this once: look again at the next call
        elif refusal:
            self._refuse(refusal)
        else:
            self.refusal, self.code_digest = "", guards.code_digest
            self._forms[form] = objects
            self._met += 1
        return found

    def _as_graph(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], form: Any, objects: tuple[Any, ...]
    ) -> Any:
        assert self._guards is not None
        changed = self._guards.find_change()
        if changed is not None:
            self._changes += 1
            self._graphs.clear()
            self._forms.clear()
            if self._changes_too_often():
                self._refuse(f"'{changed}' changes too often")
                return self._written(*args, **kwargs)
            found = self._watched(args, kwargs, form, objects)
            if not self.refusal:
                self.on_change(changed)
            return found
        self._served += 1
        if self._served > 1:  # it was traced by then
            self._save_initial_state(args, kwargs)
        if not self.mode.is_modified:
            return self._traced(args, kwargs)
        return self._run_in_mode(args, kwargs, lambda: self._traced(args, kwargs))

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.refusal:
            return self._written(*args, **kwargs)
        graph = self.graph_function()
        try:
            if not self._served_by(graph, args, kwargs):
                return self._written(*args, **kwargs)
            traces = graph.experimental_get_tracing_count()
            found = graph(*args, **kwargs)
            self.has_served = True
            if self.is_examined and graph.experimental_get_tracing_count() != traces:
                self._changed_step_refusal(args, kwargs)
            return found
        except Exception as error:
            if was_traced(graph, args, kwargs):
                raise  # what the step itself raised
            self._refuse(f"tracing the step fails: {describe_error(error)}")
        return self._written(*args, **kwargs)

    def _served_by(self, graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether it does as Python does: there a check that fails comes before the update.

        In a graph both may happen. It is told apart where somebody catches the error, and goes on.
        """
        if graph.experimental_get_tracing_count():
            return True
        if another := self._changed_step_refusal(args, kwargs):
            self._refuse(another)
            return False
        if not _is_caught():
            return True
        checks = user_check_names(graph.get_concrete_function(*args, **kwargs))
        if checks:
            self._refuse(
                f"a failed {checks} would not stop the update, and the script catches its error"
            )
        return not checks

    def _changes_too_often(self) -> bool:
        earned = self._served >= _CALLS_A_CHANGE * self._changes
        return self._changes > _MOST_CHANGES or (self._changes > _FREE_CHANGES and not earned)

    def _refuse_changed_step(self, why: str) -> None:
        if why:
            self._refuse(why)
            self._unable[self.mode] = why

    def _refuse(self, reason: str) -> None:
        self.refusal, self._guards = reason, None
        self._graphs.clear()
        self._forms.clear()
        self._on_refusal("eagerly", reason)


def _is_caught() -> bool:
    """Errors of the step, by the user's code around it."""
    around = (frame for frame in iterate_frames(sys._getframe(1)) if code_owner(frame) == "user")
    return any(map(is_caught_here, around))


def _form(args: tuple[Any, ...], kwargs: dict[str, Any], objects: list[Any]) -> tuple[Any, ...]:
    """What a graph is traced for: equal for calls that it serves alike.

    Args:
        args: Of a call.
        kwargs: Likewise.
        objects: Those that are handed over are added to it.
    """
    try:
        leaves = tf.nest.flatten((args, kwargs))
    except (TypeError, ValueError):  # keys that cannot be sorted
        leaves = [args, kwargs]
    kinds: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, np.ndarray) or tf.is_tensor(leaf):
            kinds.append(
                (type(leaf), getattr(leaf, "dtype", None), str(getattr(leaf, "shape", "")))
            )
        elif leaf is None or isinstance(leaf, (bool, int, float, complex, str, bytes)):
            kinds.append((type(leaf), leaf))
        else:
            kinds.append(id(leaf))
            objects.append(leaf)
    return (len(args), *sorted(kwargs), *kinds)


def _summaries(objects: list[Any]) -> tuple[Any, ...]:
    """A summary's writer, its step and whether it is written: told by Python while it is traced."""
    writing = summary_state
    step = writing.step if isinstance(writing.step, int) else id(writing.step)
    if writing.writer is None:
        return ()
    asked = writing.is_recording, writing.is_recording_distribution_strategy
    return id(writing.writer), step, *(_answered(each, objects) for each in asked)


def _answered(recording: Any, objects: list[Any]) -> Any:
    """What ``tf.summary.record_if`` was given; a graph keeps the answer, unless it is a tensor."""
    found = recording() if callable(recording) else recording
    if callable(recording) and tf.is_tensor(found):
        objects.append(recording)  # asked anew by the graph, which it is part of
        return id(recording)
    return bool(found) if tf.is_tensor(found) else found


def _are_tensors(returned: Any) -> bool:
    try:
        leaves = tf.nest.flatten(returned)
    except (TypeError, ValueError):
        return False
    variables = (tf.Variable, keras.Variable)
    return all(v is None or (tf.is_tensor(v) and not isinstance(v, variables)) for v in leaves)
