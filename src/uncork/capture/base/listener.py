"""What the hooks tell a listener: which training call was reached, and how to run it.

Numbers of the training call sites, in order of reaching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Protocol

from uncork.core.evidence.loop import StartupLine
from uncork.pycode.frames.layer_registry import LayerRegistry
from uncork.pycode.frames.stack import function_location

Guard = Callable[[Callable[[], Any]], Any]


def _at_once(act: Callable[[], Any]) -> Any:
    return act()


@dataclass(frozen=True)
class FitCall:
    """The script called ``model.fit``.

    Attributes:
        index: Number of the call site, in order of reaching; the same line keeps its number.
        at: ``file.py:line`` of the user's statement, relative to the working directory when below.
        step_setup_at: The same of the ``compile`` that set up its step; None when that was not
            seen.
        policy_at: The same of where the dtype policy of new layers was last set.
        model: The user's model.
        arguments: All arguments of ``fit`` by name, defaults filled in.
        original: Keras's own ``fit`` on that model: ``call.original(**call.arguments)``.
        layers: What was seen of the script's layers.
        startup_lines: Lines that took long before the first training of the script began.
    """

    index: int
    at: str
    model: Any
    arguments: dict[str, Any]
    original: Callable[..., Any]
    step_setup_at: str | None = None
    policy_at: str | None = None
    layers: LayerRegistry = field(default_factory=LayerRegistry)
    startup_lines: tuple[StartupLine, ...] = ()


@dataclass(frozen=True)
class LoopEvidence:
    """What showed that a loop trains.

    Attributes:
        has_eager_step: Gradients were computed op by op from Python, not in a traced function.
        eager_codes: The user's code that did so, from the function that holds the tape outwards.
        steps_seen: Elements the loop had taken when it was recognised.
        tape_calls_per_step: Calls of ``GradientTape.gradient`` during the last step. While a
            function is traced this counts calls in the trace (TensorFlow traces a function that
            creates variables twice); 0 when an optimizer's counter gave the loop away.
        first_step_s: Seconds from its first element to the request for the second.
    """

    has_eager_step: bool
    steps_seen: int
    tape_calls_per_step: int
    eager_codes: tuple[CodeType, ...] = ()
    first_step_s: float = 0.0

    @property
    def eager_at(self) -> str | None:
        """Where the function begins that holds the tape; None when it is none."""
        return function_location(self.eager_codes)


@dataclass(frozen=True)
class LoopCall:
    """The script trains in a loop of its own over a dataset.

    Attributes:
        index: Number of the call site, shared with :class:`FitCall`.
        at: ``file.py:line`` of the ``for`` statement or the ``iter`` call.
        dataset: What the loop iterates over.
        original: A fresh iterator over it, not watched.
        evidence: Why it is taken for training.
        run_guarded: Runs what stands in for the loop elsewhere: a stop in it ends the script.
        layers: What was seen of the script's layers.
        policy_at: ``file.py:line`` of where the dtype policy of new layers was last set.
        startup_lines: Lines that took long before its first step.
    """

    index: int
    at: str
    dataset: Any
    original: Callable[[], Iterator[Any]]
    evidence: LoopEvidence
    run_guarded: Guard = _at_once
    layers: LayerRegistry = field(default_factory=LayerRegistry)
    policy_at: str | None = None
    startup_lines: tuple[StartupLine, ...] = ()


@dataclass(frozen=True)
class StepCall:
    """The script calls a training step from a loop of its own that reads no watched dataset.

    Attributes:
        index: Number of the call site, shared with :class:`FitCall`.
        at: ``file.py:line`` of the call.
        args: Its arguments.
        kwargs: Its arguments by name.
        original: The step itself: ``call.original(*call.args, **call.kwargs)``.
        step: What is called: a ``tf.function``, a model, an optimizer.
        is_eager: The step runs op by op: what is called is its last part, the optimizer's update.
        eager_at: Where the user's function begins that computes its gradients.
        run_guarded: Runs what stands in for the step elsewhere: a stop in it ends the script.
        layers: What was seen of the script's layers.
        policy_at: ``file.py:line`` of where the dtype policy of new layers was last set.
        startup_lines: Lines that took long before its first step.
    """

    index: int
    at: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    original: Callable[..., Any]
    step: Any = None
    is_eager: bool = False
    eager_at: str | None = None
    run_guarded: Guard = _at_once
    layers: LayerRegistry = field(default_factory=LayerRegistry)
    policy_at: str | None = None
    startup_lines: tuple[StartupLine, ...] = ()


class Listener(Protocol):
    """Decides what happens at each training call.

    Raise :class:`~uncork.capture.base.stop.StopScript` to end the script, an
    :class:`~uncork.core.base.errors.UncorkError` to end it with that error.

    Attributes:
        wants_source_lines: Datasets shall remember the line that made them.
        wants_loops: Custom loops shall be watched. Where this is False, they cost nothing.
        wants_steps: Calls of compiled functions shall be told; asked before each.
        refuses_foreign: A ``fit`` of Keras 2 or of another backend, which it cannot look into, ends
            the script.
        accepts_jax: A ``fit`` on Keras's jax backend is told like one on TensorFlow's.
        run_guarded: Set when a script starts: an error of Uncork's in it ends the script, whatever
            that catches. For what a listener does outside of the calls below.
    """

    wants_source_lines: bool
    wants_loops: bool
    wants_steps: bool
    refuses_foreign: bool
    accepts_jax: bool
    run_guarded: Guard

    def fit(self, call: FitCall) -> Any:
        """A ``fit`` was reached; what this returns is handed to the user's code."""

    def dataset(self, dataset: Any, at: str) -> Any:
        """The user's code starts to iterate; returns the dataset to iterate over instead.

        Whether the loop trains is not known yet.
        """

    def iterator(self, dataset: Any, iterate: Callable[[Any], Any]) -> Any:
        """What the user's code is to get of a dataset that :meth:`dataset` has returned.

        Args:
            dataset: To iterate over.
            iterate: Gives TensorFlow's own iterator over a dataset.
        """

    def loop(self, call: LoopCall, first: Iterator[Any]) -> Iterator[Any]:
        """A custom loop was recognised; returns the iterator that feeds the rest of it.

        Args:
            call: The loop.
            first: The iterator in use, ``call.evidence.steps_seen`` elements in.
        """

    def step_loop(self, call: StepCall) -> Callable[[StepCall], Any] | None:
        """A loop that calls its training step was recognised, at the beginning of such a call.

        Returns what shall be called in place of the step, this call included; None to let the loop
        go on, no longer watched.
        """

    def step(self, function: Any) -> None:
        """The user's code is about to call a ``tf.function``."""


