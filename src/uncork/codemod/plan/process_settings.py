"""What a plan sets before the script begins: environment variables and ``mallopt``."""

from __future__ import annotations

from typing import Final

from uncork.codemod.syntax.changes import Changes, Insertion
from uncork.codemod.syntax.script_tree import ScriptTree
from uncork.core.base.errors import EditRefused
from uncork.core.documents.plan import INTRA_OP_THREADS_VARIABLE, Plan
from uncork.core.edits.edit import IntraOpThreads, KeepFreedMemory


def write_intra_op_threads(source: ScriptTree, plan: Plan, edit: IntraOpThreads) -> Changes:
    """Two lines above all imports: TensorFlow reads the variable when it begins.

    Raises:
        EditRefused: The script sets these threads itself.
    """
    del plan
    text = source.module.code
    if INTRA_OP_THREADS_VARIABLE in text or "intra_op_parallelism_threads" in text:
        raise EditRefused("the script sets its threads itself")
    lines = ("import os", f'\nos.environ["{INTRA_OP_THREADS_VARIABLE}"] = "{edit.threads}"')
    return [Insertion(source.first_statement, lines, has_empty_line=True)]


# Whoever runs the script elsewhere may have another C library.
_LINES: Final = (
    "import ctypes",
    "import platform",
    """
if platform.libc_ver()[0] == "glibc":
    libc = ctypes.CDLL(None)
    libc.mallopt(-8, 1)  # M_ARENA_MAX: one, which all threads share
    libc.mallopt(-4, 0)  # M_MMAP_MAX: large pieces come from it, too
    libc.mallopt(-1, -1)  # M_TRIM_THRESHOLD: what is freed is kept""",
)


def write_keep_freed_memory(source: ScriptTree, plan: Plan, edit: KeepFreedMemory) -> Changes:
    """A few lines above all imports: threads keep the arena that they begin with.

    Raises:
        EditRefused: The script sets its allocator itself.
    """
    del plan, edit
    if "mallopt" in source.module.code:
        raise EditRefused("the script sets its allocator itself")
    return [Insertion(source.first_statement, _LINES, has_empty_line=True)]
