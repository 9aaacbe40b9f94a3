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
from uncork.core.evidence.storage import FOLDER_PREFIX
from uncork.engine.apply.memory_budget import times_as_much
from uncork.pipeline.ir.cache_files import check_folder
from uncork.pipeline.ir.tree import Pipeline, read
from uncork.pipeline.runtime.resume_state import continued
from uncork.pipeline.transforms.disk_cache import files_complete, without_place_holders
from uncork.training.variant import Version


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
                check_folder(edit.folder, edit.bytes)
        except EditRefused as refusal:
            if strict:
                raise
            sys.stderr.write(
                f"uncork: {at} trains without its cache in files: {refusal.received}; "
                f"{refusal.remedy}\n"
            )
            return without_files(plan, pipeline)
    return continued(_edited(edits, pipeline)).dataset


def without_files(plan: Plan, pipeline: Pipeline) -> Any:
    """The dataset as planned, but that nothing is kept in files."""
    edits = [replace(e, folder="") if isinstance(e, DiskCache) else e for e in plan.pipeline_edits]
    return continued(without_place_holders(_edited(tuple(edits), pipeline))).dataset


class FirstReaders:
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

    def of(self, dataset: Any, edited: Any) -> Any:
        """What to read: the edited dataset, or, while somebody fills its files, one without them.

        Args:
            dataset: As the script made it.
            edited: What was made of it; held by whoever asks.
        """
        if edited is dataset or not _in_files(self._plan.pipeline_edits):
            return edited
        if files_complete(read(edited)):
            return edited
        filling = self._filling.get(id(edited))
        if filling is not None and filling() is not None:
            return without_files(self._plan, read(dataset))
        handed = copy.copy(edited)
        self._filling[id(edited)] = ref(handed)
        return handed


def files_failed(plan: Plan, error: BaseException | None) -> str:
    """What to say of an error that the files of a cache have led to; empty where it was another."""
    for edit in _in_files(plan.pipeline_edits):
        if edit.folder and f"{edit.folder.rstrip('/')}/{FOLDER_PREFIX}" in str(error):
            return (
                f"the error above is of the cache that the plan keeps in files in {edit.folder}: "
                f"it needs about {edit.bytes / 1e9:.3g} GB there; make room, or tune again without "
                "--disk-cache"
            )
    return ""


def _for_now(edit: PipelineEdit, plan: Plan, pipeline: Pipeline) -> PipelineEdit:
    """Room for as much as there is by now, where an edit asks for room on a disk."""
    if not isinstance(edit, DiskCache):
        return edit
    times = times_as_much(plan.before.stages, pipeline, edit.stage)
    return replace(edit, bytes=round(times * edit.bytes))


def _in_files(edits: tuple[PipelineEdit, ...]) -> list[DiskCache]:
    return [edit for edit in edits if isinstance(edit, DiskCache)]


def _edited(edits: tuple[PipelineEdit, ...], pipeline: Pipeline) -> Pipeline:
    edited = Version(pipeline).with_pipeline_edits(edits).pipeline
    assert edited is not None
    return edited
