"""Arguments of a step filled up to few lengths: which, with what, how far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.record import replace
from uncork.core.edits.step import PadArguments
from uncork.core.evidence.batches import VaryingAxis
from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.mode import StepMode
from uncork.training.transforms.padded_arguments import PaddedArgumentFunction, describe_call_form


def longer(*axes: VaryingAxis, multiple: int = 4, form: str = "") -> PadArguments:
    return PadArguments(code_digest="", call_signature=form, multiple=multiple, axes=axes)


def given(edit: PadArguments, *args: Any, **kwargs: Any) -> Any:
    """What the function is called with; of this form, unless the edit is for another one."""
    edit, found = (
        replace(edit, call_signature=edit.call_signature or describe_call_form(args, kwargs)),
        list[Any](),
    )

    class Function:
        def __call__(self, *args: Any, **kwargs: Any) -> None:
            found.append((args, kwargs))

    PaddedArgumentFunction(Function(), edit)(*args, **kwargs)
    return found[0]


FIRST = VaryingAxis(tensor_index=0, axis=1, max_length=16, padding_value=-1.0)


@pytest.mark.parametrize("dtype", [tf.int32, tf.float32, tf.bfloat16, tf.int64])
def test_tensors_are_filled_up_with_a_number(dtype: Any) -> None:
    (x,), _ = given(longer(FIRST), tf.ones((1, 3), dtype))
    assert x.dtype == dtype
    assert tf.cast(x, tf.float32).numpy().tolist() == [[1, 1, 1, -1]]


def test_arrays_stay_arrays() -> None:
    (x,), _ = given(longer(FIRST), np.ones((1, 3), "int16"))
    assert isinstance(x, np.ndarray)
    assert (x.tolist(), x.dtype) == ([[1, 1, 1, -1]], np.int16)


def test_text_is_filled_up_with_nothing() -> None:
    (x,), _ = given(
        longer(VaryingAxis(tensor_index=0, axis=1, max_length=16)), tf.constant([["a", "b", "c"]])
    )
    assert x.numpy().tolist() == [[b"a", b"b", b"c", b""]]


def test_parts_are_counted_as_tensorflow_takes_calls_apart() -> None:
    """By position first, then by name, dictionaries in the order of their keys."""
    edit = longer(
        VaryingAxis(tensor_index=2, axis=1, max_length=16),
        VaryingAxis(tensor_index=3, axis=1, max_length=16),
    )
    short = tf.ones((1, 3))
    (x, parts), named = given(edit, short, {"b": short, "a": short}, weight=short)
    shapes = [tuple(part.shape) for part in (x, parts["a"], parts["b"], named["weight"])]
    assert shapes == [(1, 3), (1, 3), (1, 4), (1, 4)]


@pytest.mark.parametrize("length", [16, 17, 20])
def test_none_gets_longer_than_the_longest_that_was_seen(length: int) -> None:
    (x,), _ = given(longer(FIRST, multiple=32), tf.ones((1, length)))
    assert x.shape[1] == length


ROWS = tf.ones((1, 3))
FORM = describe_call_form((ROWS, 0.5), {"training": True})


@pytest.mark.parametrize(
    ("args", "kwargs", "filled"),
    [
        ((ROWS, 0.5), {"training": True}, True),
        ((ROWS, 0.25), {"training": True}, True),
        ((ROWS, 0.5), {"training": False}, False),
        ((ROWS, 0.5), {}, False),
        ((), {"x": ROWS, "rate": 0.5, "training": True}, False),
        ((ROWS.numpy(), 0.5), {"training": True}, False),
        ((tf.ones((1, 3, 1)), 0.5), {"training": True}, False),
        ((None, 0.5), {"training": True}, False),
        ((), {}, False),
    ],
)
def test_calls_of_another_form_stay_as_they_are(args: Any, kwargs: Any, filled: bool) -> None:
    """Of a step that is asked to evaluate, say: nobody has proved that these may be longer."""
    found, _ = given(longer(FIRST, form=FORM), *args, **kwargs)
    same = all(one is other for one, other in zip(found, args, strict=True))
    assert same is not filled


def test_what_is_as_long_as_that_is_handed_over_itself() -> None:
    rows = tf.ones((1, 8))
    (x,), _ = given(longer(FIRST), rows)
    assert x is rows


def test_a_step_is_traced_for_few_lengths() -> None:
    function = tf.function(tf.shape, jit_compile=True)
    step = CompiledStep(function)
    step.mode = StepMode(padded_arguments=longer(FIRST, form=describe_call_form((ROWS,), {})))
    found = [function(tf.ones((1, length))).numpy()[1] for length in (1, 2, 3, 4, 5, 8, 18)]
    step.restore()
    assert found == [4, 4, 4, 4, 8, 8, 18]
    assert step.graph_function(step.mode).experimental_get_tracing_count() == 3
    assert function(tf.ones((1, 3))).numpy().tolist() == [1, 3]
