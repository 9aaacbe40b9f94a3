"""Is the step of a loop the same on longer arguments? Both are called, call for call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.core.step_edit import PadArguments
from uncork.engine.filled_up import ALIKE, telling
from uncork.step import Call, GraphState, argument_shapes, filled_up, form_of
from uncork.watch import random_state, set_random_state

_AS_LONG: Final = "the step returns what is as long as its arguments"


def telling_calls(calls: Sequence[Call], edit: PadArguments) -> tuple[list[Call], str]:
    """Of recorded calls those that are filled up most, and get longest.

    Returns:
        These, and in which axis none of them is filled up; ``""`` where there is none.
    """
    calls = [(args, kwargs) for args, kwargs in calls if form_of(args, kwargs) == edit.form]
    before = [argument_shapes(tf.nest.flatten(call)) for call in calls]
    after = [filled_up(shapes, edit.axes, edit.multiple) for shapes in before]
    numbers, untold = telling(before, after, edit.axes)
    return [calls[n] for n in numbers], untold


def returns_otherwise(
    written: Callable[..., Any],
    otherwise: Callable[..., Any],
    calls: Sequence[Call],
    state: GraphState,
) -> str:
    """What the step gives back counts what its arguments are filled up with; ``""`` if not.

    Args:
        written: The step.
        otherwise: The same on longer arguments.
        calls: Of it.
        state: Where both begin; it is not given back.
    """
    random, found = random_state(), list[list[Any]]()
    for function in (written, otherwise):
        set_random_state(random)
        state.restore()
        found.append([_returned(function(*args, **kwargs)) for args, kwargs in calls])
    for one, other in zip(*found, strict=True):
        if [value.shape for value in one] != [value.shape for value in other]:
            return _AS_LONG
        if not all(map(_alike, one, other)):
            return "the step returns other values"
    return ""


def _returned(found: Any) -> list[Any]:
    return [np.asarray(value) for value in tf.nest.flatten(found, expand_composites=True)]


def _alike(one: Any, other: Any) -> bool:
    if one.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    return bool(np.allclose(one, other, rtol=ALIKE, atol=ALIKE, equal_nan=True))
