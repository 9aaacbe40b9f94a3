"""``optimizer.scale_loss(loss)`` instead of ``get_scaled_loss``, and no unscaling by hand.

The ``LossScaleOptimizer`` of Keras 2 had the script scale the loss and unscale the gradients. That
of Keras 3 divides by the scale itself when it is given the gradients. So the unscaling goes, and
all that saw unscaled gradients before they were applied would see scaled ones: a norm, a clip, a
sum over batches. Such a script is left as it is, and told.

The scale is a number of Python's until the optimizer has its variables, which it gets at the first
call of ``apply_gradients``: a ``tf.function`` is traced a second time then, and reads the variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import libcst as cst

from uncork.codemod.syntax.changes import Change, RewriteSite
from uncork.codemod.syntax.script_tree import ScriptTree, method_name, receiver
from uncork.core.base.errors import EditRefused

GET_SCALED_LOSS: Final = "get_scaled_loss"
GET_UNSCALED_GRADIENTS: Final = "get_unscaled_gradients"
_SCALES: Final = "scale_loss"
_APPLY: Final = ("apply_gradients", "apply")
_BY_HAND: Final = (
    "would see scaled gradients, because Keras 3 unscales them in apply_gradients: let the inner "
    "optimizer clip (clipnorm=, global_clipnorm=), or divide by optimizer.dynamic_scale for code "
    "that only reads them"
)


def find_loss_scaling(source: ScriptTree) -> Iterator[RewriteSite]:
    """Both calls of each optimizer, or neither."""
    scaled, unscaled = source.calls(GET_SCALED_LOSS), source.calls(GET_UNSCALED_GRADIENTS)
    for name in dict.fromkeys(source.code(receiver(c)) for c in (*scaled, *unscaled)):
        own = [
            [c for c in calls if source.code(receiver(c)) == name] for calls in (scaled, unscaled)
        ]
        yield from _of_one(source, *own)


def _of_one(
    source: ScriptTree, scaled: list[cst.Call], unscaled: list[cst.Call]
) -> Iterator[RewriteSite]:
    first = (*scaled, *unscaled)[0]
    try:
        if not scaled or not unscaled:
            missing = GET_UNSCALED_GRADIENTS if scaled else GET_SCALED_LOSS
            raise EditRefused(
                f"the script does not call {missing} of that optimizer: it is unclear whether its "
                "gradients are those of the scaled loss"
            )
        _check_all_scaled(source, unscaled)
        found = [*map(_scaling, scaled), *(_unscaling(source, call) for call in unscaled)]
    except EditRefused as refusal:
        yield RewriteSite(first, refusal_reason=refusal.received)
    else:
        yield from found


def _scaling(call: cst.Call) -> RewriteSite:
    attribute = call.func
    assert isinstance(attribute, cst.Attribute)
    change = Change(attribute.attr, lambda _: cst.Name(_SCALES))
    return RewriteSite(call, f"{GET_SCALED_LOSS} is {_SCALES}", (change,))


def _unscaling(source: ScriptTree, call: cst.Call) -> RewriteSite:
    if len(call.args) != 1 or call.args[0].star:
        raise EditRefused(
            f"{GET_UNSCALED_GRADIENTS} on line {source.line(call)} does not have exactly one "
            "argument"
        )
    given = call.args[0].value
    told = f"{GET_UNSCALED_GRADIENTS} is removed: apply_gradients unscales"
    if _is_applied(source, call, receiver(call)):
        return RewriteSite(call, told, (Change(call, lambda now: now.args[0].value),))
    assigned = source.parent(call)
    line = source.parent(assigned) if assigned else None
    if not (
        isinstance(assigned, cst.Assign)
        and isinstance(line, cst.SimpleStatementLine | cst.SimpleStatementSuite)
        and len(assigned.targets) == len(line.body) == 1
        and isinstance(assigned.targets[0].target, cst.Name)
    ):
        raise EditRefused(f"the use of its result on line {source.line(call)} {_BY_HAND}")
    name = assigned.targets[0].target.value
    _check_only_applied(source, call, name)
    if source.code(given) == name and isinstance(line, cst.SimpleStatementLine):
        return RewriteSite(call, told, (Change(line, lambda now: _gone(source, line, now)),))
    return RewriteSite(call, told, (Change(call, lambda now: now.args[0].value),))


def _check_all_scaled(source: ScriptTree, unscaled: list[cst.Call]) -> None:
    """Refuse where the optimizer applies other gradients, too: Keras 3 would divide those."""
    unscale = {source.enclosing_function(call) for call in unscaled}
    optimizer = source.code(receiver(unscaled[0]))
    for call in (call for name in _APPLY for call in source.calls(name)):
        within = {source.enclosing_function(call)} | set(source.ancestors(call))
        if source.code(receiver(call)) == optimizer and not within & unscale:
            raise EditRefused(
                f"line {source.line(call)} applies gradients that the script does not unscale, and "
                "Keras 3 would divide them by the scale"
            )


def _check_only_applied(source: ScriptTree, call: cst.Call, name: str) -> None:
    """Refuse where anything but the optimizer gets to see what was unscaled."""
    function = source.enclosing_function(call)
    # A function inside sees it whenever it is called.
    later = [
        use
        for use in source.uses(name)
        if (source.enclosing_function(use) is function and source.line(use) > source.line(call))
        or (source.enclosing_function(use) is not function and function in _scopes(source, use))
    ]
    for use in later:
        if not _is_applied(source, use, receiver(call)):
            raise EditRefused(f"the use of {name} on line {source.line(use)} {_BY_HAND}")
    if not later:
        raise EditRefused(f"{name} is not applied in the function that unscales it")


def _scopes(source: ScriptTree, node: cst.CSTNode) -> list[cst.CSTNode | None]:
    """What it stands in that may hold a name; None for the script itself."""
    return [*(each for each in source.ancestors(node) if isinstance(each, cst.FunctionDef)), None]


def _is_applied(
    source: ScriptTree, node: cst.BaseExpression, optimizer: cst.BaseExpression
) -> bool:
    """It is what the same optimizer applies: ``apply_gradients(zip(gradients, ...))``, say."""
    arg = source.parent(node)
    call = source.parent(arg) if isinstance(arg, cst.Arg) else None
    if not isinstance(call, cst.Call) or call.args[0] is not arg:
        return False
    if isinstance(call.func, cst.Name) and call.func.value == "zip":
        return _is_applied(source, call, optimizer)
    return method_name(call) in _APPLY and source.code(receiver(call)) == source.code(optimizer)


def _gone(
    source: ScriptTree, line: cst.CSTNode, now: cst.SimpleStatementLine
) -> cst.SimpleStatementLine | cst.RemovalSentinel:
    """No line; of a block that has no other, one that does nothing."""
    block = source.parent(line)
    if isinstance(block, cst.IndentedBlock) and len(block.body) == 1:
        return now.with_changes(body=[cst.Pass()])
    return cst.RemovalSentinel.REMOVE
