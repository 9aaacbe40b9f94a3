"""The training step of the user's own loop, intercepted wherever it is called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.core.base.errors import describe_error
from uncork.training.loop_step.array_arguments import (
    TensorCache,
    has_same_bytes,
    is_comparable_array,
)
from uncork.training.loop_step.graph_state import GraphState
from uncork.training.loop_step.mode import StepMode
from uncork.training.optimizer.traced_updates import TracedUpdates
from uncork.training.precision.traced_loss_scaling import TracedLossScaler
from uncork.training.precision.traced_policy import (
    precision_refusal,
    retrace_refusal,
    wrap_with_policy,
)
from uncork.training.tracing.dropped_checks import dropped_checks_refusal
from uncork.training.tracing.graph_digest import graph_digest
from uncork.training.tracing.map_fn import MapVectorizer
from uncork.training.tracing.xla_support import missing_kernel_reason

_RECORDED: Final = 64
_RECORDED_BYTES: Final = 128 << 20

_ANOTHER: Final = (
    "the step computes something else than when the plan was made: its model, loss, "
    "optimizer or data have changed"
)

# In it small gradients vanish, unless the loss they are of is scaled.
_SCALED: Final = "mixed_float16"

CallArguments = tuple[tuple[Any, ...], dict[str, Any]]


class InterceptedStep(ABC):
    """A step that runs as :attr:`mode` says when the user's loop calls it.

    Args:
        on_refusal: Told how it goes on, and why, when it cannot run as it was to.

    Attributes:
        mode: How it runs.
        refusal: Why it cannot be a graph; ``""`` where it can, as far as was seen. None as long as
            it was not called.
        recorded_calls: The first calls' arguments, when :attr:`is_recording`.
        is_examined: It is examined, not run under a plan: what its variables are at its first call
            as a graph is kept, in :attr:`initial_state`, and numbers that change are noted.
        initial_state: That; None where it was not kept.
        number_arguments: Arguments that are Python numbers, and change from call to call: as far as
            was seen while it was looked at, or as a plan says. A step that was eager gets them as
            tensors.
        returned_names: Names of the variables that it returns, where these are told.
        code_digest: Digest of code of the user's that it runs.
        has_served: A call of it has run otherwise than it is written: as a graph, or in a mode.
        graph_digests: While it is looked at, digests of what it was traced to as a graph.
        expected_graph_digests: Under a plan, those that it was made for, of the first call; empty
            for any.
    """

    def __init__(self, on_refusal: Callable[[str, str], None] = lambda _how, _why: None) -> None:
        self.mode = StepMode.ORIGINAL
        self.refusal: str | None = None
        self._unable: dict[StepMode, str] = {}
        self.is_recording = False
        self.recorded_calls: list[CallArguments] = []
        self.number_arguments: tuple[str, ...] = ()
        self.is_examined = False
        self.initial_state: GraphState | None = None
        self.returned_names: tuple[str, ...] = ()
        self.code_digest = ""
        self.has_served = False
        self.graph_digests: set[str] = set()
        self.expected_graph_digests: frozenset[str] = frozenset()
        self._on_refusal = on_refusal
        self._bytes = 0
        self._running = False
        self._maps, self._updates, self._scaling = (
            MapVectorizer(),
            TracedUpdates(),
            TracedLossScaler(),
        )
        self._tensors = TensorCache()
        self._ran_as_written = self._state_asked = False
        self._task: Callable[[], None] | None = None

    @property
    def mode_refusal(self) -> str:
        """Why the step cannot run in its mode; ``""`` where it can or has not tried yet."""
        return self._unable.get(self.mode, "")

    def restart_recording(self) -> None:
        """From the next call on, keep what it is called with, and forget what was kept so far."""
        self.recorded_calls, self._bytes, self.is_recording = [], 0, True

    @abstractmethod
    def original(self, *args: Any, **kwargs: Any) -> Any:
        """What the user wrote."""

    @abstractmethod
    def graph_function(self, mode: StepMode = StepMode.GRAPH) -> Any:
        """The step as a ``tf.function``; only where there is no :attr:`refusal`."""

    @abstractmethod
    def restore(self) -> None:
        """Let the user's function be what it was."""

    @abstractmethod
    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call, on the thread that makes it."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The step as :attr:`mode` says."""
        task, self._task = self._task, None
        self._running = True
        try:
            if task is not None:
                task()
            return self._run(args, kwargs)
        finally:
            self._running = False

    def reset_loss_scale(self) -> None:
        """Let the scale of its loss be the first one, where a training begins anew."""
        self._scaling.reset()

    def run_at_next_call(self, task: Callable[[], None]) -> None:
        """Run something on the user's thread, where its device and its strategy are set."""
        self._task = task

    def _traced_as(self, mode: StepMode, python: Callable[..., Any]) -> Callable[..., Any]:
        """The step's Python code, as it is to be traced for a mode."""
        python = wrap_with_policy(
            mode.policy,
            python,
            mode.float32_layers,
            is_precision_conservative=mode.is_precision_conservative,
        )
        python = self._scaling.wrap_function(python) if mode.policy == _SCALED else python
        python = self._updates.wrap_function(python) if mode.has_fused_updates else python
        return self._maps.wrap_function(python) if mode.has_vectorized_maps else python

    def _run_in_mode(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], usual: Callable[[], Any]
    ) -> Any:
        """As the function of the mode; where that fails and the usual way does not, the usual."""
        anew = self.mode.policy or self.mode.has_vectorized_maps or self.mode.has_fused_updates
        if anew and not self._ran_as_written:
            return usual()  # what is built by the first call is built as it was written
        if self.mode not in self._unable:
            self._look_for_checks(args, kwargs)
            self._refuse_changed_step(self._changed_step_refusal(args, kwargs))
            self._unable.setdefault(self.mode, "")  # unless somebody pressed Ctrl-C meanwhile
        if self.mode_refusal:
            return usual()
        function = self.graph_function(self.mode)
        traces = function.experimental_get_tracing_count()
        try:
            found = function(*args, **kwargs)
        except Exception as error:
            if not self.mode.is_xla and was_traced(function, args, kwargs):
                raise  # an error of the step's own; some of it was done
            found = usual()  # XLA does nothing by halves; an error of the step's own is raised here
            self._refuse_mode(missing_kernel_reason(error) or describe_error(error))
            return found
        self.has_served = True
        if function.experimental_get_tracing_count() != traces:
            self._look_for_checks(args, kwargs)
            if self.is_examined:
                self._changed_step_refusal(args, kwargs)
        return found

    def _refuse_changed_step(self, why: str) -> None:
        """Refuse the plan's mode, as the plan was made for another step."""
        self._refuse_mode(why)

    def _changed_step_refusal(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Why the step's graph differs from those of the plan; ``""`` if it does not.

        As its author wrote it, whatever the mode: so both are traced at the same place.
        """
        if not (self.is_examined or self.expected_graph_digests):
            return ""
        with suppress(Exception):  # what cannot be traced is found out when it is called
            found = graph_digest(self.graph_function().get_concrete_function(*args, **kwargs))
            if self.is_examined:
                self.graph_digests.add(found)
            elif found not in self.expected_graph_digests:
                return _ANOTHER
            self.expected_graph_digests = (
                frozenset()
            )  # what changes in the middle of a training is its own affair
        return ""

    def _look_for_checks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """In what was traced, or will be, for these arguments."""
        found = ""
        with suppress(Exception):  # what cannot be traced is found out when it is called
            if self.mode.is_xla or self.mode.is_xla_off:
                found = dropped_checks_refusal(
                    self.graph_function().get_concrete_function(*args, **kwargs)
                )
            if self.mode.policy and not found:
                ways = (self.graph_function(), self.graph_function(self.mode))
                found = precision_refusal(
                    *(way.get_concrete_function(*args, **kwargs) for way in ways)
                )
            if self.mode.policy == _SCALED and not found:
                found = self._scaling.refusal_reason
            if self.mode.has_vectorized_maps and not found:
                self.graph_function(self.mode).get_concrete_function(*args, **kwargs)
                found = self._maps.refusal_reason
            if self.mode.has_fused_updates and not found:
                found = retrace_refusal(
                    self.graph_function().get_concrete_function(*args, **kwargs)
                )
            if self.mode.has_fused_updates and not found:
                self.graph_function(self.mode).get_concrete_function(*args, **kwargs)
                found = self._updates.refusal_reason
        self._refuse_mode(found)  # which may raise, where a plan is to be kept strictly

    def _refuse_mode(self, why: str) -> None:
        if why:
            self._unable[self.mode] = why
            self._on_refusal("unmodified", why)

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self.is_recording:
            return
        with suppress(TypeError, ValueError):  # arguments that TensorFlow cannot take apart
            before = tf.nest.flatten(self.recorded_calls[-1]) if self.recorded_calls else []
            leaves = _as_before(tf.nest.flatten((args, kwargs)), before)
            size = sum(_bytes_of(leaf) for leaf in leaves if not any(leaf is b for b in before))
            if len(self.recorded_calls) >= _RECORDED or self._bytes + size > _RECORDED_BYTES:
                self.is_recording = False
                return
            self._bytes += size
            kept = [_kept(leaf, before) for leaf in leaves]
            self.recorded_calls.append(tf.nest.pack_sequence_as((args, kwargs), kept))

    def _save_initial_state(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Once, before the step has gone far, as it is called on what it was traced for."""
        if self.is_examined and not self._state_asked:
            self._state_asked = True
            with suppress(Exception):  # no memory for as much again
                self.initial_state = GraphState(
                    self.graph_function().get_concrete_function(*args, **kwargs)
                )
                self._changed_step_refusal(args, kwargs)


def was_traced(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call that failed went as far as to run; one that was not traced has done nothing.

    What failed while it was traced may go well now: memory is full for a moment.
    """
    traces = function.experimental_get_tracing_count()
    try:
        function.get_concrete_function(*args, **kwargs)
    except Exception:
        return False
    return bool(function.experimental_get_tracing_count() == traces)


def _as_before(leaves: list[Any], before: list[Any]) -> list[Any]:
    """With the copy that was kept of the last call, where a large array is the same as there."""
    if len(leaves) != len(before):
        return leaves
    pairs = zip(leaves, before, strict=True)
    return [kept if _same_large(leaf, kept) else leaf for leaf, kept in pairs]


def _same_large(leaf: Any, kept: Any) -> bool:
    return is_comparable_array(leaf) and is_comparable_array(kept) and has_same_bytes(leaf, kept)


def _kept(leaf: Any, before: list[Any]) -> Any:
    if not isinstance(leaf, np.ndarray) or any(leaf is each for each in before):
        return leaf
    return leaf.copy()


def _bytes_of(leaf: Any) -> int:
    if isinstance(leaf, np.ndarray):
        return int(leaf.nbytes)
    if tf.is_tensor(leaf) and hasattr(leaf, "shape") and leaf.shape.is_fully_defined():
        return int(np.prod(leaf.shape, dtype=np.int64)) * (leaf.dtype.size or 64)
    return 0
