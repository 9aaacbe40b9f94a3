"""Stages of an input pipeline, with what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from uncork.core.base.record import Record, replace

AUTOTUNE = -1
ENDLESS = -1
# Kinds of Python that makes whole batches, labels and all.
BATCH_LOADERS: Final = frozenset({"pydataset", "generator", "loop"})


class Prefix(Record, frozen=True, kw_only=True):
    """The first part of a map function that can be cut in two.

    Attributes:
        ops: TensorFlow ops in it.
        bytes_per_element: Of the tensors at the cut.
        cpu_s_per_element: Of the prefix alone.
    """

    ops: int
    bytes_per_element: int
    cpu_s_per_element: float


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


class Draws(Record, frozen=True, kw_only=True):
    """What of a random map draws; all else repeats itself, given what was drawn.

    Attributes:
        ops: TensorFlow ops in that rest.
        cpu_s_per_element: Of the draws alone, with all that they need.
    """

    ops: int
    cpu_s_per_element: float


class Inlined(Record, frozen=True, kw_only=True):
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
        elements: How many would be held.
        memory_bytes: What they would take.
        overhead_bytes: Of these, what TensorFlow's cache in memory takes beside their values.
        saved_cpu_s_per_step: CPU seconds that every later step is spared.
        below: Kinds of the stages that it must be placed below (``shuffle``, ``repeat``), whose
            order stays as it is because a deterministic 1:1 map commutes with them.
    """

    elements: int
    memory_bytes: int
    saved_cpu_s_per_step: float
    below: tuple[str, ...] = ()
    overhead_bytes: int = 0

    @property
    def value_bytes(self) -> int:
        """What files would hold."""
        return self.memory_bytes - self.overhead_bytes


class Repeated(Record, frozen=True, kw_only=True):
    """Elements that several branches of a pipeline make, each for itself.

    Attributes:
        times: How often each is made.
        again: Indices of the stages that make what another branch made already.
        at: ``file.py:line`` of the second reader.
    """

    times: int
    again: tuple[int, ...]
    at: str | None


class Vectorized(Record, frozen=True, kw_only=True):
    """A map as it would be behind the batch: called once for all elements of it.

    Attributes:
        batch: Elements that it takes at once.
        cpu_s_per_element: CPU seconds of a call, for each of them.
        wall_s_per_element: Elapsed seconds likewise, run serially.
        first_bytes: Of an element of what must stay before the batch, whose cost is in here, too;
            None where nothing must.
        behind: TensorFlow's names of the last ops that must.
    """

    batch: int
    cpu_s_per_element: float
    wall_s_per_element: float
    first_bytes: int | None = None
    behind: tuple[str, ...] = ()


class InStep(Record, frozen=True, kw_only=True):
    """The last maps of a pipeline as something that the training step does, on its device.

    Attributes:
        digest: Of what it does, for whole batches.
        spared: Share of the bytes that need not be sent then.
        vectorized: Indices of the maps that are called for whole batches first, highest first.
        held_bytes: Of the numbers that are put on the device once: rows, where those are gathered.
    """

    digest: str
    spared: float
    vectorized: tuple[int, ...] = ()
    held_bytes: int = 0


class Chunked(Record, frozen=True, kw_only=True):
    """A Python generator as it would be if several of its elements were handed over at once.

    Attributes:
        elements: At most so many.
        cpu_s_per_element: CPU seconds for each of them, making it counted.
        wall_s_per_element: Elapsed seconds likewise.
    """

    elements: int
    cpu_s_per_element: float
    wall_s_per_element: float


class Reading(Record, frozen=True, kw_only=True):
    """What a map spends on opening and reading files.

    Attributes:
        files: That it reads for one element.
        cpu_s_per_element: CPU seconds until all are read.
    """

    files: int
    cpu_s_per_element: float


class Copied(Record, frozen=True, kw_only=True):
    """A statement of a Python loader that fills much more memory than a batch takes.

    Attributes:
        at: ``file.py:line`` of it.
        share: Of the loader's time, 0 to 1.
        made_bytes: That it fills for one batch.
        used_bytes: Of the batch.
    """

    at: str | None
    share: float
    made_bytes: int
    used_bytes: int


