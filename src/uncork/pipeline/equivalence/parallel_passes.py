"""Two pipelines read at the same time, where neither can notice the other."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from uncork.pipeline.equivalence.seeded_twin import pipeline_variables
from uncork.pipeline.ir.python_functions import has_python_code
from uncork.pipeline.ir.tree import Pipeline

A = TypeVar("A")
B = TypeVar("B")


def are_independent(*pipelines: Pipeline) -> bool:
    """Whether these may be read at the same time: all that they change is their own.

    They run no Python, which may share anything; their functions know no variables; and their
    caches lie in memory.
    """
    return all(not pipeline_variables(each) and _owns_its_stages(each) for each in pipelines)


def _owns_its_stages(pipeline: Pipeline) -> bool:
    nodes = [place.node for place in pipeline.stage_locations]
    return not any(
        has_python_code(node) or (node.kind == "cache" and not node.is_memory_cache)
        for node in nodes
    )


def read_both(first: Callable[[], A], second: Callable[[], B], *, parallel: bool) -> tuple[A, B]:
    """Call both; at the same time where that is allowed and there are cores for it.

    A pipeline that the script reads serially keeps one core busy, so on two of them both take no
    longer than one.

    Raises:
        Exception: What one of them raised, once both have ended.

    Example:
        >>> read_both(lambda: 1, lambda: "a", parallel=True)
        (1, 'a')
    """
    if not parallel or (os.cpu_count() or 1) < 2:
        return first(), second()
    with ThreadPoolExecutor(max_workers=1) as pool:
        other = pool.submit(first)
        found = second()
        return other.result(), found
