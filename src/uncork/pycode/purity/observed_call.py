"""Side effects of the script's code, observed in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from uncork.pycode.purity.guards import StateGuards
from uncork.pycode.purity.random_draws import RandomStates
from uncork.pycode.purity.side_effects import note_side_effects

T = TypeVar("T")

# How an answer begins that may be another one when the same is watched again: what is built,
# compiled or looked up for the first time changes something once.
CHANGES_PREFIX: Final = "it changes"


def observe_call(guards: StateGuards, call: Callable[[], T]) -> tuple[T, str]:
    """Make a call, and see what would be lost if TensorFlow's ops alone were repeated.

    Args:
        guards: All that the code can get at, as it is before.
        call: Of the user's code.

    Returns:
        What it returned; and what it did beside computing, as part of a sentence, ``""`` for
        nothing.

    Example:
        >>> observe_call(StateGuards(lambda: print("so far")), lambda: print("so far"))
        so far
        (None, 'it does more than compute: print')
    """
    draws = RandomStates(())
    before = draws.current_states()
    with note_side_effects() as seen:
        found = call()
    changed = guards.find_change()
    if seen:
        return found, f"it does more than compute: {seen[0]}"
    if changed is not None:
        return found, f"{CHANGES_PREFIX} '{changed}' in each step"
    if draws.current_states() != before:
        return found, "it samples random numbers in Python"
    return found, ""
