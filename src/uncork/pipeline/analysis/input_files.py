"""The files that a pipeline reads: how large they are, and how fast they come from the disk.

Their size tells of more data where no length does.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import tensorflow as tf

from uncork.core.evidence.storage import ColdFiles
from uncork.measure.machine.cold_reads import measure_cold_reads
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline, StageLocation

# Sources that hold what they give; others would have to be run for that.
_HOLDING: Final = frozenset({"from_tensor_slices", "from_tensors", "from_list"})
# What may read the files of the names that it is given, and what gives all of these as they are.
_READING: Final = frozenset({
    "map", "flat_map", "interleave", "tfrecord", "text_line", "fixed_length_record",
})  # fmt: skip
_PASSING_ON: Final = frozenset({"shuffle", "repeat", "prefetch", "options", "cache"})
# Files of which the sizes are asked; of more, as many say what all take.
_MOST: Final = 2_000


def named_file_bytes(node: Node) -> int | None:
    """Bytes of the files that a source names, all together; None where it names none of this host.

    Example:
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> here = tf.data.Dataset.from_tensor_slices([__file__, __file__])
        >>> named_file_bytes(read_pipeline(here).root) == 2 * Path(__file__).stat().st_size
        True
        >>> named_file_bytes(read_pipeline(tf.data.Dataset.from_tensor_slices(["no file"])).root)
    """
    found = _named(node)
    return None if found is None else found.bytes


def measure_cold_files(pipeline: Pipeline) -> ColdFiles | None:
    """How fast the files that a pipeline names come where the system does not hold them.

    Of several sources that name files, of the one whose files are largest together.

    Args:
        pipeline: Its sources are read; the files stay as they are.

    Returns:
        None where no files of this host are named, or that cannot be told.
    """
    named = filter(None, (_named(p.node) for p in pipeline.stage_locations if _all_are_read(p)))
    found = max(named, key=lambda each: each.bytes, default=None)
    read = measure_cold_reads(found.names) if found else None
    if found is None or read is None or not read.wall_s:
        return None
    speed = read.total_bytes / read.wall_s
    # A file takes something whatever its size; of a large one only the beginning was read.
    file_s = max(read.wall_s / read.file_count, found.bytes / found.files / speed)
    return ColdFiles(total_bytes=found.bytes, read_s_per_file=file_s, read_bytes_per_s=speed)


def _all_are_read(place: StageLocation) -> bool:
    """Each name that a source gives is that of one file which is read, as far as that is known."""
    specs = tf.nest.flatten(place.node.dataset.element_spec)
    texts = [s for s in specs if getattr(s, "dtype", None) == tf.string]
    if len(texts) != 1 or texts[0].shape.rank != 0:
        return False
    branch, position = place
    while True:
        for node in branch.stages[position + 1 :]:
            if node.kind in _READING:
                return True
            if node.kind not in _PASSING_ON:
                return False
        if branch.parent is None or branch.parent.stages[0].kind != "zip":
            return branch.parent is None
        branch, position = branch.parent, 0


@dataclass(frozen=True)
class _Named:
    """Files that a source names.

    Attributes:
        names: The first of them.
        files: All of them.
        bytes: Of all together.
    """

    names: tuple[bytes, ...]
    files: int
    bytes: int


def _named(node: Node) -> _Named | None:
    if node.kind not in _HOLDING:
        return None
    specs = tf.nest.flatten(node.dataset.element_spec)
    texts = [i for i, s in enumerate(specs) if getattr(s, "dtype", None) == tf.string]
    if not texts:
        return None
    names: list[bytes] = []
    for element in node.dataset.take(_MOST):
        names += np.ravel(tf.nest.flatten(element)[texts[0]].numpy()).tolist()
        if len(names) >= _MOST:
            break
    sizes = [_size(name) for name in names[:_MOST]]
    known = [size for size in sizes if size is not None]
    if not known or len(known) < len(sizes):
        return None
    more = max(1.0, int(node.dataset.cardinality()) / len(known))
    named = tuple(names[:_MOST])
    return _Named(named, round(len(known) * more), round(sum(known) * more))


def _size(name: bytes) -> int | None:
    """Of a file; None where there is none of that name."""
    try:
        found = Path(os.fsdecode(name)).stat()
    except (OSError, ValueError):  # text is no name of a file
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
