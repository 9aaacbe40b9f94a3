"""Keep trials off the user's disk: pipelines that write files write them elsewhere."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from uncork.core.errors import EditRefused
from uncork.pipeline.kinds import Dataset, kind_of
from uncork.pipeline.rebuild import make, rebuild
from uncork.pipeline.remade import remade
from uncork.pipeline.tree import Node, Pipeline, read


def redirected(pipeline: Pipeline, directory: Path) -> Pipeline:
    """The same pipeline, with every cache file and snapshot written below ``directory``.

    A complete cache file of the user's is only read, by a trial as by the training. Each call uses
    names of its own: two trials never share a cache that they fill.

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
        if node.in_complete_files:
            return rebuild(dataset, inputs)
        target = str(Path(tempfile.mkdtemp(prefix="cache", dir=directory), "cache"))
        return make(dataset, inputs, kind_of(dataset), _filename=tf.constant(target))
    if node.kind == "snapshot":
        path = tempfile.mkdtemp(prefix="snapshot", dir=directory)
        return make(dataset, inputs, kind_of(dataset), _path=path)
    return rebuild(dataset, inputs) if inputs else dataset
