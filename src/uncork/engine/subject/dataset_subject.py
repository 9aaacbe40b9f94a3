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
from uncork.engine.subject.data_subset import DataSubset
from uncork.engine.subject.subject import Subject
from uncork.measure.benchmark.interleave import Block
from uncork.measure.benchmark.timed_block import time_block
from uncork.pipeline.analysis.passes import has_default_rewrites
from uncork.pipeline.runtime.cache_fill import fill_caches
from uncork.pipeline.runtime.trial_copy import create_trial_copy
from uncork.pipeline.transforms.disk_cache import drop_cache_files_from_memory
from uncork.training.input.feed import count_batch_samples, spec_text
from uncork.training.variant import Variant, VariantRunner


class _DatasetRunner(VariantRunner):
    def __init__(self, variant: Variant | None, dataset: Any, samples: float) -> None:
        self._version = variant
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
            drop_cache_files_from_memory(self._version.pipeline)
        return time_block(self._batches(), seconds, self._samples)

    def _batches(self) -> Iterator[int]:
        while True:
            empty = True
            for _ in self._dataset:
                empty = False
                yield 1
            if empty:
                raise NothingToMeasure("a pass has no element", "at least one element", "check it")


class DatasetSubject(Subject):
    """Measures and compares versions of one pipeline that nothing consumes.

    Args:
        dataset: The user's.
        epochs: How often it will be read; a cache pays from the second time on.
        at: ``file.py:line`` of the call.
        scratch: Directory for files that a trial would otherwise write into the user's.
    """

    def __init__(self, dataset: Any, *, epochs: int, at: str, scratch: str) -> None:
        pipeline = create_trial_copy(dataset, scratch)
        assert pipeline is not None
        self.notes = []
        self.original = Variant(pipeline)
        self.data_subset = DataSubset(self.notes)
        self._batch = next(iter(pipeline.dataset), None)
        if self._batch is None:
            raise NothingToMeasure("the dataset is empty", "at least one element", "check it")
        self.workload = Workload(
            index=0,
            at=at,
            kind="custom_loop",
            data_kind="tf.data",
            model=None,
            element_spec=spec_text(pipeline.element_spec),
            batch_size=count_batch_samples(self._batch),
            steps_per_epoch=pipeline.cardinality if pipeline.cardinality >= 0 else None,
            epochs=epochs,
            pipeline_digest=pipeline.digest,
            has_default_rewrites=has_default_rewrites(pipeline),
        )

    def runner(self, variant: Variant) -> VariantRunner:
        """Reads the version's batches and drops them."""
        variant = self.with_less_data(variant)
        return _DatasetRunner(variant, self.batches_dataset(variant), self._samples)

    def resident_runner(self, variant: Variant) -> VariantRunner:
        """Reads one batch over and over: what iterating costs by itself."""
        del variant
        dataset = tf.data.Dataset.from_tensors(self._batch).repeat()
        return _DatasetRunner(None, dataset, self._samples)

    def prove_step(self, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """Never asked: there is no step."""
        raise NotImplementedError("a dataset has no training step")

    def restore(self) -> None:
        """Nothing was changed."""

    @property
    def _samples(self) -> float:
        return float(self.workload.batch_size or 1)
