"""Caches that take long to fill are tried with a part of the data.

A trial reads the cache that it is about, again for each version that has it, and so do fresh
processes. Where that takes more than some seconds each time, a tuning would do nothing else.
"""

from __future__ import annotations

import time
from dataclasses import replace as replace_fields
from typing import Final
from weakref import WeakKeyDictionary

from uncork.engine.version import Version
from uncork.pipeline import Pipeline, read, shortened, state_kept

# Seconds that filling may take, and the most in which it is seen how long it does.
_MOST_S: Final = 12.0
_LOOK_S: Final = 1.5
# Of the data: nearly all of them may as well be all.
_LARGEST: Final = 0.7


class ShorterData:
    """Gives versions a part of their data, where these are many.

    What a pass keeps is repeated, so epochs are about as long as they were.

    Args:
        notes: Gets a line when it was necessary.
    """

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes
        self._seconds: dict[str, float] = {}
        self._shorter: WeakKeyDictionary[Pipeline, Pipeline | None] = WeakKeyDictionary()

    def of(self, version: Version) -> Version:
        """The version, on as much as its caches can keep in a while."""
        pipeline = version.pipeline
        if pipeline is None:
            return version
        if pipeline not in self._shorter:
            self._shorter[pipeline] = self._made(pipeline)
        shorter = self._shorter[pipeline]
        return version if shorter is None else replace_fields(version, pipeline=shorter)

    def share(self, version: Version) -> float:
        """Of the data, what the version is given."""
        pipeline = version.pipeline
        shorter = None if pipeline is None else self.of(version).pipeline
        if pipeline is None or shorter is None or shorter is pipeline:
            return 1.0
        kept = [_kept(each) for each in (shorter, pipeline)]
        return kept[0] / kept[1]

    def _made(self, pipeline: Pipeline) -> Pipeline | None:
        seconds = max((self._to_fill(branch, at) for branch, at in pipeline.places), default=0.0)
        share = _MOST_S / seconds if seconds else 1.0
        shorter = shortened(pipeline, share, repeated=True) if share < _LARGEST else None
        if shorter is not None:
            note = (
                f"filling the cache takes some {seconds:.0f} s: it was tried with a part of the "
                "data, again and again"
            )
            if not any(each.startswith("filling the cache") for each in self._notes):
                self._notes.append(note)
        return shorter

    def _to_fill(self, branch: Pipeline, position: int) -> float:
        """Seconds until a stage keeps all that it is given; 0 where it keeps nothing."""
        node = branch.stages[position]
        elements = int(node.dataset.cardinality())
        if node.kind != "cache" or not node.in_memory or elements < 1:
            return 0.0
        options = branch.outermost.options  # those of the whole hold for what it is made from
        below = read(node.inputs[0].dataset.with_options(options))
        if below.digest not in self._seconds:
            self._seconds[below.digest] = seconds_of(below, elements)
        return self._seconds[below.digest]


def _kept(pipeline: Pipeline) -> int:
    """Elements of the caches."""
    caches = [place.node for place in pipeline.places if place.node.kind == "cache"]
    return sum(max(0, int(each.dataset.cardinality())) for each in caches)


def seconds_of(pipeline: Pipeline, elements: int) -> float:
    """How long one pass takes, as far as a moment tells.

    Args:
        pipeline: Variables that its functions change are put back.
        elements: That it has.
    """
    begin = time.perf_counter()
    half = before = 0.0
    with state_kept(pipeline):
        for number, _ in enumerate(pipeline.dataset, 1):
            now = time.perf_counter() - begin
            if not half and now >= _LOOK_S / 2:  # it has got going by then
                half, before = now, number
            if now >= _LOOK_S and number > before:
                return now + (elements - number) * (now - half) / (number - before)
    return time.perf_counter() - begin
