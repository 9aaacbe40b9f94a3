"""What the tests of interruptions share: what goes wrong, where, and what is to be as it was."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

import pytest
import tensorflow as tf

from uncork.compat.random_state import random_state

ERRORS = (
    KeyboardInterrupt(),
    tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"),
    ZeroDivisionError("a bug"),
)
# By hand, with this set, every error in the middle of each lever; otherwise they take turns.
ALL = "UNCORK_EXAMPLES" in os.environ


def cases(levers: Iterable[Any], *moments: str) -> list[Any]:
    """Levers, when something happens in the middle of them, and what."""
    chosen = [
        (*case, error)
        for place, case in enumerate(itertools.product(levers, moments))
        for which, error in enumerate(ERRORS)
        if ALL or which == (place + place // len(ERRORS)) % len(ERRORS)
    ]
    return [pytest.param(*case, id="-".join(map(name, case))) for case in chosen]


def name(of: Any) -> str:
    """Of a case's part; of several things that belong together, the last one's."""
    of = of[-1] if isinstance(of, tuple) else of
    return of if isinstance(of, str) else type(of).__name__


def drawn_next() -> list[Any]:
    """What Python, NumPy, TensorFlow and Keras would draw next."""
    python, numpy, tf_rng, generator, seed = random_state()
    del generator
    return [python, numpy[1].tolist(), numpy[2], tf_rng, None if seed is None else seed.tolist()]
