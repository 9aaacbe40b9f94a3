"""What one of Uncork's processes leaves for another: a training to be done again elsewhere."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from uncork.core.documents.plan import Proof
from uncork.training.state.arrays import ReplayResult
from uncork.verify.criteria.rounding import NUDGED_RUNS, prove_exact, prove_rounding

# Seconds for all runs that another process compares its own with, and the fewest steps of one.
_HANDED_S: Final = 20.0
MIN_HANDOVER_STEPS: Final = 4
# As many as the proofs of a step compare where they look for bits.
_MOST_STEPS: Final = 24
# Of their weights and state.
_MOST_BYTES: Final = 1 << 30
HandoverT = TypeVar("HandoverT", bound="Handover")


@dataclass(frozen=True)
class Handover:
    """A short training, and what it leads to.

    Attributes:
        state: What a training changes, as it is at its beginning.
        order: Of the batches, or calls, of a training whose state is compared.
        runs: What comes of that: of the training as written, of the same again, and of some from
            nudged weights.
        refusal_reason: Why there are none of these; ``""`` where there are.
    """

    state: list[Any]
    order: list[int]
    runs: list[ReplayResult]
    refusal_reason: str

    def write(self, path: Path) -> None:
        """To a file in a folder of Uncork's own, for a process that it starts itself."""
        with path.open("wb") as file:
            pickle.dump(self, file)

    @classmethod
    def read(cls: type[HandoverT], path: Path) -> HandoverT:
        """From such a file."""
        with path.open("rb") as file:
            found = pickle.load(file)
        assert isinstance(found, cls)
        return found

    def compare(self, candidate: ReplayResult) -> Proof:
        """By what came of the same training elsewhere, if it is not refused."""
        original, again, *nudged = self.runs
        exact = prove_exact(original, again, candidate, len(self.order))
        if exact is not None and exact.passed:
            return exact
        return prove_rounding(original, nudged, candidate, len(self.order))


@dataclass(frozen=True)
class FitHandover(Handover):
    """Of a training that Keras drives.

    Attributes:
        weights: Of the model, in Keras's order.
        optimizer_variables: Its variables, likewise.
        batches: Arrays in the structure of a batch.
        orders: In which these are trained on; each starts from the state.
        losses: What comes of each, in equal parts of it.
    """

    weights: list[Any]
    optimizer_variables: list[Any]
    batches: list[Any]
    orders: list[list[int]]
    losses: list[tuple[float, ...]]


@dataclass(frozen=True)
class LoopHandover(Handover):
    """Of a loop of the user's own.

    Attributes:
        calls: What its step was called with: of each call the leaves in order, arrays in the place
            of tensors; None for what is the script's and cannot be handed over.
        random_states: The global random states that each training begins with.
    """

    calls: list[list[Any]]
    random_states: tuple[Any, ...]


def handover_steps(step_s: float) -> int:
    """Of each run: fewer where one takes seconds.

    Example:
        >>> handover_steps(0.01), handover_steps(2.0)
        (24, 4)
    """
    steps = int(_HANDED_S / ((2 + NUDGED_RUNS) * step_s))
    return min(max(MIN_HANDOVER_STEPS, steps), _MOST_STEPS)


def size_refusal(state_bytes: int) -> str:
    """Why no runs of a training with such a state are handed over; ``""`` where they are."""
    large = state_bytes * (2 + NUDGED_RUNS) > _MOST_BYTES
    return "its state is too large to be passed to another process" if large else ""
