"""What XLA cannot compile is named: the op, and the line that called it."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.mode import StepMode
from uncork.training.tracing.xla_support import missing_kernel_reason


def told(x):
    return tf.strings.length(tf.strings.as_string(x))


LINE = f"{Path(__file__).name}:{told.__code__.co_firstlineno + 1}"


def test_the_op_and_the_user_s_line_that_made_it():
    compiled = tf.function(told, jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        compiled(tf.ones([3]))
    said = missing_kernel_reason(caught.value)
    assert said is not None
    assert said.startswith("XLA has no kernel for AsString")
    assert LINE in said


def test_an_argument_that_is_text_is_named():
    def lengths(lines):
        return tf.strings.length(lines)

    compiled = tf.function(lengths, jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        compiled(tf.constant(["a", "b"]))
    said = missing_kernel_reason(caught.value)
    assert said is not None
    assert said.startswith("XLA does not support strings, and the argument 'lines' is")


@pytest.mark.parametrize("error", [ValueError("no such thing"), MemoryError()])
def test_other_errors_say_nothing_of_ops(error):
    assert missing_kernel_reason(error) is None


def test_a_step_of_a_loop_says_so_and_goes_on_as_written():
    function = tf.function(told)
    step = CompiledStep(function)
    step.mode = StepMode.XLA
    assert function(tf.ones([3])).shape == [3]
    assert step.mode_refusal.startswith("XLA has no kernel for AsString")
    step.restore()