class SameArrays(Record, frozen=True, kw_only=True):
    """NumPy arrays that a loop hands to its step at each call, with the same numbers in them.

    Attributes:
        names: Of the arguments that they are; nothing where they are parts of others.
        copy_s: Elapsed seconds for making tensors of these.
        compare_s: Elapsed seconds for seeing that they are the same as at the last call.
    """

    names: tuple[str, ...]
    copy_s: float
    compare_s: float


class Keepable(Record, frozen=True, kw_only=True):
    """What keeping all that Python code makes would take: batches, answers in a map, elements.

    Attributes:
        bytes: Of all of them; 0 where their number is not known.
        wall_s_per_element: Elapsed seconds of the stage for what is there already.
        code: Digest of the code, where the edit must know it.
        elements: Of a generator, in one pass; 0 where nobody has seen its end.
    """

    bytes: int
    wall_s_per_element: float
    code: str = ""
    elements: int = 0


class Buffer(Record, frozen=True, kw_only=True):
    """What a shuffle gathers before it gives its first element, anew in every pass.

    Attributes:
        elements: That it holds.
        of: Elements that it gives in a pass; less than it holds where a ``take`` ends the pass.
        maps: Indices of the maps directly below it that could as well stand above it.
        bytes_per_element: Of what it would hold then.
    """

    elements: int
    of: int
    maps: tuple[int, ...]
    bytes_per_element: int


