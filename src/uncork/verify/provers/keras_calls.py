"""``exact`` for what happens between the calls of Keras's methods, and before their steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from uncork.compat.random_state import random_state, set_random_state
from uncork.core.documents.plan import Proof
from uncork.core.edits.step import ReuseIterator, StepEdit
from uncork.measure.profile.keras_calls import KerasCall, observe_keras_calls
from uncork.training.input.iterator_reuse import ReusedIterators
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.arrays import ReplayResult
from uncork.training.state.snapshot import Snapshot, read_weights, training_variables
from uncork.verify.criteria.rounding import prove_exact

# Calls of ``fit`` that are compared, each with one of ``evaluate`` and of ``predict`` behind it.
_CALLS: Final = 6
# Calls of a loop that are compared, and seconds to wait for them.
_ANSWERS: Final = 2
_LOOKING_S: Final = 8.0
# A call that takes as long gains nothing from some tens of milliseconds.
_LONG_S: Final = 2.0
# Any: where the script set none, no two shuffles of Keras's would agree.
_SEED: Final = 20_261


@dataclass(frozen=True)
class RepeatedFit:
    """A call of ``fit`` that a script makes many times.

    Attributes:
        fit: Keras's own, of the model.
        arguments: As the script gave them, without callbacks and validation.
    """

    fit: Callable[..., Any]
    arguments: Mapping[str, Any]

    def run(self, settings: StepSettings, snapshot: Snapshot) -> tuple[ReplayResult, list[bytes]]:
        """Some calls from the snapshot, and what ``evaluate`` and ``predict`` answer after each."""
        model, given = settings.model, self.arguments
        snapshot.restore()
        tf.random.set_seed(_SEED)
        losses: list[float] = []
        answers: list[bytes] = []
        with settings.active():
            for _ in range(_CALLS):
                history = self.fit(**given).history
                losses += history.get("loss", [])
                brief = {"batch_size": given.get("batch_size"), "verbose": 0}
                evaluated = _answer(
                    model.evaluate,
                    given["x"],
                    given.get("y"),
                    sample_weight=given.get("sample_weight"),
                    return_dict=True,
                    **brief,
                )
                predicted = _answer(model.predict, given["x"], **brief)
                answers.append(repr((history, evaluated)).encode())
                answers += [np.asarray(a).tobytes() for a in keras.tree.flatten(predicted)]
            return ReplayResult(tuple(losses), read_weights(model)), answers


def changes_keras_calls(edits: tuple[StepEdit, ...]) -> bool:
    """The last of them changes what is around the steps of Keras's methods, and no step."""
    return bool(edits) and isinstance(edits[-1], ReuseIterator)


def prove_repeated_fit(
    repeated_fit: RepeatedFit, original: StepSettings, edited: StepSettings, snapshot: Snapshot
) -> Proof:
    """Make the same calls both ways, seeded: all that they train and answer is the same.

    Args:
        repeated_fit: What the script calls.
        original: The script's own settings.
        edited: Those to be proved; the iterators that they keep must have been used.
        snapshot: Where both begin. Who calls this gives it back.
    """
    (first, told), (again, _) = (repeated_fit.run(original, snapshot) for _ in range(2))
    candidate, answers = repeated_fit.run(edited, snapshot)
    refused = _refused(edited, told == answers)
    if refused:
        return Proof(kind="exact", passed=False, detail=refused)
    proof = prove_exact(first, again, candidate, _CALLS)
    if proof is None:
        return Proof(kind="exact", passed=False, detail="two runs of the original differ")
    how = f"weights, histories, evaluations and predictions of {_CALLS} calls are equal"
    return Proof(kind="exact", passed=True, detail=how) if proof.passed else proof


def prove_evaluations(run_steps: Callable[[], object]) -> Proof:
    """Make the calls of ``evaluate`` and ``predict`` that a loop makes, both ways.

    Args:
        run_steps: Lets the loop run as it is for some steps.
    """
    until = time.monotonic() + _LOOKING_S
    with observe_keras_calls() as found:
        while len(found.last_calls) < _ANSWERS and time.monotonic() < until:
            run_steps()
    iterators = ReusedIterators()
    same = [_is_same(call, iterators) for call in found.last_calls]
    count = len(same)
    details = {
        "the loop did not call evaluate or predict": not same,
        "evaluations or predictions differ": not all(same),
        "none of its calls reuses an iterator": not iterators.epoch_count,
    }
    for detail, refused in details.items():
        if refused:
            return Proof(kind="exact", passed=False, detail=detail)
    how = f"results of {count} calls, and the state of the model after them, are equal bit for bit"
    return Proof(kind="exact", passed=True, detail=how)


def iterator_creation_s(call: KerasCall) -> float:
    """Seconds of a call in which what it reads through is made; the model is left alone.

    Args:
        call: That a loop made.
    """
    iterators, state = ReusedIterators(), _State(call.model)
    ways = (iterators.active, nullcontext, iterators.active, nullcontext, iterators.active)
    seconds: dict[Any, list[float]] = {way: [] for way in ways}
    try:
        for way in ways:
            state.restore()
            with way():
                begin = time.perf_counter()
                call.repeat()
                seconds[way].append(time.perf_counter() - begin)
            if not iterators.epoch_count or seconds[way][-1] > _LONG_S:
                return 0.0
    except Exception:  # a call need not go well again, and it is not the user's own that fails
        return 0.0
    finally:
        state.restore()
    kept_s, written_s = (min(each) for each in seconds.values())
    return max(0.0, written_s - kept_s)


def _is_same(call: KerasCall, iterators: ReusedIterators) -> bool:
    """As written, twice with what is kept, and as written: each from the same state."""
    state, seen = _State(call.model), set[tuple[bytes, ...]]()
    try:
        for way in (nullcontext(), iterators.active(), iterators.active(), nullcontext()):
            state.restore()
            with way:
                answer = call.repeat()
            answered = (np.asarray(a).tobytes() for a in keras.tree.flatten(answer))
            seen.add((*answered, *state.now()))
    finally:
        state.restore()
    return len(seen) == 1


class _State:
    """All that a call may leave in its model, and the random states of the process."""

    def __init__(self, model: Any) -> None:
        self._values = [(v, tf.identity(v.value)) for v in training_variables(model)]
        self._random = random_state()

    def restore(self) -> None:
        """Give it back."""
        for variable, value in self._values:
            variable.assign(value)
        set_random_state(self._random)

    def now(self) -> list[bytes]:
        """What it is now."""
        return [np.asarray(variable.value).tobytes() for variable, _ in self._values]


def _answer(ask: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A model with a step of its own may have no loss to evaluate: it has none both ways."""
    try:
        return ask(*args, **kwargs)
    except Exception as error:
        return type(error).__name__


def _refused(edited: StepSettings, is_answered_alike: bool) -> str:
    if not (edited.reused_iterators and edited.reused_iterators.epoch_count):
        return "none of its calls reuses an iterator"
    return "" if is_answered_alike else "histories, evaluations or predictions differ"
