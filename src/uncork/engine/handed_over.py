"""What one of Uncork's processes leaves for another: a training to be done again elsewhere."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class HandedOver:
    """A state, some batches, and what they lead to.

    Attributes:
        weights: Of the model, in Keras's order.
        optimizer: Its variables, likewise.
        batches: Arrays in the structure of a batch.
        orders: In which these are trained on; each starts from the state.
        losses: What comes of each, in equal parts of it.
        state: Of all that a training changes, weights and optimizer among them.
        order: Of a training whose weights are compared.
        runs: What comes of that: of the training as written, of the same again, and of some from
            nudged weights.
        refused: Why there are none of these; ``""`` where there are.
    """

    weights: list[Any]
    optimizer: list[Any]
    batches: list[Any]
    orders: list[list[int]]
    losses: list[tuple[float, ...]]
    state: list[Any]
    order: list[int]
    runs: list[Any]
    refused: str

    def write(self, path: Path) -> None:
        """To a file in a folder of Uncork's own, for a process that it starts itself."""
        with path.open("wb") as file:
            pickle.dump(self, file)

    @classmethod
    def read(cls, path: Path) -> HandedOver:
        """From such a file."""
        with path.open("rb") as file:
            found = pickle.load(file)
        assert isinstance(found, cls)
        return found
