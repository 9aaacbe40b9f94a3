"""What in a script keeps its statements from being moved, as far as names tell."""

from __future__ import annotations

import ast
from typing import Final

# Who uses one of these may see which names there are; of some only without arguments.
_LOOK_AT_NAMES: Final = frozenset(
    {"globals", "locals", "eval", "exec", "breakpoint", "__main__", "currentframe"}
    | {"_getframe", "f_locals", "f_globals", "set_trace", "embed"}
)
_LOOK_WITHOUT: Final = frozenset({"vars", "dir"})
# Ends of what a ``with`` is given that lets errors pass.
_LET_PASS: Final = frozenset(
    {"GradientTape", "device", "name_scope", "scope", "as_default", "control_dependencies", "open"}
    | {"record_summaries_every_n_global_steps", "record_if", "Trace", "Profile", "tqdm", "trange"}
    | {"stop_recording", "init_scope", "no_grad", "catch_warnings"}
)


def can_inspect_names(tree: ast.AST) -> bool:
    """Whether code may see which names there are, and not only by naming them.

    Example:
        >>> [can_inspect_names(ast.parse(text)) for text in ("vars(args)", "vars()", "import pdb")]
        [False, True, False]
    """
    plain = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args}
    for node in ast.walk(tree):
        names: list[str] = []
        match node:
            case ast.Name(id=name) if name not in _LOOK_WITHOUT or id(node) not in plain:
                names = [name]
            case ast.Attribute(attr=name):
                names = [name] if name in _LOOK_AT_NAMES - {"eval", "exec"} else []
            case ast.Import() | ast.ImportFrom():
                names = [alias.name for alias in node.names]
            case ast.Call(
                func=ast.Attribute(attr="query" | "eval"), args=[ast.Constant(value=str(t))]
            ):
                names = ["eval"] if "@" in t else []
        if (_LOOK_AT_NAMES | _LOOK_WITHOUT).intersection(names):
            return True
    return False


def can_suppress_errors(statement: ast.With) -> bool:
    """Whether an error in a block may end with it, as far as the names of its managers tell."""
    return not all(_last(item.context_expr) in _LET_PASS for item in statement.items)


def _last(manager: ast.expr) -> str:
    called = manager.func if isinstance(manager, ast.Call) else manager
    return str(getattr(called, "attr", getattr(called, "id", "")))
