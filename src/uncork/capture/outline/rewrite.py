"""A training step that stands in the loop itself, made a function before the script runs.

Introductions write it so: ``for x, y in dataset:``, a gradient tape, the gradients, the update.
Such a step runs op by op, and nothing can be put in its place, for it has no name. So its
statements are moved into a function: what they read becomes its arguments, and what is read of
theirs later its results. They keep their lines. Where it is not plain that the function does what
they did, they stay where they are.

Only the tree is changed, on its way from the file to the interpreter. AutoGraph reads functions
from the file, and knows nothing of this.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from uncork.capture.outline.inline_steps import InlineStep, find_inline_steps
from uncork.pycode.frames.stack import OUTLINED_STEP_PREFIX

_FUTURE: Final = "__future__"


def outline_inline_steps(tree: ast.Module) -> ast.Module:
    r"""The tree with each such step as a function of its own; the same object where there is none.

    The given tree is used up.

    Example:
        >>> tree = ast.parse('''
        ... for x, y in dataset:
        ...     with tf.GradientTape() as tape:
        ...         loss = loss_of(y, model(x))
        ...     optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        ...     print(loss)
        ... ''')
        >>> print(ast.unparse(outline_inline_steps(tree)))
        def _inline_step_1(y, x):
            with tf.GradientTape() as tape:
                loss = loss_of(y, model(x))
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
            return loss
        for x, y in dataset:
            loss = _inline_step_1(y, x)
            print(loss)
    """
    steps = find_inline_steps(tree)
    functions = [
        _moved(step, f"{OUTLINED_STEP_PREFIX}{number}") for number, step in enumerate(steps, 1)
    ]
    at = _behind_future(tree.body)
    tree.body[at:at] = functions
    return tree


def _moved(step: InlineStep, name: str) -> ast.stmt:
    """The function; in the place of the statements stands a call of it.

    Args:
        step: Those.
        name: Of the function. It says nothing of lines: a plan knows the step by its code, also
            where something was added above it.
    """
    statements = step.body[step.start : step.end]
    first, last = statements[0], statements[-1]
    call = f"{name}({', '.join(step.argument_names)})"
    if step.result_names:
        call = f"{', '.join(step.result_names)} = {call}"
    step.body[step.start : step.end] = [_placed(call, first)]
    function = _placed(f"def {name}({', '.join(step.argument_names)}):\n pass", first)
    assert isinstance(function, ast.FunctionDef)
    function.body = statements
    if step.result_names:
        outer = ast.parse(f"def f():\n return {', '.join(step.result_names)}").body[0]
        assert isinstance(outer, ast.FunctionDef)
        function.body = [*statements, _at(outer.body[0], last)]
    return function


def _placed(code: str, where: ast.stmt) -> ast.stmt:
    return _at(ast.parse(code).body[0], where)


def _at(statement: ast.stmt, where: ast.stmt) -> ast.stmt:
    """As if it stood on the first line of another one."""
    for node in ast.walk(statement):
        if "lineno" in node._attributes:
            ast.copy_location(node, where)
            node.end_lineno = where.lineno  # type: ignore[attr-defined]
            node.end_col_offset = where.col_offset  # type: ignore[attr-defined]
    return statement


def _behind_future(body: Sequence[ast.stmt]) -> int:
    """Where the first statement may stand that is neither the docstring nor of ``__future__``."""
    at = 0
    for number, statement in enumerate(body):
        text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        future = isinstance(statement, ast.ImportFrom) and statement.module == _FUTURE
        if future or (number == 0 and text):
            at = number + 1
    return at
