"""Which function of the user's is the eager step of a loop?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from types import CodeType

from uncork.capture import LoopCall
from uncork.core.stack import code_place
from uncork.step import EagerStep, function_of

NO_FUNCTION = "it stands in the loop itself, not in a function of its own"
NOT_SEEN = "it was not called by the loop that was watched"


def eager_step_of(
    call: LoopCall, on_refusal: Callable[[str], None] = lambda _: None
) -> EagerStep | None:
    """Take over the function that the loop calls and that holds the tape, itself or further down.

    Args:
        call: A loop whose gradients are computed op by op.
        on_refusal: Told why the step goes on op by op, when it was to be a graph.

    Returns:
        None where the tape stands in the loop itself, or several functions share the code.
    """
    code = step_code(call.evidence.eager_codes, call.at)
    function = None if code is None else function_of(code)
    return None if function is None else EagerStep(function, on_refusal)


def step_code(codes: tuple[CodeType, ...], at: str) -> CodeType | None:
    """Of all code on the way from the tape to the loop, what the loop calls.

    Args:
        codes: From the function that holds the tape outwards.
        at: ``file.py:line`` of the loop.
    """
    *_, found = (None, *takewhile(lambda code: not _holds(code, at), codes))
    return found


def _holds(code: CodeType, at: str) -> bool:
    """Whether a statement is this code's own, as far as lines tell."""
    file, _, line = at.rpartition(":")
    lines = list(_lines(code))
    same = code_place(code).rpartition(":")[0] == file
    return same and bool(lines) and min(lines) <= int(line) <= max(lines)


def _lines(code: CodeType) -> Iterator[int]:
    for _, _, line in code.co_lines():
        if line:
            yield line