class Stage(Record, frozen=True, kw_only=True):
    """One node of an input pipeline, source first.

    Attributes:
        index: Position in the list of stages; edits name stages by it. Those of a branch stand
            before the stage that joins it with others (``zip``, ``concatenate``).
        first: The lowest index of what it is made from, its own for a source: from there up to it
            reaches all that it reads.
        kind: ``map``, ``batch``, ``shuffle``, ``cache``, ``prefetch``, ``from_tensor_slices``, ...
        at: ``file.py:line`` in the user's source, None when it was made elsewhere.
        name: Function or class name where there is one.
        cpu_s_per_element: CPU seconds of this stage alone for one of *its* elements.
        wall_s_per_element: Elapsed seconds of this stage alone, run serially.
        spread_cpu_s_per_element: On a serial map, CPU seconds beyond those: TensorFlow spreads the
            ops of a lone call over its threads, and less so where every core has a call.
        threads_wall_s_per_element: Of Python code whose calls share nothing that changes but random
            states, elapsed seconds where each core has a thread that makes elements.
        processes_wall_s_per_element: The same of a Python loader where each core has a process that
            makes some; beginning them included, once an epoch.
        keepable: Set on a Python loader or generator that makes the same in every epoch, and on a
            map whose Python functions are asked the same in every epoch, and answer the same.
        float32_cpu_s_per_element: On a map that computes in float64, or a loader that reads from
            float64 arrays, CPU seconds in float32.
        needed_cpu_s_per_element: On a map that makes more than is looked at further up, CPU seconds
            for what is.
        cropped_cpu_s_per_element: On a map that crops JPEG images that it decodes, CPU seconds with
            no more of them decoded than that.
        crops_below: The map below decodes them, and is part of that.
        ignores: On a map that takes less than it is given, indices of the maps that make the rest.
        wide_at: The line that made those arrays, where that is known.
        bytes_per_element: Of its output.
        ratio: Input elements for one output element (``batch(32)`` has 32), None when it varies.
        elements_per_step: How many of its elements one training step consumes.
        length: Elements of a pass over it, ``ENDLESS`` (-1) for one without end, None if unknown.
        file_bytes: Of the files that a source names; None where it names none.
        ahead: Elements that it was told to prepare before they are asked for.
        readers: Inputs that could each have a thread: those that a serial interleave has open at
            once, or of what goes through one after the other all that there are.
        of_one: Of the latter, elements of the longest input that was looked at.
        parallelism: 1 runs serially, ``AUTOTUNE`` (-1) is the runtime's choice, None: neither.
        chosen: What the runtime chose when the whole pipeline was read by itself.
        random: Draws random numbers or keeps state: two passes may differ.
        python: Runs Python code (generator, ``py_function``).
        python_at: The line that brought it in, where that is another one.
        repeated: Set on a ``zip`` whose branches make the same elements.
        in_files: A cache that is read from its files again in each epoch.
        reading: Set on a map that reads many files for each element.
        copied: Set on a Python loader that copies far more than it hands over.
        same: Set on arrays that a step is handed at each call, and copies.
        frozen: A cache that keeps what is drawn at random below it.
        draws_alike: A map that draws the same numbers for the same elements in each pass.
        prefix: Set on a random map whose function starts with deterministic work: that work.
        narrow: Set on a deterministic map that ends with making its elements larger: all before.
        draws: Set on a serial random map that does work beside drawing.
        ops: Of a map that costs something, what its function spends its time on, longest first.
        inlined: Set on a map that could run in the thread that asks for its elements.
        cache_point: Set where a cache (after the prefix, if there is one) is legal and pays.
        buffer: Set on a shuffle whose passes end, and whose maps below could stand above it.
        may_precede: On what drops elements, indices of the maps directly below that do no work for
            it.
        by_number: It keeps one of so many elements, by their number.
        vectorized: Set on a map whose function can take the elements of the batch above at once.
        in_step: Set on a map, or on arrays, from where on the training step could do the rest.
        chunked: Set on a brief generator whose elements can be handed over several at once.
        opaque: A class that Uncork does not know: what it reads from is not seen.
    """

    index: int
    first: int = 0
    kind: str
    at: str | None = None
    name: str = ""
    cpu_s_per_element: float | None = None
    wall_s_per_element: float | None = None
    spread_cpu_s_per_element: float | None = None
    threads_wall_s_per_element: float | None = None
    processes_wall_s_per_element: float | None = None
    keepable: Keepable | None = None
    float32_cpu_s_per_element: float | None = None
    needed_cpu_s_per_element: float | None = None
    cropped_cpu_s_per_element: float | None = None
    crops_below: bool = False
    ignores: tuple[int, ...] = ()
    wide_at: str | None = None
    bytes_per_element: int | None = None
    ratio: float | None = None
    elements_per_step: float | None = None
    length: int | None = None
    file_bytes: int | None = None
    ahead: int | None = None
    readers: int | None = None
    of_one: int | None = None
    parallelism: int | None = None
    chosen: int | None = None
    random: bool = False
    python: bool = False
    python_at: str | None = None
    repeated: Repeated | None = None
    in_files: bool = False
    reading: Reading | None = None
    copied: Copied | None = None
    same: SameArrays | None = None
    frozen: bool = False
    draws_alike: bool = False
    prefix: Prefix | None = None
    narrow: Prefix | None = None
    draws: Draws | None = None
    ops: tuple[OpCost, ...] = ()
    inlined: Inlined | None = None
    cache_point: CachePoint | None = None
    buffer: Buffer | None = None
    may_precede: tuple[int, ...] = ()
    by_number: bool = False
    vectorized: Vectorized | None = None
    in_step: InStep | None = None
    chunked: Chunked | None = None
    opaque: bool = False

    @property
    def cpu_s_per_step(self) -> float | None:
        """CPU seconds that this stage alone costs one training step."""
        if self.cpu_s_per_element is None or self.elements_per_step is None:
            return None
        return self.cpu_s_per_element * self.elements_per_step


def with_chosen(stages: Sequence[Stage], chosen: Mapping[int, int]) -> tuple[Stage, ...]:
    """Stages with what the runtime chose for them, by their indices.

    Example:
        >>> (photos,) = with_chosen([Stage(index=0, kind="map", parallelism=AUTOTUNE)], {0: 2})
        >>> photos.chosen
        2
    """
    return tuple(
        replace(stage, chosen=chosen.get(stage.index)) if stage.parallelism == AUTOTUNE else stage
        for stage in stages
    )
