"""What is called otherwise now, and is the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import libcst as cst

from uncork.codemod.syntax.changes import Change, Found
from uncork.codemod.syntax.script_tree import Source, argument

_RUN: Final = "experimental_run_v2"
_STEPS: Final = "experimental_steps_per_execution"
_NOW: Final = "steps_per_execution"


def renamed(source: Source) -> Iterator[Found]:
    """A method of strategies, and a keyword of ``compile``."""
    for call in source.calls(_RUN):
        assert isinstance(call.func, cst.Attribute)
        change = Change(call.func.attr, lambda _: cst.Name("run"))
        yield Found(call, f"{_RUN} is run", (change,))
    for call in source.calls("compile"):
        given = argument(call, _STEPS)
        if given is not None and argument(call, _NOW):
            yield Found(call, refusal=f"the call gives both {_STEPS} and {_NOW}")
        elif given is not None and given.keyword is not None:
            change = Change(given.keyword, lambda _: cst.Name(_NOW))
            yield Found(call, f"{_STEPS} is {_NOW}", (change,))
