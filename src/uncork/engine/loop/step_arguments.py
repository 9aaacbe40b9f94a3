"""What the step of a loop is called with."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import Any

import numpy as np
import tensorflow as tf

from uncork.capture.base.listener import StepCall
from uncork.verify.provers.recorded_calls import most_common_length


def arguments_of(call: StepCall) -> list[Any]:
    """All arguments of a step, nested ones too; those only that TensorFlow can take apart."""
    with suppress(TypeError, ValueError):  # a dict, say, whose keys have no order
        return list(tf.nest.flatten((call.args, call.kwargs)))
    return []


def with_resident_arrays(call: StepCall, *, as_arrays: bool) -> StepCall:
    """The same call without arrays that a loader may fill anew, or that are to be converted.

    Args:
        call: The user's.
        as_arrays: Its step is Python, which may do with arrays what no tensor does.
    """

    def resident(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        return leaf.copy() if as_arrays else tf.convert_to_tensor(leaf)

    with suppress(TypeError, ValueError):  # what TensorFlow cannot take apart stays as it is
        args, kwargs = tf.nest.map_structure(resident, (call.args, call.kwargs))
        return dataclasses.replace(call, args=args, kwargs=kwargs)
    return call


def casts_arrays(call: StepCall) -> bool:
    """Its step is a function with a signature of other dtypes: to these it casts arrays alone."""
    try:
        signature = tf.nest.flatten(getattr(call.step, "input_signature", None) or ())
    except (TypeError, ValueError):
        return True
    given = arguments_of(call)
    arrays = (a.dtype != s.dtype for a, s in zip(given, signature) if isinstance(a, np.ndarray))  # noqa: B905
    return bool(signature) and (len(given) != len(signature) or any(arrays))


def samples_of(call: StepCall) -> int | None:
    """Samples of a step: the first dimension that most of its arguments share."""
    return most_common_length(arguments_of(call))
