"""A ``tf.data`` pipeline by itself under examination: how fast it gives batches to anyone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from uncork.core.base.errors import NothingToMeasure
from uncork.core.documents.plan import Proof
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Guarantee
from uncork.engine.subject.data_subset import ShorterData
from uncork.engine.subject.subject import Subject
from uncork.measure.benchmark.interleave import Block
from uncork.measure.benchmark.timed_block import timed
from uncork.pipeline.analysis.passes import default_rewrites
from uncork.pipeline.runtime.cache_fill import fill_caches
from uncork.pipeline.runtime.trial_copy import readable
from uncork.pipeline.transforms.disk_cache import from_disk
from uncork.training.input.feed import batch_samples, spec_text
from uncork.training.variant import Version, VersionRunner


class _DatasetRunner(VersionRunner):
    def __init__(self, version: Version | None, dataset: Any, samples: float) -> None:
        self._version = version
        self._dataset = dataset
        self._samples = samples

    def prime(self) -> float:
        begin = time.perf_counter()
        if self._version is not None and self._version.pipeline is not None:
            fill_caches(self._version.pipeline)
        return time.perf_counter() - begin

    def first_epoch(self, limit_s: float) -> float | None:
        return None

    def block(self, seconds: float) -> Block:
        if self._version is not None:
            from_disk(self._version.pipeline)
        return timed(self._batches(), seconds, self._samples)

    def _batches(self) -> Iterator[int]:
        while True:
            empty = True
            for _ in self._dataset:
                empty = False
                yield 1
            if empty:
                raise NothingToMeasure("a pass gave nothing", "at least one element", "check it")


class DatasetSubject(Subject):
    """Measures and compares versions of one pipeline that nothing consumes.

    Args:
        dataset: The user's.
        epochs: How often it will be read; a cache pays from the second time on.
        at: ``file.py:line`` of the call.
        scratch: Directory for files that a trial would otherwise write into the user's.
    """

    def __init__(self, dataset: Any, *, epochs: int, at: str, scratch: str) -> None:
        pipeline = readable(dataset, scratch)
        assert pipeline is not None
        self.notes = []
        self.original = Version(pipeline)
        self.shorter = ShorterData(self.notes)
        self._batch = next(iter(pipeline.dataset), None)
        if self._batch is None:
            raise NothingToMeasure("the dataset is empty", "at least one element", "check it")
        self.workload = Workload(
            index=0,
            at=at,
            kind="custom_loop",
            data="tf.data",
            model=None,
            element_spec=spec_text(pipeline.element_spec),
            batch_size=batch_samples(self._batch),
            steps_per_epoch=pipeline.cardinality if pipeline.cardinality >= 0 else None,
            epochs=epochs,
            pipeline=pipeline.digest,
            default_rewrites=default_rewrites(pipeline),
        )

    def runner(self, version: Version) -> VersionRunner:
        """Reads the version's batches and drops them."""
        version = self.on_part(version)
        return _DatasetRunner(version, self.supply(version), self._samples)

    def resident(self, version: Version) -> VersionRunner:
        """Reads one batch over and over: what iterating costs by itself."""
        del version
        dataset = tf.data.Dataset.from_tensors(self._batch).repeat()
        return _DatasetRunner(None, dataset, self._samples)

    def prove_step(self, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Never asked: there is no step."""
        raise NotImplementedError("a dataset has no training step")

    def restore(self) -> None:
        """Nothing was changed."""

    @property
    def _samples(self) -> float:
        return float(self.workload.batch_size or 1)
