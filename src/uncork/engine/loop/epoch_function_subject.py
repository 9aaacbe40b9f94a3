"""A loop inside a ``tf.function`` under examination: ``train_epoch(dataset)``.

The function is the user's own and is called as it is, with another dataset in the place of his.
Python does nothing between its steps, so there is nothing to take over: how many steps a call made
is told by the dataset. The run is thrown away.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Final, final

import numpy as np
import tensorflow as tf

from uncork.capture.base.listener import StepCall
from uncork.capture.hooks.dataset_arguments import find_datasets, replace_datasets
from uncork.compat.tf.eager_context import async_wait
from uncork.core.base.errors import NothingToMeasure
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Guarantee
from uncork.engine.subject.data_subset import DataSubset
from uncork.engine.subject.subject import Subject
from uncork.engine.subject.workload_summary import (
    assumed_epochs_notes,
    startup_lines_of,
    summarize_step_loop,
)
from uncork.measure.benchmark.interleave import Block
from uncork.measure.benchmark.page_faults import page_fault_s_since, take_memory_snapshot
from uncork.measure.benchmark.timed_block import WARMUP_SHARE
from uncork.pipeline.analysis.passes import has_default_rewrites
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.runtime.cache_fill import fill_caches
from uncork.pipeline.runtime.trial_copy import create_trial_copy
from uncork.pipeline.transforms.disk_cache import drop_cache_files_from_memory
from uncork.training.input.feed import count_batch_samples, spec_text
from uncork.training.input.resident_batches import collect_resident_batches
from uncork.training.inspect.replicas import replica_count
from uncork.training.variant import Variant, VariantRunner

# Steps that are enough to trace the function, to start what runs beside it, and to tell its pace.
_WARM: Final = 4
_FIRST: Final = 8
# A call starts an iterator; so many steps at least, and that costs each of them little.
_LEAST: Final = 16
# Of a block that its pace was misjudged for, what is enough.
_ENOUGH: Final = 0.5


@final
class EpochFunctionRunner(VariantRunner):
    """Calls the function with as many batches as a block takes, or with whole epochs.

    Args:
        train: Calls the function with a dataset.
        dataset: What it shall train on.
        samples: Of one step.
        pipeline: Where the batches come from; None for resident ones.
    """

    def __init__(
        self,
        train: Callable[[Any], Any],
        dataset: Any,
        samples: float,
        pipeline: Pipeline | None = None,
    ) -> None:
        self._train = train
        self._clock = _Clock()
        self._dataset = self._clock.counting(dataset)
        self._samples = samples
        self._pipeline = pipeline
        self._length = None if pipeline is None else pipeline.cardinality
        self._step_s = 0.0

    def prime(self) -> float:
        """Fill caches, trace the function, and learn how long a step takes."""
        begin = time.perf_counter()
        if self._pipeline is not None:
            fill_caches(self._pipeline)
        self._call(self._dataset.take(1), warm=0)
        self._part(_WARM, _FIRST)
        return time.perf_counter() - begin

    def first_epoch(self, limit_s: float) -> float | None:
        """None: once it has begun, it cannot be cut short."""
        del limit_s
        return None

    def block(self, seconds: float) -> Block:
        """Whole epochs where they are short; otherwise a part of one, its start left out."""
        if not self._step_s:
            self.prime()
        drop_cache_files_from_memory(self._pipeline)
        if self._length and 0 < self._length * self._step_s <= seconds:
            return self._epochs(seconds)
        found = self._part(*self._steps_in(seconds))
        if found.wall_s < _ENOUGH * seconds:
            found = self._part(*self._steps_in(seconds))
        return found

    def _epochs(self, seconds: float) -> Block:
        found = self._call(self._dataset, warm=0)
        while found.wall_s < seconds:
            found = _together(found, self._call(self._dataset, warm=0))
        return found

    def _part(self, warm: int, steps: int) -> Block:
        found = self._call(self._dataset.repeat().take(warm + steps), warm=warm)
        self._step_s = found.wall_s / found.steps
        return found

    def _steps_in(self, seconds: float) -> tuple[int, int]:
        """Of the warm-up, and timed."""
        steps = math.ceil(seconds / max(1e-6, self._step_s))
        return max(_WARM, math.ceil(WARMUP_SHARE * steps)), max(_LEAST, steps)

    def _call(self, dataset: Any, *, warm: int) -> Block:
        self._clock.start(warm)
        started, held = time.perf_counter(), take_memory_snapshot()
        self._train(dataset)
        async_wait()
        steps, begin, wall_s, cpu_s = self._clock.read()
        if not steps:
            raise NothingToMeasure("the dataset is empty", "at least one batch", "check it")
        return Block(
            steps=steps,
            samples=steps * self._samples,
            wall_s=wall_s,
            cpu_s=cpu_s,
            warmup_s=begin - started,
            page_fault_s=page_fault_s_since(held) * steps / (steps + warm),
        )


class _Clock:
    """Counts the elements that a dataset hands out, and begins to time after some of them."""

    def __init__(self) -> None:
        with tf.device("CPU:0"):
            self._count = tf.Variable(0, dtype=tf.int64, trainable=False)
            self._mark = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._warm = 0
        self._began = (0.0, 0.0)

    def counting(self, dataset: Any) -> Any:
        """The same elements, of the same spec."""
        is_tuple = type(dataset.element_spec) is tuple

        def count(*element: Any) -> Any:
            begins = self._count.assign_add(1) == self._mark
            # In Python, but for one element of a call.
            tf.cond(begins, lambda: tf.numpy_function(self._begin, [], tf.int64), _nothing)
            return element if is_tuple else element[0]

        return dataset.map(count)

    def start(self, warm: int) -> None:
        """Before a call: time it from its beginning, or once so many elements are handed out."""
        self._warm = warm
        self._count.assign(0)
        self._mark.assign(warm)
        self._begin()

    def read(self) -> tuple[int, float, float, float]:
        """Steps that were timed, when that began, elapsed and CPU seconds since."""
        now, (begin, cpu) = _clocks(), self._began
        return int(self._count) - self._warm, begin, now[0] - begin, now[1] - cpu

    def _begin(self) -> Any:
        self._began = _clocks()
        return np.int64(0)


@final
class EpochFunctionSubject(Subject):
    """Measures and compares input pipelines under a function that trains on a whole dataset.

    Args:
        call: Of the function; one of its arguments is a dataset.
        epochs: How often it is called; None where more than once, and nobody knows how often.
        scratch: Directory for files that a trial would otherwise write into the user's.
    """

    ends_process = True

    def __init__(self, call: StepCall, *, epochs: int | None, scratch: str) -> None:
        self.notes = [
            *assumed_epochs_notes(epochs),
            "the loop is in a tf.function: each measurement calls it, and reads its data from "
            "the start",
        ]
        self.layers = call.layers
        self.startup_lines = startup_lines_of(call, epochs)
        self.has_known_epochs = epochs is not None
        self._call = call
        dataset = single_dataset_of(call)
        pipeline = create_trial_copy(dataset, scratch)
        assert pipeline is not None
        self.original = Variant(pipeline)
        self.data_subset = DataSubset(self.notes)
        batches = collect_resident_batches(pipeline.dataset)
        if not batches:
            raise NothingToMeasure("the dataset is empty", "at least one batch", "check it")
        self._held = len(batches)
        self.workload = replace(
            summarize_step_loop(call, epochs),
            data_kind="tf.data",
            element_spec=spec_text(pipeline.element_spec),
            batch_size=count_batch_samples(batches[0]),
            steps_per_epoch=pipeline.cardinality if pipeline.cardinality >= 0 else None,
            pipeline_digest=pipeline.digest,
            has_default_rewrites=has_default_rewrites(pipeline),
        )

    def runner(self, variant: Variant) -> VariantRunner:
        """The user's function on this version's batches."""
        variant = self.with_less_data(variant)
        assert variant.pipeline is not None
        dataset = variant.pipeline.dataset
        return EpochFunctionRunner(self._train, dataset, self._samples, variant.pipeline)

    def resident_runner(self, variant: Variant) -> VariantRunner:
        """The user's function on the same batches over and over.

        They come from the pipeline: of another element spec, the function would be traced anew.
        """
        assert variant.pipeline is not None
        kept = variant.pipeline.dataset.take(self._held).cache()
        for _ in kept:  # to its end, or the cache keeps nothing
            pass
        return EpochFunctionRunner(self._train, kept.repeat(), self._samples)

    def observed_workload(self) -> Workload:
        """The workload, with the number of devices that its layers run on."""
        replicas = replica_count(self.layers.live_layers()) if self.layers else 1
        return replace(self.workload, replicas=replicas)

    def prove_step(self, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """Never asked: the step stands in the user's function."""
        raise NotImplementedError("there is no step that can be called separately")

    def restore(self) -> None:
        """Weights were moved by the user's own function, in a run thrown away."""

    def _train(self, dataset: Any) -> Any:
        call = self._call
        args, kwargs = replace_datasets(call.args, call.kwargs, lambda _: dataset)
        return call.original(*args, **kwargs)

    @property
    def _samples(self) -> float:
        return float(self.workload.batch_size or 1)


def single_dataset_of(call: StepCall) -> Any | None:
    """The one dataset among its arguments; None where there is none, or more than one."""
    found = find_datasets(call.args, call.kwargs)
    return found[0] if len(found) == 1 else None


def _nothing() -> Any:
    return tf.constant(0, tf.int64)


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _together(one: Block, other: Block) -> Block:
    return Block(
        steps=one.steps + other.steps,
        samples=one.samples + other.samples,
        wall_s=one.wall_s + other.wall_s,
        cpu_s=one.cpu_s + other.cpu_s,
        warmup_s=one.warmup_s + other.warmup_s,
        page_fault_s=one.page_fault_s + other.page_fault_s,
    )
