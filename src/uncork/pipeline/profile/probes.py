"""Time a dataset inside the runtime: what one element of it costs when run serially.

Elements are pulled in groups by a window dataset, which hands over handles and copies nothing, so
Python is called once for a group and its own cost does not hide a cheap stage.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import VariantDataset, kind_of
from uncork.compat.tfdata.dataset_fields import flat_types, has_parameter, parameter, variant_tensor
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import copy_with_fields, rebuild
from uncork.core.evidence.stage import AUTOTUNE
from uncork.pipeline.ir.builders import serial_interleave, serial_map
from uncork.pipeline.ir.node import Node

# A shuffle costs the same for each element whatever its buffer holds; a small one fills at once.
MAX_PROBE_SHUFFLE_ELEMENTS: Final = 32
# A group should take long against the clock's resolution and a call from Python (about 30 us).
MIN_GROUP_S: Final = 0.003
MAX_GROUP_ELEMENTS: Final = 1024
# A group that took so long and computed for less may have waited for its turn on a busy machine: it
# is pulled again, a few times. One that takes longer waits for something else.
_WAITED_S: Final = 10 * MIN_GROUP_S
_AGAIN: Final = 3
# Counting takes so many after the first by themselves, to see how long one takes; in what is left
# of its time it looks at the clock about so often.
_SINGLY: Final = 8
# Some clocks stand still meanwhile.
_A_TICK_S: Final = 1e-6
_LOOKS_AT_CLOCK: Final = 16
MAX_ERRORS: Final = 5
# Inputs that a stage is given to see how many outputs it makes of them, and where it makes none.
_FIRST_INPUTS: Final = 128
_MOST_INPUTS: Final = 2_048
# Fewer outputs of what drops elements by what they are say little of other inputs.
_TELLING: Final = 20
_CHOOSING: Final = frozenset({"filter", "unique"})
SAMPLED_ELEMENTS: Final = 16
# However short a budget is, on a busy machine each probe shall have its turn.
MIN_LAST_CALL_S: Final = 2.0


def serial_copy(node: Node, input_datasets: Sequence[Dataset]) -> Dataset:
    """A node as it costs least to time: one call at a time, nothing ahead, small shuffle buffer.

    A user's in-memory cache is used as it is, so that it is filled once and then shared; one in
    files is only read, and one of endless data is left out: it holds more and more, and is never
    read. A copy of a shuffle is made, so the user's own is not moved on by an epoch.
    """
    dataset = node.dataset
    endless = int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
    if (
        not input_datasets
        or kind_of(dataset).create_variant is None
        or (node.is_memory_cache and not endless)
    ):
        return dataset
    if node.kind in ("prefetch", "cache", "snapshot") and not node.is_complete_file_cache:
        # Prefetch is no work of its own; a cache in files must not be written by measuring.
        return input_datasets[0]
    if node.kind == "shuffle":
        size = tf.minimum(parameter(dataset, "buffer_size"), MAX_PROBE_SHUFFLE_ELEMENTS)
        return copy_with_fields(dataset, input_datasets, kind_of(dataset), buffer_size=size)
    if node.kind == "map" and has_parameter(dataset, "num_parallel_calls"):
        return serial_map(input_datasets[0], parameter(dataset, "map_func"), dataset)
    if node.parallelism not in (None, 1) and has_parameter(dataset, "num_parallel_calls"):
        return _one_at_a_time(dataset, input_datasets)
    return rebuild(dataset, input_datasets)


def _one_at_a_time(dataset: Dataset, below: Sequence[Dataset]) -> Dataset:
    """What does several things at once; where it was told to hold elements, without a thread."""
    held = parameter(dataset, "buffer_output_elements", AUTOTUNE)
    if int(np.asarray(held)) != AUTOTUNE:
        return serial_interleave(below[0], dataset)
    one = tf.constant(1, tf.int64)
    return copy_with_fields(dataset, below, kind_of(dataset), num_parallel_calls=one)


def run_serially(dataset: Dataset, *, threads: int = 1) -> Dataset:
    """Run on one thread, without the runtime's own rewrites, so that CPU time adds up."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    options.experimental_optimization.apply_default_optimizations = False
    return dataset.with_options(options)


