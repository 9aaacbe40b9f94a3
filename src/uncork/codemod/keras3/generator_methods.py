"""``fit`` takes generators, too: ``fit_generator``, ``evaluate_generator``, ``predict_generator``.

Their first argument is the generator. What came behind it by its place had another place than in
``fit``, and is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import libcst as cst

from uncork.codemod.keras3.loader_arguments import REMOVED_ARGUMENTS, own_method_refusal
from uncork.codemod.syntax.call_syntax import without_arguments
from uncork.codemod.syntax.changes import Change, RewriteSite
from uncork.codemod.syntax.script_tree import ScriptTree, method_name

_METHODS: Final = ("fit", "evaluate", "predict")


def find_generator_methods(source: ScriptTree) -> Iterator[RewriteSite]:
    """All calls of the three."""
    for call in source.nodes_of_type(cst.Call):
        name = method_name(call).removesuffix("_generator")
        if name not in _METHODS or name == method_name(call):
            continue
        if len([arg for arg in call.args if arg.keyword is None]) > 1:
            refusal = (
                f"pass the arguments after the generator by name: {name} has them in another order"
            )
            yield RewriteSite(call, refusal_reason=refusal)
            continue
        refusal = own_method_refusal(source, method_name(call))
        if any(arg.star for arg in call.args):
            refusal = "the call passes arguments with * or **, and some of them may have new names"
        if refusal:
            yield RewriteSite(call, refusal_reason=refusal)
            continue
        change = Change(call, partial(_renamed, name=name))
        yield RewriteSite(call, f"{method_name(call)} is {name}", (change,))


def _renamed(call: cst.Call, name: str) -> cst.Call:
    assert isinstance(call.func, cst.Attribute)
    call = call.with_changes(func=call.func.with_changes(attr=cst.Name(name)))
    for arg in call.args:
        if arg.keyword and arg.keyword.value == "generator":
            call = call.with_deep_changes(arg.keyword, value="x")
    return without_arguments(call, REMOVED_ARGUMENTS)
