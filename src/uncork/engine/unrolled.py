"""A first step that takes long because a loop is written out in it."""

from __future__ import annotations

import ast
import functools
from contextlib import suppress
from typing import Final

from uncork.core.facts import Unrolled
from uncork.core.layers import Layers
from uncork.engine.repetition import loops_around
from uncork.step.unrolled import largest_body

# Shorter ones are not worth a look at all ops.
_LONG_S: Final = 2.0


def unrolled(layers: Layers | None, first_s: float) -> Unrolled | None:
    """The loop that most of a large graph comes from; None where the first step was quick.

    Args:
        layers: Of the script.
        first_s: Seconds that the first step took.
    """
    if first_s < _LONG_S:
        return None
    body = None
    with suppress(Exception):  # of graphs that live, some are half made, or of a layer's own kind
        body = largest_body(layers, functools.cache(_loop_at))
    if body is None or not body.at:
        return None
    return Unrolled(at=body.at, ops=body.ops, share=body.share, rounds=body.rounds, first_s=first_s)


def _loop_at(filename: str, line: int) -> int | None:
    """Where the innermost ``for`` begins whose body holds a line."""
    loops = [loop for loop in loops_around(filename, line) if isinstance(loop, ast.For)]
    return loops[-1].lineno if loops and loops[-1].lineno < line else None
