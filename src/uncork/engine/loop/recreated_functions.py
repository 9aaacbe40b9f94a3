"""Compiled functions that a script makes anew for each epoch: each is traced and compiled again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from uncork.compat.tf.eager_context import async_wait
from uncork.compat.tf.functions import clone
from uncork.core.evidence.loop import RecreatedFunction
from uncork.measure.profile.function_calls import CompiledCalls
from uncork.pycode.frames.enclosing_loops import loops_around
from uncork.pycode.frames.stack import code_location


def recreated_function_cost(
    compiled_calls: CompiledCalls, step_s: float, *, is_in_loop: bool
) -> RecreatedFunction | None:
    """What the first calls of a new function take, where the script makes one for each epoch.

    Args:
        compiled_calls: What the loop calls.
        step_s: Of a step that is compiled.
        is_in_loop: The loop itself stands in a loop.
    """
    anew = [
        call
        for call in compiled_calls.last_calls
        if is_recreated(call.func, compiled_calls, is_in_loop=is_in_loop)
    ]
    if not anew:
        return None
    function: Any = anew[0].func
    first_s = max(0.0, _first_s(anew) - step_s)
    return RecreatedFunction(
        first_call_extra_s=first_s, at=code_location(function.python_function.__code__)
    )


def is_recreated(function: Any, compiled_calls: CompiledCalls, *, is_in_loop: bool) -> bool:
    """Whether its definition runs for each epoch, as far as its source tells.

    It stands in the loop that the loop over batches stands in; or in the function around it, where
    that is called in a loop.

    Args:
        function: A ``tf.function``.
        compiled_calls: From where it was called.
        is_in_loop: The loop over batches stands in a loop, or in a function that is called in one.
    """
    python = function.python_function
    made_by = getattr(python, "__qualname__", "").split(".<locals>.")[:-1]
    code = getattr(python, "__code__", None)
    if code is None or code.co_filename != compiled_calls.source_line[0]:
        return False
    if made_by and made_by[-1] not in compiled_calls.caller_names:
        return False  # by another function, and nobody knows how often
    epochs = len(loops_around(*compiled_calls.source_line)) - 1
    if epochs > 0:
        return len(loops_around(code.co_filename, code.co_firstlineno)) >= epochs
    return bool(made_by) and is_in_loop


def _first_s(calls: Sequence[partial[Any]]) -> float:
    """Of functions as these, made anew."""
    begin = time.perf_counter()
    for call in calls:
        function: Any = call.func
        clone(function)(*call.args, **call.keywords)
    async_wait()
    return time.perf_counter() - begin
