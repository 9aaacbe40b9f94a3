"""``os.environ["TF_NUM_INTRAOP_THREADS"]`` at the top: what the plan starts the process with."""

from __future__ import annotations

import libcst as cst

from uncork.core.edit import IntraOpThreads
from uncork.core.errors import EditRefused
from uncork.core.plan import INTRA_OP_THREADS, Plan
from uncork.source.changes import Changes, Insertion
from uncork.source.tree import Source


def intra_op_threads(source: Source, plan: Plan, edit: IntraOpThreads) -> Changes:
    """Two lines above all imports: TensorFlow reads the variable when it begins.

    Raises:
        EditRefused: The script sets these threads itself.
    """
    del plan
    text = source.module.code
    if INTRA_OP_THREADS in text or "intra_op_parallelism_threads" in text:
        raise EditRefused("the script sets its threads itself")
    body = [s for s in source.module.body if not _must_be_first(s)]
    lines = ("import os", f'\nos.environ["{INTRA_OP_THREADS}"] = "{edit.threads}"')
    return [Insertion(body[0], lines, apart=True)]


def _must_be_first(statement: cst.BaseStatement) -> bool:
    """The script's docstring, and what it takes ``from __future__``."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    first = statement.body[0]
    if isinstance(first, cst.ImportFrom):
        return isinstance(first.module, cst.Name) and first.module.value == "__future__"
    return isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString)
