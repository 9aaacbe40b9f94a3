"""A copy of a pipeline that shares no state and no files with the script's objects."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import PASS_COUNTING_SOURCES, kind_of
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import copy_with_fields, rebuild
from uncork.core.base.errors import EditRefused, WrongUse
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline, read_pipeline, rebuild_tree


def copy_pipeline(pipeline: Pipeline) -> Pipeline:
    """Every known node made anew: reading the copy moves on no shuffle and fills no cache.

    What a class that Uncork does not know stands on is still the user's own.

    Example:
        >>> import tensorflow as tf
        >>> numbers = tf.data.Dataset.range(5).shuffle(5, seed=1)
        >>> _ = list(copy_pipeline(read_pipeline(numbers)).dataset)  # the first epoch of the copy
        >>> list(numbers) == list(tf.data.Dataset.range(5).shuffle(5, seed=1))
        True
    """
    return read_pipeline(rebuild_tree(pipeline.root, _copy))


def _copy(node: Node, inputs: Sequence[Dataset]) -> Dataset:
    kind = kind_of(node.dataset)
    if kind.create_variant is None or not (inputs or kind.name in PASS_COUNTING_SOURCES):
        return node.dataset
    return copy_with_fields(node.dataset, inputs, kind)


def redirect_files(pipeline: Pipeline, directory: Path) -> Pipeline:
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
    return read_pipeline(
        rebuild_tree(pipeline.root, lambda node, inputs: _redirect(node, inputs, own))
    )


def _redirect(node: Node, inputs: Sequence[Dataset], directory: Path) -> Dataset:
    dataset = node.dataset
    if node.kind == "save":
        raise EditRefused(
            "the pipeline saves its elements while it is read",
            "a pipeline that writes no files, or a cache or snapshot",
            "save the data in a separate script",
        )
    if node.kind == "cache" and not node.is_memory_cache:
        if node.is_complete_file_cache:
            return rebuild(dataset, inputs)
        target = str(Path(tempfile.mkdtemp(prefix="cache", dir=directory), "cache"))
        return copy_with_fields(dataset, inputs, kind_of(dataset), filename=tf.constant(target))
    if node.kind == "snapshot":
        path = tempfile.mkdtemp(prefix="snapshot", dir=directory)
        return copy_with_fields(dataset, inputs, kind_of(dataset), path=path)
    return rebuild(dataset, inputs) if inputs else dataset


def create_trial_copy(dataset: Any | None, scratch_folder: str | Path) -> Pipeline | None:
    """A copy of the pipeline of a dataset, for trials; None when there is no dataset.

    It shares no shuffle counter, no cache and no file with the original.

    Raises:
        WrongUse: A trial would overwrite files of the script.
    """
    if dataset is None:
        return None
    pipeline = read_pipeline(dataset)
    try:
        return redirect_files(copy_pipeline(pipeline), Path(scratch_folder))
    except EditRefused as refusal:
        raise WrongUse(
            f"a trial would overwrite files of this pipeline: {refusal.received}",
            "a pipeline that Uncork can run without changing its files",
            "run the training once without Uncork so that its cache is complete",
        ) from refusal