class PassThroughListener:
    """Lets every training happen as the script wants it: the base of other listeners.

    Example:
        >>> PassThroughListener().dataset("a dataset", "train.py:3")
        'a dataset'
    """

    wants_source_lines: bool = False
    wants_loops: bool = True
    wants_steps: bool = False
    refuses_foreign: bool = True
    accepts_jax: bool = False
    run_guarded: Guard = staticmethod(_at_once)

    def fit(self, call: FitCall) -> Any:
        """Keras's own ``fit``."""
        return call.original(**call.arguments)

    def dataset(self, dataset: Any, at: str) -> Any:
        """The same."""
        del at
        return dataset

    def iterator(self, dataset: Any, iterate: Callable[[Any], Any]) -> Any:
        """TensorFlow's own."""
        return iterate(dataset)

    def loop(self, call: LoopCall, first: Iterator[Any]) -> Iterator[Any]:
        """The same iterator goes on, and is no longer watched."""
        del call
        return first

    def step_loop(self, call: StepCall) -> Callable[[StepCall], Any] | None:
        """The loop goes on."""
        del call
        return None

    def step(self, function: Any) -> None:
        """It is called."""


class CallSites:
    """Gives each ``file.py:line`` a number; the same line keeps its number.

    Example:
        >>> sites = CallSites()
        >>> sites.index("train.py:3"), sites.index("train.py:9"), sites.index("train.py:3")
        (0, 1, 0)
    """

    def __init__(self) -> None:
        self._indices: dict[str, int] = {}

    def index(self, at: str) -> int:
        """The number of a call site; a new one for a new site."""
        return self._indices.setdefault(at, len(self._indices))
