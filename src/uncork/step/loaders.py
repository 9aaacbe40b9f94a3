"""Python loaders as stages: what one batch costs, and where the user wrote it."""

from __future__ import annotations

import inspect
import itertools
import os
import time
from pathlib import Path
from typing import Any, Final

from uncork.core.stage import Stage
from uncork.step.feed import Feed

# Batches made to time a loader; the first one is not counted, it opens files and warms caches.
_BATCHES: Final = 6


def loader_stages(feed: Feed) -> tuple[Stage, ...]:
    """The stage behind a feed that is no tf.data pipeline; empty for plain arrays.

    Args:
        feed: Of the training; a ``PyDataset`` is asked for some of its batches.
    """
    if feed.kind != "pydataset":
        return ()
    cpu_s, wall_s = _cost(feed.x)
    workers = int(getattr(feed.x, "workers", 1) or 1)
    return (
        Stage(
            index=0,
            kind="pydataset",
            at=_line(type(feed.x)),
            name=type(feed.x).__name__,
            cpu_s_per_element=cpu_s,
            wall_s_per_element=wall_s,
            elements_per_step=1.0,
            parallelism=workers if workers > 1 else 1,
            random=True,
            python=True,
        ),
    )


def _cost(dataset: Any) -> tuple[float, float]:
    """CPU and elapsed seconds of one batch."""
    length = dataset.num_batches
    indices = itertools.islice(itertools.cycle(range(length or _BATCHES + 1)), _BATCHES + 1)
    dataset[next(indices)]
    cpu, begin = time.process_time(), time.perf_counter()
    for index in indices:
        dataset[index]
    return (time.process_time() - cpu) / _BATCHES, (time.perf_counter() - begin) / _BATCHES


def _line(kind: Any) -> str | None:
    """``file.py:line`` of the method that makes a batch."""
    try:
        path = inspect.getsourcefile(kind.__getitem__)
        line = inspect.getsourcelines(kind.__getitem__)[1]
    except (OSError, TypeError, AttributeError):
        return None
    if path is None:
        return None
    shown = os.path.relpath(path)
    return f"{path if shown.startswith('..') else Path(shown)}:{line}"
