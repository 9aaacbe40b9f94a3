"""How large the files are that a pipeline reads: this tells of more data where no length does."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

import numpy as np
import tensorflow as tf

from uncork.pipeline.tree import Node

# Sources that hold what they give; others would have to be run for that.
_HOLDING: Final = frozenset({"from_tensor_slices", "from_tensors", "from_list"})
# Files of which the sizes are asked; of more, as many say what all take.
_MOST: Final = 2_000


def bytes_named(node: Node) -> int | None:
    """Bytes of the files that a source names, all together; None where it names none of this host.

    Example:
        >>> from uncork.pipeline.tree import read
        >>> here = tf.data.Dataset.from_tensor_slices([__file__, __file__])
        >>> bytes_named(read(here).root) == 2 * Path(__file__).stat().st_size
        True
        >>> bytes_named(read(tf.data.Dataset.from_tensor_slices(["no file"])).root)
    """
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
    return round(sum(known) * max(1.0, int(node.dataset.cardinality()) / len(known)))


def _size(name: bytes) -> int | None:
    """Of a file; None where there is none of that name."""
    try:
        found = Path(os.fsdecode(name)).stat()
    except (OSError, ValueError):  # text is no name of a file
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
