"""Small questions about input pipelines that several parts of the engine ask."""

from __future__ import annotations

import math
import time
from typing import Final

import tensorflow as tf

from uncork.pipeline.ir.python_functions import has_memoized_python
from uncork.pipeline.ir.tree import Pipeline

# Seconds to wait for the end of a dataset that may be infinite, a generator's for one.
MAX_FILL_S: Final = 60.0


def fill_caches(pipeline: Pipeline, max_s: float = math.inf) -> bool:
    """Read each cache once to its end, so that what follows measures later epochs.

    A cache keeps what it read only when its first pass was complete. One of unknown length may
    never be, in a trial as in the user's training, so its filling is given up after a while; so is
    that of one of the user's in files, which may be larger than anybody would wait for.

    Args:
        pipeline: With or without caches.
        max_s: Seconds for each cache, whatever is known of it.

    Returns:
        False where one was given up.
    """
    filled = True
    for node in (place.node for place in pipeline.stage_locations):
        cardinality = int(node.dataset.cardinality())
        is_cache = node.kind == "cache" and not node.is_complete_file_cache
        fillable = is_cache or has_memoized_python(node)
        if fillable and cardinality != tf.data.INFINITE_CARDINALITY:
            in_files = is_cache and not (node.is_memory_cache or node.uncork_cache_files)
            known = not in_files and cardinality != tf.data.UNKNOWN_CARDINALITY
            limit_s = min(max_s, math.inf if known else MAX_FILL_S)
            deadline = time.monotonic() + limit_s
            for _ in node.dataset:
                if time.monotonic() > deadline:
                    filled = False
                    break
    return filled
