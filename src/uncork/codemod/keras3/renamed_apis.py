"""What is called otherwise now, and is the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import libcst as cst

from uncork.codemod.syntax.changes import Change, RewriteSite
from uncork.codemod.syntax.script_tree import ScriptTree, find_argument

_RUN: Final = "experimental_run_v2"
_STEPS: Final = "experimental_steps_per_execution"
_NOW: Final = "steps_per_execution"


def find_renamed_apis(source: ScriptTree) -> Iterator[RewriteSite]:
    """A method of strategies, and a keyword of ``compile``."""
    for call in source.calls(_RUN):
        assert isinstance(call.func, cst.Attribute)
        change = Change(call.func.attr, lambda _: cst.Name("run"))
        yield RewriteSite(call, f"{_RUN} is run", (change,))
    for call in source.calls("compile"):
        given = find_argument(call, _STEPS)
        if given is not None and find_argument(call, _NOW):
            yield RewriteSite(call, refusal_reason=f"the call passes both {_STEPS} and {_NOW}")
        elif given is not None and given.keyword is not None:
            change = Change(given.keyword, lambda _: cst.Name(_NOW))
            yield RewriteSite(call, f"{_STEPS} is {_NOW}", (change,))
