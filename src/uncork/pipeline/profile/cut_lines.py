"""Between which statements of a map function its graph is cut in two."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from uncork.pipeline.functions.splitting import MapSplit
from uncork.pipeline.ir.node import Node
from uncork.pipeline.profile.op_costs import user_ops
from uncork.pycode.frames.stack import format_location, is_user_file


def find_cut_lines(node: Node, split: MapSplit) -> tuple[str | None, str | None]:
    """The last line of the function in its first part, and the first line in the other.

    The first part may end below where the other begins: then no place in the source parts them.

    Args:
        node: A map.
        split: Where its graph is cut.

    Returns:
        ``file.py:line`` twice; None where an op of a part has no line of the function.
    """
    ops = {op.name: op for op in user_ops(node)}
    before, after = split.working_ops
    lines = [_lines((ops[n] for n in part if n in ops), node.name) for part in (before, after)]
    if not all(lines) or len({file for part in lines for file, _ in part}) != 1:
        return None, None
    return format_location(*max(lines[0])), format_location(*min(lines[1]))


def _lines(ops: Iterable[Any], name: str) -> set[tuple[str, int]]:
    """Lines of the function of this name, outermost frame of each op."""
    found = set()
    for op in ops:
        frames = (f for f in op.traceback or () if f.name == name and is_user_file(f.filename))
        frame = next(frames, None)
        if frame is not None:
            found.add((frame.filename, frame.lineno))
    return found
