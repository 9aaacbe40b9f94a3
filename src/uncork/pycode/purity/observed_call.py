"""What code does beside computing: seen in one call of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from uncork.pycode.purity.guards import Guards
from uncork.pycode.purity.random_draws import Draws
from uncork.pycode.purity.side_effects import outside

T = TypeVar("T")

# How an answer begins that may be another one when the same is watched again: what is built,
# compiled or looked up for the first time changes something once.
CHANGES: Final = "it changes"


def watched(guards: Guards, call: Callable[[], T]) -> tuple[T, str]:
    """Make a call, and see what would be lost if TensorFlow's ops alone were repeated.

    Args:
        guards: All that the code can get at, as it is before.
        call: Of the user's code.

    Returns:
        What it returned; and what it did beside computing, as part of a sentence, ``""`` for
        nothing.

    Example:
        >>> watched(Guards(lambda: print("so far")), lambda: print("so far"))
        so far
        (None, 'it does more than compute: print')
    """
    draws = Draws(())
    before = draws.now()
    with outside() as seen:
        found = call()
    changed = guards.changed()
    if seen:
        return found, f"it does more than compute: {seen[0]}"
    if changed is not None:
        return found, f"{CHANGES} '{changed}' in each step"
    if draws.now() != before:
        return found, "it draws random numbers in Python"
    return found, ""
