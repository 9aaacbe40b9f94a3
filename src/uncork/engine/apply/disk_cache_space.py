"""A cache in files when its training comes: there is room for it, or it is left out aloud."""

from __future__ import annotations

import copy
import sys
from typing import Any
from weakref import ReferenceType, ref

from uncork.core.base.errors import EditRefused
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan
from uncork.core.edits.pipeline import DiskCache, PipelineEdit
from uncork.core.evidence.storage import CACHE_FOLDER_PREFIX
from uncork.engine.apply.memory_budget import data_growth
from uncork.pipeline.ir.cache_files import check_cache_folder
from uncork.pipeline.ir.tree import Pipeline, read_pipeline
from uncork.pipeline.runtime.resume_state import continue_shuffles
from uncork.pipeline.transforms.disk_cache import (
    has_complete_disk_caches,
    remove_cache_placeholders,
)
from uncork.training.variant import Variant


def planned_dataset(plan: Plan, pipeline: Pipeline, at: str, *, strict: bool) -> Any:
    """The edited dataset, which goes on drawing where the user's would.

    A cache in files that has no room now is left out: what it was to keep is made anew in each
    epoch, and all else is as planned.

    Args:
        plan: With pipeline edits.
        pipeline: That they are for.
        at: ``file.py:line`` of the training, for messages.
        strict: No room is an error.

    Raises:
        EditRefused: The pipeline is not what an edit expects; or there is no room, and ``strict``.
    """
    edits = tuple(_for_now(edit, plan, pipeline) for edit in plan.pipeline_edits)
    if _in_files(edits):
        try:
            for edit in _in_files(edits):
                check_cache_folder(edit.folder, edit.size_bytes)
        except EditRefused as refusal:
            if strict:
                raise
            sys.stderr.write(
                f"uncork: {at} trains without its disk cache: {refusal.received}; "
                f"{refusal.remedy}\n"
            )
            return without_disk_cache(plan, pipeline)
    return continue_shuffles(_edited(edits, pipeline)).dataset


def without_disk_cache(plan: Plan, pipeline: Pipeline) -> Any:
    """The dataset as planned, but that nothing is kept in files."""
    edits = [replace(e, folder="") if isinstance(e, DiskCache) else e for e in plan.pipeline_edits]
    return continue_shuffles(remove_cache_placeholders(_edited(tuple(edits), pipeline))).dataset


class DiskCacheReaders:
    """Who fills the files of a cache: one reader at a time, until they are complete.

    TensorFlow ends the pass of anybody else who begins before, with an error. An iterator that was
    made fills them from its first element on, whenever that is, so it counts from the start; one
    that is gone left nothing behind.

    Args:
        plan: With pipeline edits.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        # Of each edited dataset, what was handed out last: its iterator keeps it alive.
        self._filling: dict[int, ReferenceType[Any]] = {}

    def dataset_for(self, dataset: Any, edited_dataset: Any) -> Any:
        """What to read: the edited dataset, or, while somebody fills its files, one without them.

        Args:
            dataset: As the script made it.
            edited_dataset: What was made of it; held by whoever asks.
        """
        if edited_dataset is dataset or not _in_files(self._plan.pipeline_edits):
            return edited_dataset
        if has_complete_disk_caches(read_pipeline(edited_dataset)):
            return edited_dataset
        filling = self._filling.get(id(edited_dataset))
        if filling is not None and filling() is not None:
            return without_disk_cache(self._plan, read_pipeline(dataset))
        handed = copy.copy(edited_dataset)
        self._filling[id(edited_dataset)] = ref(handed)
        return handed


def disk_cache_error_hint(plan: Plan, error: BaseException | None) -> str:
    """What to say of an error that the files of a cache have led to; empty where it was another."""
    for edit in _in_files(plan.pipeline_edits):
        if edit.folder and f"{edit.folder.rstrip('/')}/{CACHE_FOLDER_PREFIX}" in str(error):
            return (
                f"the error above comes from the plan's disk cache in {edit.folder}: "
                f"it needs about {edit.size_bytes / 1e9:.3g} GB there; free disk space, or tune "
                "again "
                "without "
                "--disk-cache"
            )
    return ""


def _for_now(edit: PipelineEdit, plan: Plan, pipeline: Pipeline) -> PipelineEdit:
    """Room for as much as there is by now, where an edit asks for room on a disk."""
    if not isinstance(edit, DiskCache):
        return edit
    times = data_growth(plan.before.stages, pipeline, edit.stage)
    return replace(edit, size_bytes=round(times * edit.size_bytes))


def _in_files(edits: tuple[PipelineEdit, ...]) -> list[DiskCache]:
    return [edit for edit in edits if isinstance(edit, DiskCache)]


def _edited(edits: tuple[PipelineEdit, ...], pipeline: Pipeline) -> Pipeline:
    edited = Variant(pipeline).with_pipeline_edits(edits).pipeline
    assert edited is not None
    return edited