def group_elements(dataset: Dataset, group_size: int, *, drop_remainder: bool = True) -> Dataset:
    """Handles of ``group_size`` elements at a time; the elements themselves are computed.

    Args:
        dataset: Any.
        group_size: Elements of a group.
        drop_remainder: Drop a last group that is not full.
    """
    flat = len(flat_types(dataset))
    shapes, types = [tf.TensorShape([])] * flat, [tf.variant] * flat
    variant = tf.raw_ops.WindowDataset(
        input_dataset=variant_tensor(dataset),
        size=group_size,
        shift=group_size,
        stride=1,
        drop_remainder=drop_remainder,
        output_shapes=shapes,
        output_types=types,
    )
    spec = tuple(tf.TensorSpec([], tf.variant) for _ in range(flat))
    return VariantDataset(variant, spec)


def run_on_all_cores(dataset: Dataset) -> Dataset:
    """Like :func:`run_serially`, but with a thread for each core to share the ops of a call."""
    return run_serially(dataset, threads=0)  # TensorFlow's word for the number of cores


@dataclass
class Probe:
    """Repeated timings of one dataset; each call of :meth:`time_group` adds one.

    Attributes:
        dataset: What is timed, endlessly repeated.
        apply_options: What it is run under.
        cpu_s: CPU seconds for one element, one figure a turn.
        wall_s: Elapsed seconds likewise.
    """

    dataset: Dataset
    apply_options: Callable[[Dataset], Dataset] = run_serially
    cpu_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    _size: int = 1
    _groups: Iterator[Any] | None = None
    _errors: int = 0
    _over: bool = False

    def time_group(self) -> None:
        """Pull one group and note what an element of it cost; nothing when the data gave out."""
        if self._over:
            return
        if self._groups is None and not self._start():
            return
        pulled = self._pull()
        if pulled is not None:
            self.cpu_s.append(pulled[0] / self._size)
            self.wall_s.append(pulled[1] / self._size)

    def medians(self) -> tuple[float, float] | None:
        """CPU and elapsed seconds for one element; None when nothing was pulled."""
        if not self.cpu_s:
            return None
        return statistics.median(self.cpu_s), statistics.median(self.wall_s)

    def _start(self) -> bool:
        """Open the iterator with groups as large as the time of one element asks for."""
        self._open(1)
        first = self._pull()  # opens files, fills shuffles: not what an element costs
        second = self._pull_in_its_turn()
        if second is None:
            # A single element, or none: what it took with the start counted is all there is.
            self._over = True
            if first is not None:
                self.cpu_s.append(first[0])
                self.wall_s.append(first[1])
            return False
        while second is not None and second[1] < MIN_GROUP_S and self._size < MAX_GROUP_ELEMENTS:
            self._open(self._size * 8)
            self._pull()
            second = self._pull_in_its_turn()
        return not self._over

    def _open(self, size: int) -> None:
        self._size = size
        self._groups = iter(group_elements(self.apply_options(self.dataset.repeat()), size))

    def _pull_in_its_turn(self) -> tuple[float, float] | None:
        """The quickest of some, where it may have waited for its turn."""
        found = self._pull()
        for _ in range(_AGAIN):
            if found is None or not found[0] < MIN_GROUP_S <= found[1] < _WAITED_S:
                break
            found = min(found, self._pull() or found, key=lambda took: took[1])
        return found

    def _pull(self) -> tuple[float, float] | None:
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            assert self._groups is not None
            next(self._groups)
        except StopIteration:
            self._over = True
            return None
        except tf.errors.OpError:
            # A corrupt file in the data is the user's; measure around it.
            self._errors += 1
            self._over = self._errors >= MAX_ERRORS
            return None
        return time.process_time() - cpu, time.perf_counter() - wall


def time_round_robin(probes: Sequence[Probe], budget_s: float, *, min_rounds: int = 3) -> None:
    """Time all probes in turn, so that a change of the machine's speed meets them alike."""
    deadline = time.monotonic() + budget_s
    last_call = deadline + max(budget_s, MIN_LAST_CALL_S)
    rounds = 0
    while rounds < min_rounds or time.monotonic() < deadline:
        for probe in probes:
            if time.monotonic() > last_call:
                return
            probe.time_group()
        rounds += 1


def mean_element_bytes(dataset: Dataset, *, budget_s: float = 0.5) -> int | None:
    """Mean bytes of the first elements; None for none."""
    sizes: list[int] = []
    deadline = time.monotonic() + budget_s
    try:
        for element in run_serially(dataset).take(SAMPLED_ELEMENTS):
            sizes.append(element_bytes(element))
            if time.monotonic() > deadline:
                break
    except tf.errors.OpError:
        pass
    return round(statistics.mean(sizes)) if sizes else None


