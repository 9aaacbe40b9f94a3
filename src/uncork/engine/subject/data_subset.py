"""Caches that take long to fill are tried with a part of the data.

A trial reads the cache that it is about, again for each version that has it, and so do fresh
processes. Where that takes more than some seconds each time, a tuning would do nothing else.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace as replace_fields
from typing import Final
from weakref import WeakKeyDictionary

from uncork.pipeline.equivalence.seeded_twin import preserve_state
from uncork.pipeline.ir.tree import Pipeline, read_pipeline
from uncork.pipeline.runtime.subset import take_every_nth
from uncork.training.variant import Variant

# Seconds that filling may take, and the most in which it is seen how long it does.
_MOST_S: Final = 6.0
_LOOK_S: Final = 1.5
_NOTE: Final = "filling the cache"
_ALL_AT_ONCE: Final = frozenset({"shuffle", "prefetch"})


class DataSubset:
    """Gives versions a part of their data, where these are many.

    What a pass keeps is repeated, so epochs are about as long as they were.

    Args:
        notes: Gets a line when it was necessary.
    """

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes
        self._seconds: dict[tuple[str, int], float] = {}
        self._shorter: WeakKeyDictionary[Pipeline, Pipeline | None] = WeakKeyDictionary()

    def subset_of(self, variant: Variant) -> Variant:
        """The version, on as much as its caches can keep in a while."""
        pipeline = variant.pipeline
        if pipeline is None:
            return variant
        if pipeline not in self._shorter:
            self._shorter[pipeline] = self._made(pipeline)
        shorter = self._shorter[pipeline]
        return variant if shorter is None else replace_fields(variant, pipeline=shorter)

    def kept_share(self, variant: Variant) -> float:
        """Of what is kept, the part that the version as it is tried keeps."""
        pipeline, shorter = variant.pipeline, self.subset_of(variant).pipeline
        if pipeline is None or shorter is None or shorter is pipeline:
            return 1.0
        return _kept(shorter) / _kept(pipeline)

    def _made(self, pipeline: Pipeline) -> Pipeline | None:
        seconds = sum(self._to_fill(branch, at) for branch, at in pipeline.stage_locations)
        parts = math.ceil(seconds / _MOST_S)
        shorter = take_every_nth(pipeline, parts, is_repeated=True) if parts > 1 else None
        if shorter is None or not _is_part(shorter, pipeline, parts):
            return None
        if not any(each.startswith(_NOTE) for each in self._notes):
            self._notes.append(
                f"{_NOTE} takes about {seconds:.0f} s: Uncork tried it with one element in "
                f"{parts}, "
                "repeatedly"
            )
        return shorter

    def _to_fill(self, branch: Pipeline, position: int) -> float:
        """Seconds until a stage keeps all that it is given; 0 where it keeps nothing."""
        node = branch.stages[position]
        elements = int(node.dataset.cardinality())
        if node.kind != "cache" or not node.is_memory_cache or elements < 1:
            return 0.0
        below = node.inputs[0]
        while below.kind in _ALL_AT_ONCE and below.inputs:
            below = below.inputs[0]  # their first element comes when many were made
        options = branch.outermost.options  # those of the whole hold for what it is made from
        made_from = read_pipeline(below.dataset.with_options(options))
        key = made_from.digest, elements
        if key not in self._seconds:
            self._seconds[key] = estimate_pass_s(made_from, elements)
        return self._seconds[key]


def _is_part(shorter: Pipeline, pipeline: Pipeline, parts: int) -> bool:
    """Whether about as much is left as was to be, in batches, too: filters may see to another."""
    kept = _kept(shorter) * parts / max(1, _kept(pipeline))
    return 0.5 <= kept <= 2.0 and shorter.cardinality != 0


def _kept(pipeline: Pipeline) -> int:
    """Elements of the caches."""
    caches = [place.node for place in pipeline.stage_locations if place.node.kind == "cache"]
    return sum(max(0, int(each.dataset.cardinality())) for each in caches)


def estimate_pass_s(pipeline: Pipeline, elements: int) -> float:
    """How long one pass takes, as far as a moment tells.

    Args:
        pipeline: Variables that its functions change are put back.
        elements: That it has.
    """
    begin = time.perf_counter()
    half = before = 0.0
    with preserve_state(pipeline):
        for number, _ in enumerate(pipeline.dataset, 1):
            now = time.perf_counter() - begin
            if not half and now >= _LOOK_S / 2:  # it has got going by then
                half, before = now, number
            if now >= _LOOK_S and number > before:
                return now + (elements - number) * (now - half) / (number - before)
    return time.perf_counter() - begin
