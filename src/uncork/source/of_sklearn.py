"""Calls of ``fit`` that train no network: scikit-learn's scalers, encoders and the like."""

from __future__ import annotations

from typing import Final

import libcst as cst

from uncork.source.tree import Source, receiver

# Of Keras's, what makes an estimator of a network.
_WRAPS_KERAS: Final = "SKLearn"


def of_sklearn(source: Source, call: cst.Call) -> bool:
    r"""Whether all tells that a method is one of scikit-learn's.

    Args:
        source: The script.
        call: Of a method.

    Example:
        >>> text = (
        ...     b"from sklearn.preprocessing import StandardScaler\n"
        ...     b"scaler = StandardScaler()\nscaler.fit(x)\nmodel.fit(x)\n"
        ... )
        >>> source = Source(text, "train.py")
        >>> [of_sklearn(source, each) for each in source.calls("fit")]
        [True, False]
    """
    name = _root(receiver(call))
    if _imported(source, name):
        return True
    if _WRAPS_KERAS in source.module.code or "scikeras" in source.module.code:
        return False  # what it fits may hold networks
    named = [each for each in source.all(cst.Name) if each.value == name]
    given = [each for each in named if not isinstance(source.parent(each), cst.Attribute | cst.Arg)]
    made = [_made(source, each) for each in given]
    return bool(made) and all(each is not None and _imported(source, _root(each)) for each in made)


def _imported(source: Source, name: str) -> bool:
    return any(full.partition(".")[0] == "sklearn" for full in source.imported_as(name))


def _made(source: Source, name: cst.Name) -> cst.Call | None:
    """What a name is given, where that is plainly the result of a call."""
    target = source.parent(name)
    statement = source.parent(target) if isinstance(target, cst.AssignTarget) else None
    value = statement.value if isinstance(statement, cst.Assign) else None
    return value if isinstance(value, cst.Call) else None


def _root(node: cst.CSTNode) -> str:
    """``scaler`` of ``scaler.fit(x)``, ``pre`` of ``pre.StandardScaler().fit(x)``."""
    while isinstance(node, cst.Call | cst.Attribute):
        node = node.func if isinstance(node, cst.Call) else node.value
    return node.value if isinstance(node, cst.Name) else ""
