"""Steps of a ``fit``, as the engine runs any version: caches first, then compiled, then timed."""

from __future__ import annotations

import time
from dataclasses import dataclass

from uncork.measure.benchmark.interleave import Block
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.runtime.cache_fill import MAX_FILL_S, fill_caches
from uncork.pipeline.transforms.disk_cache import drop_cache_files_from_memory
from uncork.training.input.loader_edits import fill_loader
from uncork.training.run.fit_runner import FitRunner
from uncork.training.variant import VariantRunner


@dataclass
class PrimedRunner(VariantRunner):
    """A :class:`FitRunner` whose caches are filled before it is compiled."""

    runner: FitRunner
    pipeline: Pipeline | None
    keeps_batches: bool = False

    def prime(self) -> float:
        """Fill caches, then compile; seconds it took."""
        begin = time.perf_counter()
        if self.pipeline is not None:
            fill_caches(self.pipeline)
        if self.keeps_batches:
            fill_loader(self.runner.feed.x, MAX_FILL_S)
        self.runner.prime()
        return time.perf_counter() - begin

    def first_epoch(self, limit_s: float) -> float | None:
        """Seconds of one epoch from here; None past the limit."""
        return self.runner.first_epoch(limit_s)

    def block(self, seconds: float) -> Block:
        """Time steps for about ``seconds``, files of caches read from the disk."""
        drop_cache_files_from_memory(self.pipeline)
        return self.runner.block(seconds)
