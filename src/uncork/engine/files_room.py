"""A cache in files when its training comes: there is room for it, or it is left out aloud."""

from __future__ import annotations

import sys
from typing import Any

from uncork.core.edit import DiskCache, PipelineEdit
from uncork.core.errors import EditRefused
from uncork.core.plan import Plan
from uncork.core.record import replace
from uncork.engine.pipelines import times_as_much
from uncork.engine.version import Version
from uncork.pipeline import (
    Pipeline,
    being_filled,
    check_folder,
    continued,
    read,
    without_place_holders,
)


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
    edits = plan.pipeline_edits
    if _in_files(edits):
        try:
            for edit in _in_files(edits):
                times = times_as_much(plan.before.stages, pipeline, edit.stage)
                check_folder(edit.folder, round(times * edit.bytes))
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


def for_another_reader(plan: Plan, dataset: Any, edited: Any) -> Any:
    """The edited dataset, or, while somebody fills its files, one that keeps nothing.

    TensorFlow lets nobody begin another pass over a cache in files before the first has ended: that
    pass would end in an error.

    Args:
        plan: With pipeline edits.
        dataset: As the script made it.
        edited: What was made of it.
    """
    if _in_files(plan.pipeline_edits) and edited is not dataset and being_filled(read(edited)):
        return without_files(plan, read(dataset))
    return edited


def files_failed(plan: Plan, error: BaseException | None) -> str:
    """What to say of an error that the files of a cache have led to; empty where it was another."""
    for edit in _in_files(plan.pipeline_edits):
        if edit.folder and f"{edit.folder.rstrip('/')}/uncork-cache-" in str(error):
            return (
                f"the error above is of the cache that the plan keeps in files in {edit.folder}: "
                f"it needs about {edit.bytes / 1e9:.3g} GB there; make room, or tune again without "
                "--disk-cache"
            )
    return ""


def _in_files(edits: tuple[PipelineEdit, ...]) -> list[DiskCache]:
    return [edit for edit in edits if isinstance(edit, DiskCache)]


def _edited(edits: tuple[PipelineEdit, ...], pipeline: Pipeline) -> Pipeline:
    edited = Version(pipeline).with_pipeline_edits(edits).pipeline
    assert edited is not None
    return edited
