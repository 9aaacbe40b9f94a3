"""``os.environ["TF_NUM_INTRAOP_THREADS"]`` at the top: what the plan starts the process with."""

from __future__ import annotations

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
    lines = ("import os", f'\nos.environ["{INTRA_OP_THREADS}"] = "{edit.threads}"')
    return [Insertion(source.first, lines, apart=True)]
