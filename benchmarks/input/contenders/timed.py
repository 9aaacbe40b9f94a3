"""What all contenders share: the files, and how epochs are timed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

BATCH = 32
SIDE = 224


def files() -> list[str]:
    """The photographs, in a fixed order."""
    return sorted(str(path) for path in Path(sys.argv[1]).glob("**/*.jpg"))


def run(epoch: Callable[[int], Iterable[int]], *, prepared_s: float = 0.0) -> None:
    """Time epochs and print them.

    Args:
        epoch: Gives an iterable over the sizes of the batches of the n-th epoch.
        prepared_s: Seconds spent before the first one, where that is worth telling.
    """
    rates, cpu_s = [], []
    for number in range(int(sys.argv[2])):
        begin, cpu = time.perf_counter(), time.process_time()
        images = sum(epoch(number))
        rates.append(images / (time.perf_counter() - begin))
        cpu_s.append((time.process_time() - cpu) / images)
    print(json.dumps({"images_per_s": rates, "cpu_s": cpu_s, "prepared_s": prepared_s}))
