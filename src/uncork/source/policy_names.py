"""``mixed_precision.set_global_policy`` instead of ``mixed_precision.experimental.set_policy``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import libcst as cst

from uncork.source.calls import without_arguments
from uncork.source.changes import Change
from uncork.source.found import Found
from uncork.source.tree import Source, argument

_NAMES: Final = {
    "LossScaleOptimizer": "LossScaleOptimizer",
    "Policy": "Policy",
    "global_policy": "global_policy",
    "set_policy": "set_global_policy",
}
_SCALE: Final = "loss_scale"
_EXPERIMENTAL: Final = "mixed_precision.experimental"


def policy_names(source: Source) -> Iterator[Found]:
    """All that is called of ``mixed_precision.experimental``."""
    for call in source.all(cst.Call):
        called = call.func
        if not isinstance(called, cst.Attribute) or not isinstance(called.value, cst.Attribute):
            continue
        owner, name = source.code(called.value), called.attr.value
        if not owner.endswith(_EXPERIMENTAL) or name not in _NAMES:
            continue
        refusal = _refused(source, call)
        if refusal:
            yield Found(call, refusal=refusal)
            continue
        change = Change(call, partial(_renamed, name=_NAMES[name]))
        yield Found(call, f"{_EXPERIMENTAL}.{name} is mixed_precision.{_NAMES[name]}", (change,))


def _refused(source: Source, call: cst.Call) -> str:
    """A scale that does not follow the gradients has no equal."""
    given = argument(call, _SCALE)
    if any(arg.star for arg in call.args):
        return "write its arguments out: what * or ** hand over is not seen"
    places = [arg for arg in call.args if arg.keyword is None]
    if len(places) > 1:
        given = call.args[1]
    if given is None or source.code(given.value) in ('"dynamic"', "'dynamic'"):
        return "" if len(places) < 2 else "name its second argument: loss_scale=..."
    return (
        f"{_SCALE}={source.code(given.value)}: Keras 3 scales dynamically; a scale of its own is "
        "the loss_scale_factor of the inner optimizer"
    )


def _renamed(call: cst.Call, name: str) -> cst.Call:
    owner = call.func
    assert isinstance(owner, cst.Attribute)
    assert isinstance(owner.value, cst.Attribute)
    func = owner.with_changes(value=owner.value.value, attr=cst.Name(name))
    return without_arguments(call.with_changes(func=func), (_SCALE,))
