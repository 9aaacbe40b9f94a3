"""``exact`` for what happens between the calls of Keras's methods, and before their steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import keras
import numpy as np

from uncork.core.plan import Proof
from uncork.proof.rounding import prove_exact
from uncork.step import Replay, Snapshot, StepSettings, weights

# Calls of ``fit`` that are compared, each with one of ``evaluate`` and of ``predict`` behind it.
_CALLS: Final = 6
# Any: where the script set none, no two shuffles of Keras's would agree.
_SEED: Final = 20_261


@dataclass(frozen=True)
class Called:
    """A call of ``fit`` that a script makes many times.

    Attributes:
        fit: Keras's own, of the model.
        arguments: As the script gave them, without callbacks and validation.
    """

    fit: Callable[..., Any]
    arguments: Mapping[str, Any]

    def run(self, settings: StepSettings, snapshot: Snapshot) -> tuple[Replay, list[bytes]]:
        """Some calls from the snapshot, and what ``evaluate`` and ``predict`` answer after each."""
        model, given = settings.model, self.arguments
        snapshot.restore()
        keras.utils.set_random_seed(_SEED)
        losses: list[float] = []
        answers: list[bytes] = []
        with settings.active():
            for _ in range(_CALLS):
                history = self.fit(**given).history
                losses += history["loss"]
                evaluated = model.evaluate(
                    given["x"],
                    given.get("y"),
                    batch_size=given.get("batch_size"),
                    sample_weight=given.get("sample_weight"),
                    return_dict=True,
                    verbose=0,
                )
                predicted = model.predict(given["x"], batch_size=given.get("batch_size"), verbose=0)
                answers.append(repr((history, evaluated)).encode())
                answers += [np.asarray(a).tobytes() for a in keras.tree.flatten(predicted)]
            return Replay(tuple(losses), weights(model)), answers


def prove_calls(
    called: Called, original: StepSettings, edited: StepSettings, snapshot: Snapshot
) -> Proof:
    """Make the same calls both ways, seeded: all that they train and answer is the same.

    Args:
        called: What the script calls.
        original: The script's own settings.
        edited: Those to be proved; the iterators that they keep must have been used.
        snapshot: Where both begin. Who calls this gives it back.
    """
    (first, told), (again, _) = (called.run(original, snapshot) for _ in range(2))
    candidate, answers = called.run(edited, snapshot)
    refused = _refused(edited, told == answers)
    if refused:
        return Proof(kind="exact", passed=False, detail=refused)
    proof = prove_exact(first, again, candidate, _CALLS)
    if proof is None:
        return Proof(kind="exact", passed=False, detail="two runs of the original differ")
    how = f"weights, histories, evaluations and predictions of {_CALLS} calls are the same"
    return Proof(kind="exact", passed=True, detail=how) if proof.passed else proof


def _refused(edited: StepSettings, is_answered_alike: bool) -> str:
    if not (edited.iterators and edited.iterators.calls):
        return "none of its calls reads through an iterator that is kept"
    return "" if is_answered_alike else "histories, evaluations or predictions differ"
