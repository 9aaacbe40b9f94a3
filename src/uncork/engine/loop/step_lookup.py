"""The step of a loop: which function of the user's it is, how it is run, and how it is proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from types import CodeType, FrameType
from typing import Final

from uncork.pycode.frames.enclosing_loops import function_loops
from uncork.pycode.frames.stack import code_location, code_owner, iterate_frames
from uncork.pycode.purity.code_replacement import function_of_code
from uncork.training.loop_step.eager_step import EagerStep

NO_STEP_FUNCTION: Final = "its code is in the loop itself, not in a function"


def intercept_eager_step(
    code: CodeType | None, on_refusal: Callable[[str, str], None] = lambda _how, _why: None
) -> EagerStep | None:
    """Take over the one function that has this code; None where there is none."""
    function = None if code is None else function_of_code(code)
    return None if function is None else EagerStep(function, on_refusal)


def find_step_of_loop(codes: tuple[CodeType, ...], at: str) -> CodeType | None:
    """Of all code on the way from the tape to a loop over a dataset, what the loop calls.

    Args:
        codes: From the function that holds the tape outwards.
        at: ``file.py:line`` of the loop.
    """
    *_, found = (None, *takewhile(lambda code: not _holds(code, at), codes))
    return found


def find_step_around(frame: FrameType | None) -> CodeType | None:
    """Of all functions of the user's that run now, the outermost one inside the innermost loop.

    Args:
        frame: In the step, or in what it calls.
    """
    found = None
    for each in iterate_frames(frame):
        if code_owner(each) == "user":
            if function_loops(each):
                return found
            found = each.f_code
    return None


def _holds(code: CodeType, at: str) -> bool:
    """Whether a statement is this code's own, as far as lines tell."""
    file, _, line = at.rpartition(":")
    lines = list(_lines(code))
    same = code_location(code).rpartition(":")[0] == file
    return same and bool(lines) and min(lines) <= int(line) <= max(lines)


def _lines(code: CodeType) -> Iterator[int]:
    for _, _, line in code.co_lines():
        if line:
            yield line
