"""Stages of an input pipeline, with what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from uncork.core.base.record import Record, replace

AUTOTUNE = -1
INFINITE_LENGTH = -1
# Kinds of Python that makes whole batches, labels and all.
BATCH_LOADERS: Final = frozenset({"pydataset", "generator", "loop"})


class MapPrefix(Record, frozen=True, kw_only=True):
    """The first part of a map function that can be cut in two.

    Attributes:
        op_count: TensorFlow ops in it.
        bytes_per_element: Of the tensors at the cut.
        cpu_s_per_element: Of the prefix alone.
        last_at: ``file.py:line`` in the function of its last statement that is in this part; None
            where that is not known.
        rest_at: Likewise of the first statement that is in the other part.
    """

    op_count: int
    bytes_per_element: int
    cpu_s_per_element: float
    last_at: str | None = None
    rest_at: str | None = None


class OpCost(Record, frozen=True, kw_only=True):
    """Ops of a map function that take time, of one kind and from one line.

    Attributes:
        op: TensorFlow's name of the kind, ``DecodeJpeg``.
        at: ``file.py:line`` of the user's call that made them; None where that is not known.
        share: Of the time that the whole function takes, 0 to 1.
    """

    op: str
    at: str | None = None
    share: float


class RandomPart(Record, frozen=True, kw_only=True):
    """What of a random map draws; all else repeats itself, given what was drawn.

    Attributes:
        deterministic_op_count: TensorFlow ops in that rest.
        cpu_s_per_element: Of the draws alone, with all that they need.
    """

    deterministic_op_count: int
    cpu_s_per_element: float


class InlinedCost(Record, frozen=True, kw_only=True):
    """A map run in the thread that asks for its elements.

    Attributes:
        cpu_s_per_element: Seconds of CPU time.
        wall_s_per_element: Elapsed seconds.
    """

    cpu_s_per_element: float
    wall_s_per_element: float


class CachePoint(Record, frozen=True, kw_only=True):
    """A place where a cache is legal: everything above repeats itself exactly every epoch.

    Attributes:
        element_count: How many would be held.
        memory_bytes: What they would take.
        overhead_bytes: Of these, what TensorFlow's cache in memory takes beside their values.
        saved_cpu_s_per_step: CPU seconds that every later step is spared.
        placed_before: Kinds of the stages that it must be placed below (``shuffle``, ``repeat``),
            whose order stays as it is because a deterministic 1:1 map commutes with them.
    """

    element_count: int
    memory_bytes: int
    saved_cpu_s_per_step: float
    placed_before: tuple[str, ...] = ()
    overhead_bytes: int = 0

    @property
    def value_bytes(self) -> int:
        """What files would hold."""
        return self.memory_bytes - self.overhead_bytes


class RepeatedWork(Record, frozen=True, kw_only=True):
    """Elements that several branches of a pipeline make, each for itself.

    Attributes:
        repetitions: How often each is made.
        duplicate_stages: Indices of the stages that make what another branch made already.
        at: ``file.py:line`` of the second reader.
    """

    repetitions: int
    duplicate_stages: tuple[int, ...]
    at: str | None


class VectorizedCost(Record, frozen=True, kw_only=True):
    """A map as it would be behind the batch: called once for all elements of it.

    Attributes:
        batch_size: Elements that it takes at once.
        cpu_s_per_element: CPU seconds of a call, for each of them.
        wall_s_per_element: Elapsed seconds likewise, run serially.
        unbatched_bytes: Of an element of what must stay before the batch, whose cost is in here,
            too; None where nothing must.
        unbatched_ops: TensorFlow's names of the last ops that must.
    """

    batch_size: int
    cpu_s_per_element: float
    wall_s_per_element: float
    unbatched_bytes: int | None = None
    unbatched_ops: tuple[str, ...] = ()


class StepOffload(Record, frozen=True, kw_only=True):
    """The last maps of a pipeline as something that the training step does, on its device.

    Attributes:
        digest: Of what it does, for whole batches.
        saved_transfer_share: Share of the bytes that need not be sent then.
        vectorized_maps: Indices of the maps that are called for whole batches first, highest first.
        resident_bytes: Of the numbers that are put on the device once: rows, where those are
            gathered.
    """

    digest: str
    saved_transfer_share: float
    vectorized_maps: tuple[int, ...] = ()
    resident_bytes: int = 0


class ChunkedCost(Record, frozen=True, kw_only=True):
    """A Python generator as it would be if several of its elements were handed over at once.

    Attributes:
        max_elements: At most so many.
        cpu_s_per_element: CPU seconds for each of them, making it counted.
        wall_s_per_element: Elapsed seconds likewise.
    """

    max_elements: int
    cpu_s_per_element: float
    wall_s_per_element: float


class FileReads(Record, frozen=True, kw_only=True):
    """What a map spends on opening and reading files.

    Attributes:
        files_per_element: That it reads for one element.
        cpu_s_per_element: CPU seconds until all are read.
    """

    files_per_element: int
    cpu_s_per_element: float


class ArrayCopy(Record, frozen=True, kw_only=True):
    """A statement of a Python loader that fills much more memory than a batch takes.

    Attributes:
        at: ``file.py:line`` of it.
        share: Of the loader's time, 0 to 1.
        copied_bytes: That it fills for one batch.
        batch_bytes: Of the batch.
    """

    at: str | None
    share: float
    copied_bytes: int
    batch_bytes: int


class UnchangedArrays(Record, frozen=True, kw_only=True):
    """NumPy arrays that a loop hands to its step at each call, with the same numbers in them.

    Attributes:
        argument_names: Of the arguments that they are; nothing where they are parts of others.
        copy_s: Elapsed seconds for making tensors of these.
        compare_s: Elapsed seconds for seeing that they are the same as at the last call.
    """

    argument_names: tuple[str, ...]
    copy_s: float
    compare_s: float


class Memoization(Record, frozen=True, kw_only=True):
    """What keeping all that Python code makes would take: batches, answers in a map, elements.

    Attributes:
        total_bytes: Of all of them; 0 where their number is not known.
        hit_wall_s_per_element: Elapsed seconds of the stage for what is there already.
        code_digest: Digest of the code, where the edit must know it.
        element_count: Of a generator, in one pass; 0 where nobody has seen its end.
    """

    total_bytes: int
    hit_wall_s_per_element: float
    code_digest: str = ""
    element_count: int = 0


class ShuffleBuffer(Record, frozen=True, kw_only=True):
    """What a shuffle gathers before it gives its first element, anew in every pass.

    Attributes:
        element_count: That it holds.
        elements_per_pass: Elements that it gives in a pass; less than it holds where a ``take``
            ends the pass.
        movable_maps: Indices of the maps directly below it that could as well stand above it.
        bytes_per_element: Of what it would hold then.
    """

    element_count: int
    elements_per_pass: int
    movable_maps: tuple[int, ...]
    bytes_per_element: int


class Stage(Record, frozen=True, kw_only=True):
    """One node of an input pipeline, source first.

    Attributes:
        index: Position in the list of stages; edits name stages by it. Those of a branch stand
            before the stage that joins it with others (``zip``, ``concatenate``).
        first_index: The lowest index of what it is made from, its own for a source: from there up
            to it reaches all that it reads.
        kind: ``map``, ``batch``, ``shuffle``, ``cache``, ``prefetch``, ``from_tensor_slices``, ...
        at: ``file.py:line`` in the user's source, None when it was made elsewhere.
        name: Function or class name where there is one.
        cpu_s_per_element: CPU seconds of this stage alone for one of *its* elements.
        wall_s_per_element: Elapsed seconds of this stage alone, run serially.
        multithreading_cpu_s_per_element: On a serial map, CPU seconds beyond those: TensorFlow
            spreads the ops of a lone call over its threads, and less so where every core has a
            call.
        threaded_wall_s_per_element: Of Python code whose calls share nothing that changes but
            random states, elapsed seconds where each core has a thread that makes elements.
        multiprocess_wall_s_per_element: The same of a Python loader where each core has a process
            that makes some; beginning them included, once an epoch.
        memoization: Set on a Python loader or generator that makes the same in every epoch, and on
            a map whose Python functions are asked the same in every epoch, and answer the same.
        float32_cpu_s_per_element: On a map that computes in float64, or a loader that reads from
            float64 arrays, CPU seconds in float32.
        needed_cpu_s_per_element: On a map that makes more than is looked at further up, CPU seconds
            for what is.
        cropped_cpu_s_per_element: On a map that crops JPEG images that it decodes, CPU seconds with
            no more of them decoded than that.
        has_upstream_decoder: The map below decodes them, and is part of that.
        unused_output_maps: On a map that takes less than it is given, indices of the maps that make
            the rest.
        float64_at: The line that made those arrays, where that is known.
        bytes_per_element: Of its output.
        ratio: Input elements for one output element (``batch(32)`` has 32), None when it varies.
        elements_per_step: How many of its elements one training step consumes.
        length: Elements of a pass over it, ``INFINITE_LENGTH`` (-1) for one without end, None if
            unknown.
        file_bytes: Of the files that a source names; None where it names none.
        prefetched_elements: Elements that it was told to prepare before they are asked for.
        max_readers: Inputs that could each have a thread: those that a serial interleave has open
            at once, or of what goes through one after the other all that there are.
        max_input_elements: Of the latter, elements of the longest input that was looked at.
        parallelism: 1 runs serially, ``AUTOTUNE`` (-1) is the runtime's choice, None: neither.
        autotuned_parallelism: What the runtime chose when the whole pipeline was read by itself.
        is_random: Draws random numbers or keeps state: two passes may differ.
        has_python_code: Runs Python code (generator, ``py_function``).
        python_code_at: The line that brought it in, where that is another one.
        repeated_work: Set on a ``zip`` whose branches make the same elements.
        is_file_cache: A cache that is read from its files again in each epoch.
        file_reads: Set on a map that reads many files for each element.
        array_copy: Set on a Python loader that copies far more than it hands over.
        unchanged_arrays: Set on arrays that a step is handed at each call, and copies.
        has_frozen_randomness: A cache that keeps what is drawn at random below it.
        has_repeating_randomness: A map that draws the same numbers for the same elements in each
            pass.
        deterministic_prefix: Set on a random map whose function starts with deterministic work:
            that work.
        narrow_prefix: Set on a deterministic map that ends with making its elements larger: all
            before.
        random_part: Set on a serial random map that does work beside drawing.
        op_costs: Of a map that costs something, what its function spends its time on, longest
            first.
        inlined_cost: Set on a map that could run in the thread that asks for its elements.
        cache_point: Set where a cache (after the prefix, if there is one) is legal and pays.
        shuffle_buffer: Set on a shuffle whose passes end, and whose maps below could stand above
            it.
        bypassable_maps: On what drops elements, indices of the maps directly below that do no work
            for it.
        is_index_based: It keeps one of so many elements, by their number.
        vectorized_cost: Set on a map whose function can take the elements of the batch above at
            once.
        step_offload: Set on a map, or on arrays, from where on the training step could do the rest.
        chunked_cost: Set on a brief generator whose elements can be handed over several at once.
        is_opaque: A class that Uncork does not know: what it reads from is not seen.
    """

    index: int
    first_index: int = 0
    kind: str
    at: str | None = None
    name: str = ""
    cpu_s_per_element: float | None = None
    wall_s_per_element: float | None = None
    multithreading_cpu_s_per_element: float | None = None
    threaded_wall_s_per_element: float | None = None
    multiprocess_wall_s_per_element: float | None = None
    memoization: Memoization | None = None
    float32_cpu_s_per_element: float | None = None
    needed_cpu_s_per_element: float | None = None
    cropped_cpu_s_per_element: float | None = None
    has_upstream_decoder: bool = False
    unused_output_maps: tuple[int, ...] = ()
    float64_at: str | None = None
    bytes_per_element: int | None = None
    ratio: float | None = None
    elements_per_step: float | None = None
    length: int | None = None
    file_bytes: int | None = None
    prefetched_elements: int | None = None
    max_readers: int | None = None
    max_input_elements: int | None = None
    parallelism: int | None = None
    autotuned_parallelism: int | None = None
    is_random: bool = False
    has_python_code: bool = False
    python_code_at: str | None = None
    repeated_work: RepeatedWork | None = None
    is_file_cache: bool = False
    file_reads: FileReads | None = None
    array_copy: ArrayCopy | None = None
    unchanged_arrays: UnchangedArrays | None = None
    has_frozen_randomness: bool = False
    has_repeating_randomness: bool = False
    deterministic_prefix: MapPrefix | None = None
    narrow_prefix: MapPrefix | None = None
    random_part: RandomPart | None = None
    op_costs: tuple[OpCost, ...] = ()
    inlined_cost: InlinedCost | None = None
    cache_point: CachePoint | None = None
    shuffle_buffer: ShuffleBuffer | None = None
    bypassable_maps: tuple[int, ...] = ()
    is_index_based: bool = False
    vectorized_cost: VectorizedCost | None = None
    step_offload: StepOffload | None = None
    chunked_cost: ChunkedCost | None = None
    is_opaque: bool = False

    @property
    def cpu_s_per_step(self) -> float | None:
        """CPU seconds that this stage alone costs one training step."""
        if self.cpu_s_per_element is None or self.elements_per_step is None:
            return None
        return self.cpu_s_per_element * self.elements_per_step


def with_autotuned_parallelism(
    stages: Sequence[Stage], autotuned: Mapping[int, int]
) -> tuple[Stage, ...]:
    """Stages with what the runtime chose for them, by their indices.

    Example:
        >>> (photos,) = with_autotuned_parallelism(
        ...     [Stage(index=0, kind="map", parallelism=AUTOTUNE)], {0: 2}
        ... )
        >>> photos.autotuned_parallelism
        2
    """
    return tuple(
        replace(stage, autotuned_parallelism=autotuned.get(stage.index))
        if stage.parallelism == AUTOTUNE
        else stage
        for stage in stages
    )
