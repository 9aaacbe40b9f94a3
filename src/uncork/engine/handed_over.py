"""What one of Uncork's processes leaves for another: a training to be done again elsewhere."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class HandedOver:
    """A state, some batches, and the losses that they lead to.

    Attributes:
        weights: Of the model, in Keras's order.
        optimizer: Its variables, likewise.
        batches: Arrays in the structure of a batch.
        orders: In which these are trained on; each starts from the state.
        losses: What comes of each, in equal parts of it.
    """

    weights: list[Any]
    optimizer: list[Any]
    batches: list[Any]
    orders: list[list[int]]
    losses: list[tuple[float, ...]]

    def write(self, path: Path) -> None:
        """To a file in a folder of Uncork's own, for a process that it starts itself."""
        path.write_bytes(pickle.dumps(self))

    @classmethod
    def read(cls, path: Path) -> HandedOver:
        """From such a file."""
        found = pickle.loads(path.read_bytes())
        assert isinstance(found, cls)
        return found
