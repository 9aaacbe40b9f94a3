"""``mixed_precision.set_global_policy`` instead of ``mixed_precision.experimental.set_policy``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import libcst as cst

from uncork.codemod.syntax.call_syntax import without_arguments
from uncork.codemod.syntax.changes import Change, RewriteSite
from uncork.codemod.syntax.script_tree import ScriptTree, find_argument

_NAMES: Final = {
    "LossScaleOptimizer": "LossScaleOptimizer",
    "Policy": "Policy",
    "global_policy": "global_policy",
    "set_policy": "set_global_policy",
}
_SCALE: Final = "loss_scale"
_MODULE: Final = "mixed_precision"
_EXPERIMENTAL: Final = "mixed_precision.experimental"


def find_policy_names(source: ScriptTree) -> Iterator[RewriteSite]:
    """All that is called of ``mixed_precision.experimental``, and where that is imported."""
    imported = [
        each for each in source.nodes_of_type(cst.ImportFrom) if _is_experimental(source, each)
    ]
    aliases = {_alias(each) for each in imported}
    for each in imported:
        told = f"{_EXPERIMENTAL} is {_MODULE}"
        yield RewriteSite(each, told, (Change(each, partial(_imported, alias=_alias(each))),))
    for call in source.nodes_of_type(cst.Call):
        called = call.func
        if not isinstance(called, cst.Attribute) or called.attr.value not in _NAMES:
            continue
        owner, name = source.code(called.value), called.attr.value
        by_alias = owner in aliases
        if not by_alias and not owner.endswith(_EXPERIMENTAL):
            continue
        refusal = _refused(source, call)
        if refusal:
            yield RewriteSite(call, refusal_reason=refusal)
            continue
        change = Change(call, partial(_renamed, name=_NAMES[name], by_alias=by_alias))
        yield RewriteSite(call, f"{_EXPERIMENTAL}.{name} is {_MODULE}.{_NAMES[name]}", (change,))


def _is_experimental(source: ScriptTree, each: cst.ImportFrom) -> bool:
    """``from tensorflow.keras.mixed_precision import experimental``, and nothing else of it."""
    names = each.names
    if not isinstance(each.module, cst.Attribute) or isinstance(names, cst.ImportStar):
        return False
    alone = len(names) == 1 and names[0].name.value == "experimental"
    return alone and not each.relative and each.module.attr.value == _MODULE


def _alias(each: cst.ImportFrom) -> str:
    assert not isinstance(each.names, cst.ImportStar)
    return each.names[0].evaluated_alias or "experimental"


def _imported(each: cst.ImportFrom, alias: str) -> cst.ImportFrom:
    """Of the module above, under the name that the script knows it by."""
    assert isinstance(each.module, cst.Attribute)
    assert not isinstance(each.names, cst.ImportStar)
    known = cst.AsName(cst.Name(alias), cst.SimpleWhitespace(" "), cst.SimpleWhitespace(" "))
    name = each.names[0].with_changes(
        name=cst.Name(_MODULE), asname=None if alias == _MODULE else known
    )
    return each.with_changes(module=each.module.value, names=(name,))


def _refused(source: ScriptTree, call: cst.Call) -> str:
    """A scale that does not follow the gradients has no equal."""
    given = find_argument(call, _SCALE)
    if any(arg.star for arg in call.args):
        return "write its arguments out: * and ** hide what they pass"
    places = [arg for arg in call.args if arg.keyword is None]
    if len(places) > 1:
        given = call.args[1]
    if given is None or source.code(given.value) in ('"dynamic"', "'dynamic'"):
        return "" if len(places) < 2 else "pass its second argument by name: loss_scale=..."
    return (
        f"{_SCALE}={source.code(given.value)}: Keras 3 scales dynamically; for a fixed scale, set "
        "loss_scale_factor of the inner optimizer"
    )


def _renamed(call: cst.Call, name: str, by_alias: bool) -> cst.Call:
    owner = call.func
    assert isinstance(owner, cst.Attribute)
    above = owner.value
    if not by_alias:
        assert isinstance(above, cst.Attribute)
        above = above.value
    func = owner.with_changes(value=above, attr=cst.Name(name))
    return without_arguments(call.with_changes(func=func), (_SCALE,))
