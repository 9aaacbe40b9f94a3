"""Keep trials off the user's disk: pipelines that write files write them elsewhere."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from uncork.core.errors import EditRefused
from uncork.pipeline.kinds import Dataset, kind_of
from uncork.pipeline.rebuild import make, rebuild
from uncork.pipeline.remade import remade
from uncork.pipeline.tree import Node, Pipeline, read


def redirected(pipeline: Pipeline, directory: Path) -> Pipeline:
    """The same pipeline, with every cache file and snapshot written below ``directory``.

    A complete cache file of the user's is copied there, so a trial reads what training would read.
    Each call uses names of its own: two trials never share a cache.

    Args:
        pipeline: As read.
        directory: Exists; is the caller's to delete.

    Raises:
        EditRefused: A node writes files, and its class cannot be rebuilt.
    """
    own = Path(tempfile.mkdtemp(dir=directory))
    return read(remade(pipeline.root, lambda node, inputs: _redirect(node, inputs, own)))


def _redirect(node: Node, inputs: Sequence[Dataset], directory: Path) -> Dataset:
    dataset = node.dataset
    if node.kind == "save":
        raise EditRefused(
            "the pipeline saves itself while it is read",
            "a pipeline that writes no files, or a cache or snapshot",
            "save the data in a separate script",
        )
    if node.kind == "cache" and not node.in_memory:
        target = _copied(Path(np.asarray(dataset._filename).item().decode()), directory)
        return make(dataset, inputs, kind_of(dataset), _filename=tf.constant(str(target)))
    if node.kind == "snapshot":
        path = tempfile.mkdtemp(prefix="snapshot", dir=directory)
        return make(dataset, inputs, kind_of(dataset), _path=path)
    return rebuild(dataset, inputs) if inputs else dataset


def _copied(cache: Path, directory: Path) -> Path:
    """The cache's new name; its files are there already if the user's was complete.

    TensorFlow writes ``NAME_0.data-...``, then ``NAME.index`` last, and holds ``NAME_0.lockfile``
    while it writes.
    """
    target = Path(tempfile.mkdtemp(prefix="cache", dir=directory)) / cache.name
    if cache.with_name(f"{cache.name}.index").exists():
        for file in cache.parent.glob(f"{cache.name}.*"):
            shutil.copy2(file, target.with_name(file.name))
    return target
