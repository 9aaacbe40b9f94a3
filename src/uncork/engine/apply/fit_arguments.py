"""What a ``fit`` is given under a plan."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from uncork.capture.base.listener import FitCall, LoopCall, StepCall
from uncork.compat.keras3.model_state import strategy_of
from uncork.core.base.errors import EditRefused, PlanRefused
from uncork.core.documents.plan import Plan
from uncork.core.documents.workload import Workload
from uncork.core.edits.pipeline import PipelineEdit, PyFunctionCache
from uncork.core.edits.step import PadArguments
from uncork.engine.apply.disk_cache_space import planned_dataset
from uncork.engine.apply.machine_match import (
    check_backend,
    check_memory,
    check_precision,
    check_threads,
)
from uncork.engine.apply.memory_budget import check_cache_memory
from uncork.engine.apply.plan_match import plan_differences
from uncork.pipeline.ir.tree import Pipeline, read_pipeline
from uncork.pipeline.runtime.resume_state import continue_shuffles
from uncork.training.callbacks.batch_hooks import batch_callback_names
from uncork.training.input.feed import DEFAULT_BATCH_SIZE, Feed
from uncork.training.input.loader_edits import check_loader, select_py_dataset_edits
from uncork.training.input.validation import configured_validation_steps
from uncork.training.run.edit_checks import check_edits
from uncork.training.run.planned_step import PlannedStep
from uncork.training.run.signature import model_signature
from uncork.training.variant import Variant


def planned_data(plan: Plan, call: FitCall, validation: Pipeline | None, *, strict: bool) -> Any:
    """The data to train on; everything is checked before anything is changed.

    Args:
        plan: Made for this training.
        call: The one that was reached.
        validation: From :func:`planned_validation`.
        strict: No room for files on the disk is an error.

    Raises:
        PlanRefused: The plan does not fit.
        EditRefused: Likewise.
    """
    feed = Feed.from_arguments(call.arguments)
    pipeline = None if feed.dataset is None else read_pipeline(feed.dataset)
    check_backend(plan)
    check_threads(plan)
    check_memory(plan)
    changed = plan_differences(plan, _found(plan, call, feed, pipeline))
    if changed:
        raise PlanRefused(
            "the plan does not fit this training:" + "".join(f"\n    {c}" for c in changed),
            "the training that was tuned",
            "run 'uncork tune' again to make a plan for this one",
        )
    check_edits(call.model, plan.step_edits)
    check_precision(plan)
    for loader_edit in select_py_dataset_edits(plan.loader_edits):
        check_loader(feed.x, loader_edit)
        _check_whole_epochs(feed)
    if any(isinstance(edit, PyFunctionCache) for edit in plan.pipeline_edits):
        _check_whole_epochs(feed)
    check_cache_memory(plan, pipeline, validation)
    if pipeline is None or not plan.pipeline_edits:
        return call.arguments["x"]
    return planned_dataset(plan, pipeline, call.at, strict=strict)


def planned_validation(plan: Plan, call: FitCall) -> Pipeline | None:
    """What a plan edits of the data to validate on; None where there is nothing to do.

    Raises:
        PlanRefused: It is another one than the plan was made for.
    """
    given = call.arguments.get("validation_data")
    if given is None or not plan.validation_edits:
        return None
    data, _, _ = keras.utils.unpack_x_y_sample_weight(given)
    pipeline = read_pipeline(data) if isinstance(data, tf.data.Dataset) else None
    steps = configured_validation_steps(call.arguments)
    if pipeline is None or pipeline.digest != plan.validation_pipeline_digest or steps:
        raise PlanRefused(
            "the plan does not fit this training: its validation data has changed (pipeline "
            "structure, functions or validation_steps)",
            "the validation data that was tuned",
            "run 'uncork tune' again to make a plan for this one",
        )
    return pipeline


def validation_arguments(
    planned_step: PlannedStep, arguments: Mapping[str, Any], at: str, *, strict: bool
) -> dict[str, Any]:
    """What a planned step is validated on, by the name of the argument; nothing where as written.

    Args:
        planned_step: That trains.
        arguments: Of its ``fit``.
        at: ``file.py:line`` of the call.
        strict: Other data than the plan was made for is an error.

    Raises:
        EditRefused: It is other data.
    """
    try:
        return planned_step.validation_arguments(arguments)
    except EditRefused as refusal:
        if strict:
            raise
        sys.stderr.write(f"uncork: {at} uses its original validation data: {refusal}\n")
        return {}


def pads_other_data(plan: Plan, call: LoopCall | StepCall) -> bool:
    """What a plan fills arguments up with was read off another pipeline than this loop's."""
    if not any(isinstance(edit, PadArguments) for edit in plan.step_edits):
        return False
    meant = plan.before.workload.pipeline_digest
    return not isinstance(call, LoopCall) or read_pipeline(call.dataset).digest != meant


def edited_dataset(edits: tuple[PipelineEdit, ...], pipeline: Pipeline) -> Any:
    """The edited dataset, which goes on drawing where the user's would."""
    edited = Variant(pipeline).with_pipeline_edits(edits).pipeline
    assert edited is not None
    return continue_shuffles(edited).dataset


def batch_size_arguments(plan: Plan, feed: Feed, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes of the batches that arrays are cut into; the validation's stay as they are."""
    if plan.batch_multiplier == 1 or feed.kind != "numpy":
        return {}
    size = feed.batch_size or DEFAULT_BATCH_SIZE
    return {
        "batch_size": size * plan.batch_multiplier,
        "validation_batch_size": arguments.get("validation_batch_size") or size,
    }


def count_array_batches(feed: Feed) -> int | None:
    """Batches that Keras cuts arrays into; None of other data."""
    first = next(iter(keras.tree.flatten(feed.x)), None) if feed.kind == "numpy" else None
    shape = getattr(first, "shape", None)
    return -(-int(shape[0]) // (feed.batch_size or DEFAULT_BATCH_SIZE)) if shape else None


def _found(plan: Plan, call: FitCall, feed: Feed, pipeline: Pipeline | None) -> Workload:
    """What was reached, as far as a plan depends on it."""
    given = feed.steps_per_epoch
    length = count_array_batches(feed) or plan.before.workload.steps_per_epoch
    if pipeline is not None:
        length = pipeline.cardinality if pipeline.cardinality >= 0 else None
    return Workload(
        index=call.index,
        at=call.at,
        kind="fit",
        data_kind=feed.kind,
        model=model_signature(call.model),
        element_spec=feed.spec,
        batch_size=(feed.batch_size or DEFAULT_BATCH_SIZE) if feed.kind == "numpy" else None,
        steps_per_epoch=length if given is None else given,
        has_explicit_steps=given is not None,
        validation_steps=configured_validation_steps(call.arguments),
        epochs=1,
        pipeline_digest=pipeline.digest if pipeline else "",
        batch_callbacks=batch_callback_names(call.arguments.get("callbacks")),
        is_distributed=strategy_of(call.model) is not None,
    )


def _check_whole_epochs(feed: Feed) -> None:
    if feed.steps_per_epoch is not None:
        raise EditRefused(
            f"fit is given steps_per_epoch={feed.steps_per_epoch}",
            "epochs that start with the first element of the data",
            "remove this argument, or tune again with it",
        )