def element_bytes(element: Any) -> int:
    """Bytes of all tensors in an element, strings by their length.

    Example:
        >>> element_bytes({"x": tf.zeros([2, 3]), "name": tf.constant("abcd")})
        28
    """
    parts = tf.nest.flatten(element, expand_composites=True)
    return sum(_tensor_bytes(part) for part in parts if isinstance(part, tf.Tensor))


def _tensor_bytes(tensor: Any) -> int:
    if tensor.dtype == tf.variant:
        return 0
    array = np.asarray(tensor.numpy())  # a scalar bfloat16 is no array by itself
    if array.dtype == object:
        return sum(len(text) for text in array.flat)
    return int(array.nbytes)


def inputs_per_output(node: Node, input_dataset: Dataset, *, budget_s: float = 1.0) -> float | None:
    """How many input elements a filter, flat_map, interleave or unbatch takes for one output.

    Counted on the first inputs, on more of them where these give few; None when there was no time
    to see them through.
    """
    if node.kind == "group_by_window":
        return _inputs_of_window(node, input_dataset, budget_s)
    inputs, found, slow = _FIRST_INPUTS, None, False
    chooses = node.kind in _CHOOSING
    enough = _TELLING if chooses else 1
    while inputs:
        fed, begin = input_dataset.take(inputs), time.monotonic()
        outputs = count_elements(run_serially(rebuild(node.dataset, [fed])), budget_s=budget_s)
        # Where nothing comes, nobody looks at the clock on the way.
        slow = slow or outputs is None or time.monotonic() - begin > budget_s / 16
        if outputs:
            taken = int(fed.cardinality())
            taken = taken if taken >= 0 else count_elements(fed, budget_s=budget_s) or inputs
            found = taken / outputs
            if outputs >= enough or taken < inputs:
                return found
        if slow and (found is not None or outputs is not None):
            return found  # more of them would take too long again
        # Where they took too long, fewer, but of a single one nobody can tell what is dropped;
        # where most were dropped, more.
        fewer = (inputs // 8 if inputs >= 16 else 0) if chooses else 1
        more = fewer if outputs is None else 16 * inputs
        inputs = 0 if inputs in (1, _MOST_INPUTS) else more
    return found


def _inputs_of_window(node: Node, below: Dataset, budget_s: float) -> float | None:
    """The same where windows that are not full yet are given at the end of the data.

    Of twice as many inputs they are as many; what comes in addition are full ones.
    """

    def passed(inputs: int) -> tuple[int, int] | None:
        fed = below.take(inputs)
        taken = count_elements(fed, budget_s=budget_s)
        if not taken:
            return None
        given = count_elements(run_serially(rebuild(node.dataset, [fed])), budget_s=budget_s)
        return (taken, given) if given else None

    for inputs in (_MOST_INPUTS, _FIRST_INPUTS):
        some = passed(inputs)
        more = passed(2 * inputs) if some else None
        if some is None or more is None:
            continue
        if more[0] < 2 * inputs:  # that is all the data there is
            return more[0] / more[1]
        if more[1] > some[1]:
            return (more[0] - some[0]) / (more[1] - some[1])
    return None


def count_elements(dataset: Dataset, *, budget_s: float) -> int | None:
    """Elements of one pass; None when it takes longer than the budget or fails."""
    begin = time.monotonic()
    total = 0
    try:
        singly = iter(group_elements(dataset, 1, drop_remainder=False))
        first, opened = next(singly, None), time.monotonic()
        if first is None:
            return 0
        total, each_s = 1, 0.0
        for _ in itertools.islice(singly, _SINGLY):
            total += 1
            each_s = max(_A_TICK_S, time.monotonic() - opened) / (total - 1)
            if time.monotonic() > begin + budget_s:
                return None
        if total <= _SINGLY:
            return total
        # Quick ones many at once, but not so many that the clock is looked at too late.
        left_s = begin + budget_s - time.monotonic()
        size = int(min(MAX_GROUP_ELEMENTS, left_s / _LOOKS_AT_CLOCK / each_s))
        groups = singly
        if size > 1:
            groups, total = iter(group_elements(dataset, size, drop_remainder=False)), 0
        for group in groups:
            total += int(tf.raw_ops.DatasetCardinality(input_dataset=group[0]))
            if time.monotonic() > begin + budget_s:
                return None
    except tf.errors.OpError:
        return None
    return total
