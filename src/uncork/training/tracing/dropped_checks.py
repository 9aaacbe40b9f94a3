"""Finds checks of the user's that XLA silently drops from a step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Final

import tensorflow as tf

from uncork.pycode.frames.stack import is_user_file
from uncork.training.tracing.graph_ops import find_live_graphs

_CHECKS: Final = frozenset({"Assert", "CheckNumerics", "CheckNumericsV2"})
# What Keras calls its step when it traces it.
_STEP: Final = "one_step_on_data"
# An assertion stands in a branch of its own, which is named so.
_GUARD: Final = "AssertGuard"
# Parts of TensorFlow that make a check for whoever calls them.
_MAKERS: Final = frozenset({
    "check_ops.py", "cond.py", "cond_v2.py", "control_flow_assert.py", "control_flow_ops.py",
    "numerics.py", "weak_tensor_ops.py",
})  # fmt: skip
_PASSED_ON: Final = frozenset({"autograph", "framework", "util"})


def dropped_checks_refusal(traced: Any) -> str:
    """Which checks of a traced function XLA drops, as part of a sentence; ``""`` for none.

    TensorFlow's own functions and Keras's layers check shapes, and nobody misses that. Of a check
    inside a loop or a branch it is not known whose it is: it counts as the user's.

    Example:
        >>> dropped_checks_refusal(tf.function(lambda x: 2 * x).get_concrete_function(1.0))
        ''
    """
    return _said(traced.graph)


def user_check_names(traced: Any) -> str:
    """The user's own checks in a traced function, by the names of their ops; ``""`` for none."""
    return ", ".join(_checks(traced.graph))


def dropped_checks_refusal_of_fit(model: Any) -> str:
    """The same of all steps of a model that Keras has traced and not let go of.

    Args:
        model: Its variables tell which these are.
    """
    variables = {id(each.value.handle) for each in model.variables}
    graphs = (
        graph
        for graph in find_live_graphs()
        if graph.name == _STEP and any(id(t) in variables for t in graph.external_captures)
    )
    return next(filter(None, map(_said, graphs)), "")


def is_in_keras_step() -> bool:
    """Whether what runs now is traced, and as a part of Keras's own step.

    Example:
        >>> is_in_keras_step()
        False
    """
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    while graph is not None and getattr(graph, "name", "") != _STEP:
        graph = getattr(graph, "outer_graph", None)
    return graph is not None


def _checks(graph: Any) -> list[str]:
    return sorted({*_of_users(graph), *_inside(graph)})


def _said(graph: Any) -> str:
    found = _checks(graph)
    return f"XLA drops the checks of the step: {', '.join(found)}" if found else ""


def _of_users(graph: Any) -> Iterator[str]:
    for op in graph.get_operations():
        kind = "Assert" if _GUARD in op.name else op.type
        if kind in _CHECKS and _is_users(op):
            yield kind


def _inside(graph: Any) -> Iterator[str]:
    for function in graph.as_graph_def().library.function:
        for node in function.node_def:
            if _GUARD in node.name:
                yield "Assert"
            elif node.op in _CHECKS and _GUARD not in function.signature.name:
                yield node.op


def _is_users(op: Any) -> bool:
    for frame in reversed(list(op.traceback or ())):
        path = PurePath(frame.filename)
        made = path.name in _MAKERS or path.name.startswith("gen_")
        if not (made or _PASSED_ON & set(path.parts)):
            return is_user_file(frame.filename)
    return True
