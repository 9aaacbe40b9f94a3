"""A cache in files that Uncork owns, and the same pipeline without it."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import rebuild
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import DiskCache
from uncork.pipeline.ir.builders import add_rewrite_barrier, file_cache
from uncork.pipeline.ir.cache_files import create_cache_files
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.parallel_calls import set_open_parallel_calls
from uncork.pipeline.ir.tree import Pipeline, StageLocation, read_pipeline, rebuild_tree


def add_disk_cache(place: StageLocation, edit: DiskCache, input_dataset: Dataset) -> Dataset:
    """Cache elements in files; only a placeholder where the edit names no folder.

    Args:
        place: Of the stage whose elements are to be kept.
        edit: Says where, and how many bytes they take.
        input_dataset: Gives these elements.

    Raises:
        EditRefused: Several branches read them, or the folder cannot take them.
    """
    node, everywhere = place.node, place.pipeline.outermost.stage_locations
    readers = sum(each.node.dataset is node.dataset for each in everywhere)
    if readers > 1:
        raise EditRefused(
            f"{readers} branches read {node}, but TensorFlow lets only one of them write a "
            "file cache",
            "a part of the pipeline that is read once in each pass",
            "keep it unchanged",
        )
    return file_cache(
        input_dataset, create_cache_files(edit.folder, edit.size_bytes) if edit.folder else None
    )


def remove_cache_placeholders(pipeline: Pipeline) -> Pipeline:
    """The same, with all made anew that a cache in files without a place was to keep.

    Legal because a cache passes on what it is given. An empty barrier takes its place, so that
    TensorFlow fuses nothing that it kept apart.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.transforms.apply import apply_edit
        >>> numbers = read_pipeline(tf.data.Dataset.range(3).map(lambda x: x + 1).batch(2))
        >>> cached = apply_edit(numbers, DiskCache(stage=1, expected_digest=numbers.digest))
        >>> [node.kind for node in remove_cache_placeholders(cached).stages]
        ['range', 'map', 'options', 'batch']
    """

    def made(node: Node, inputs: Sequence[Dataset]) -> Dataset:
        if node.is_cache_placeholder:
            return add_rewrite_barrier(inputs[0])
        return rebuild(node.dataset, inputs) if inputs else node.dataset

    return read_pipeline(set_open_parallel_calls(rebuild_tree(pipeline.root, made)))


def fill_disk_caches(pipeline: Pipeline) -> None:
    """Read the elements once to fill the file caches; every later pass reads the files.

    Raises:
        EditRefused: It cannot be read or written to its end.
    """
    for place in pipeline.stage_locations:
        files = place.node.uncork_cache_files
        if files is None or files.is_complete:
            continue
        try:
            for _ in place.node.dataset:
                pass
        except tf.errors.OpError as error:
            raise EditRefused(
                f"Uncork could not write the file cache in {files.directory.parent.parent}: "
                f"{str(error).splitlines()[0]}",
                "a disk with free space, and elements that can be read without an error",
                "free disk space, or leave disk_cache out",
            ) from error


def has_complete_disk_caches(pipeline: Pipeline) -> bool:
    """All caches in files are full: from now on anybody may read them, several at once."""
    files = (place.node.uncork_cache_files for place in pipeline.stage_locations)
    return all(each.is_complete for each in files if each is not None)


def drop_cache_files_from_memory(pipeline: Pipeline | None) -> None:
    """Have the next pass read full caches in files from the disk, not from the system's memory."""
    for place in pipeline.stage_locations if pipeline is not None else ():
        if place.node.uncork_cache_files is not None and place.node.uncork_cache_files.is_complete:
            place.node.uncork_cache_files.drop_page_cache()
