"""Is a training the same on batches, or a loop on arguments, that are padded further?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from uncork.compat.random_state import random_state, set_random_state
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import find_loosest_guarantee
from uncork.core.edits.step import PadArguments, PadLengths, StepEdit
from uncork.core.evidence.batches import VaryingAxis
from uncork.training.input.feed import Feed, iterate_executions
from uncork.training.loop_step.graph_state import GraphState
from uncork.training.loop_step.loop_step import CallArguments
from uncork.training.memory.batch_independence import (
    disable_random_layers,
    has_per_example_randomness,
    micro_batch_refusal,
)
from uncork.training.run.replay import BatchRecording, run_replay
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot
from uncork.training.transforms.batch_shapes import BatchShapes, pad_shapes
from uncork.training.transforms.padded_arguments import describe_call_form, read_argument_shapes
from uncork.verify.provers.data_orders import sample_order
from uncork.verify.provers.fit_step import StepProver

# Batches that are looked at, and of these compared at most: XLA compiles the step for each of their
# shapes.
_RECORDED: Final = {"max_batches": 64, "max_bytes": 256 << 20}
_COMPARED: Final = 8
_STEPS: Final = 8
# Relative and absolute. Of tokens Keras's metrics weigh what a batch tells by all its positions,
# masked ones too: a mean over batches of many lengths is another one, and most often by more.
METRIC_TOLERANCE: Final = 3e-3
_NOTHING: Final = "none of the first batches is padded in axis {axis} of tensor {tensor}"
_DRAWN: Final = "without dropout, which draws more random numbers for longer rows"


def prove_padded(
    model: Any,
    snapshot: Snapshot,
    step_edits: tuple[tuple[StepEdit, ...], tuple[StepEdit, ...]],
    batch_pairs: Any,
    validation_feed: Feed | None,
    budget_s: float,
) -> Proof:
    """Compare weights, and what the training tells of itself, after the same steps.

    What fills batches up must count nowhere: masked in the layers, in the loss and in the metrics.

    Args:
        model: The user's.
        snapshot: Where both start.
        step_edits: Edits of the step as it is, and as it is to be.
        batch_pairs: Of batches, from
            :meth:`~uncork.training.run.step_settings.StepSettings.in_two`.
        validation_feed: What the training is validated on; None where that may not be tried.
        budget_s: Seconds.
    """
    until = time.monotonic() + budget_s
    edit = next(edit for edit in step_edits[1] if isinstance(edit, PadLengths))
    recording, untold = _telling(BatchRecording.from_pairs(batch_pairs, **_RECORDED), edit.axes)
    held_out = None
    if edit.has_validation and not untold:
        held_out, untold = _held_out(StepSettings(model, step_edits[1]), validation_feed, edit.axes)
    if untold:
        return Proof(kind="rounding", passed=False, detail=untold)
    drawn = has_per_example_randomness(model) and micro_batch_refusal(model) is None
    with disable_random_layers(model) if drawn else nullcontext():
        original, edited = (StepSettings(model, edits) for edits in step_edits)
        recording = _affordable(original, snapshot, recording, len(edit.axes), budget_s)
        left_s = until - time.monotonic()
        proof = StepProver(original, snapshot, recording).prove(edited, "rounding", left_s)
        others = ""
        if proof.passed:
            others = _told_otherwise(original, edited, snapshot, recording)
        if held_out and proof.passed and not others:
            held_out = held_out.first_batches(len(recording.batches))
            others = _told_otherwise(original, edited, snapshot, held_out, validates=True)
    if others:
        return replace(proof, passed=False, detail=others)
    kind = find_loosest_guarantee(proof.kind, "resampled" if drawn else "rounding")
    return replace(proof, kind=kind, detail=f"{proof.detail}; {_DRAWN}" if drawn else proof.detail)


def _held_out(
    edited: StepSettings, validated: Feed | None, axes: Sequence[VaryingAxis]
) -> tuple[BatchRecording | None, str]:
    """As :func:`_telling`, of what the training is validated on."""
    if validated is None:
        return None, "the validation data cannot be tried in this process"
    found, untold = _telling(
        BatchRecording.from_pairs(edited.batch_pairs(validated), **_RECORDED), axes
    )
    return found, untold and f"{untold}, of the validation data"


def compared_batch_count(step_s: float, budget_s: float, axis_count: int) -> int:
    """How many batches can be compared, of which each shape is compiled for both sides.

    Those that tell something of each axis are in any case.

    Args:
        step_s: What one takes of a shape that is new.
        budget_s: Seconds; of these, half may go into compiling.
        axis_count: That are filled up.

    Example:
        >>> [compared_batch_count(step_s, 90.0, axis_count=1) for step_s in (0.5, 5.0, 60.0)]
        [8, 4, 2]
    """
    return max(2 * axis_count, min(_COMPARED, int(budget_s / 2 / (2 * step_s))))


def _affordable(
    original: StepSettings,
    snapshot: Snapshot,
    recording: BatchRecording,
    axes: int,
    budget_s: float,
) -> BatchRecording:
    """The first batches of a recording, as many as there is time to compile for."""
    start = time.monotonic()
    try:
        run_replay(original, snapshot, recording.feed((0,)))
    finally:
        snapshot.restore_values()
    most = compared_batch_count(time.monotonic() - start, budget_s, axes)
    return recording.first_batches(most)


def _told_otherwise(
    original: StepSettings,
    edited: StepSettings,
    snapshot: Snapshot,
    recording: BatchRecording,
    *,
    validates: bool = False,
) -> str:
    """What counts what batches are filled up with, of all that steps tell; ``""`` if nothing does.

    That are Keras's metrics, or what a ``train_step`` of the user's own makes.
    """
    order = sample_order(len(recording.batches), _STEPS, seed=0)
    as_it_is, filled = (
        _told(settings, snapshot, recording.feed(order, for_variant=settings is edited), validates)
        for settings in (original, edited)
    )
    others = [
        name for name in as_it_is if name not in filled or not _alike(as_it_is[name], filled[name])
    ]
    who = "validation" if validates else "training"
    return f"the {who} reports another {', '.join(others)}" if others else ""


def _told(
    settings: StepSettings, snapshot: Snapshot, feed: Feed, validates: bool
) -> dict[str, list[Any]]:
    """By name what the steps of a training, or of a validation, tell one after the other."""
    model, found = settings.model, dict[str, list[Any]]()
    snapshot.restore_values()
    try:
        with settings.active(), feed.open_epoch_iterator(model) as epochs:
            model.reset_metrics()
            if validates:
                model.make_test_function()
            step = model.test_function if validates else model.train_function
            with epochs.catch_stop_iteration():
                for _, _, iterator in iterate_executions(epochs):
                    for name, value in step(iterator).items():
                        parts = keras.tree.flatten(value)
                        found.setdefault(name, []).extend(map(np.asarray, parts))
    finally:
        snapshot.restore_values()
    return found


def _alike(ours: list[Any], theirs: list[Any]) -> bool:
    pairs = zip(ours, theirs, strict=False)
    return len(ours) == len(theirs) and all(
        a.shape == b.shape
        and np.allclose(a, b, rtol=METRIC_TOLERANCE, atol=METRIC_TOLERANCE, equal_nan=True)
        for a, b in pairs
    )


def _telling(recording: BatchRecording, axes: Sequence[VaryingAxis]) -> tuple[BatchRecording, str]:
    """Those batches of a recording, as of :func:`select_padded_batches`."""
    before, after = (
        [read_argument_shapes(tf.nest.flatten(batch)) for batch in each]
        for each in (recording.batches, recording.variant_batches)
    )
    numbers, untold = select_padded_batches(before, after, axes)
    return BatchRecording(
        tuple(recording.batches[n] for n in numbers),
        tuple(recording.variant_batches[n] for n in numbers),
    ), untold


def select_padded_batches(
    original_shapes: Sequence[BatchShapes],
    padded_shapes: Sequence[BatchShapes],
    axes: Sequence[VaryingAxis],
) -> tuple[list[int], str]:
    """For each axis the batches that are filled up most, and get longest; then the first ones.

    Args:
        original_shapes: Shapes of each batch as it is.
        padded_shapes: And filled up.
        axes: That are.

    Returns:
        Their numbers, and in which axis none of them is filled up; ``""`` where there is none.

    Example:
        >>> axes = (VaryingAxis(tensor_index=0, axis=1, max_length=20),)
        >>> select_padded_batches(
        ...     [((2, 8),), ((2, 5),), ((2, 12),)], [((2, 8),), ((2, 8),), ((2, 16),)], axes
        ... )
        ([2, 0, 1], '')
        >>> select_padded_batches([((2, 8),)], [((2, 8),)], axes)[1]
        'none of the first batches is padded in axis 1 of tensor 0'
    """

    def grown(each: VaryingAxis, n: int) -> int:
        return (
            padded_shapes[n][each.tensor_index][each.axis]
            - original_shapes[n][each.tensor_index][each.axis]
        )

    every, chosen = range(len(original_shapes)), list[int]()
    if not original_shapes:
        return [], "no batch was recorded"
    for each in axes:
        chosen.append(max(every, key=lambda n: grown(each, n)))
        chosen.append(max(every, key=lambda n: padded_shapes[n][each.tensor_index][each.axis]))
    numbers = [*dict.fromkeys([*chosen, *every])][:_COMPARED]
    untold = (
        _NOTHING.format(axis=each.axis, tensor=each.tensor_index)
        for each in axes
        if not any(grown(each, n) for n in numbers)
    )
    return numbers, next(untold, "")


_AS_LONG: Final = "the step returns a value that is as long as its arguments"


def select_padded_calls(
    calls: Sequence[CallArguments], edit: PadArguments
) -> tuple[list[CallArguments], str]:
    """Of recorded calls those that are filled up most, and get longest.

    Returns:
        These, and in which axis none of them is filled up; ``""`` where there is none.
    """
    calls = [
        (args, kwargs)
        for args, kwargs in calls
        if describe_call_form(args, kwargs) == edit.call_signature
    ]
    before = [read_argument_shapes(tf.nest.flatten(call)) for call in calls]
    after = [pad_shapes(shapes, edit.axes, edit.multiple) for shapes in before]
    numbers, untold = select_padded_batches(before, after, edit.axes)
    return [calls[n] for n in numbers], untold


def returned_value_difference(
    original: Callable[..., Any],
    padded: Callable[..., Any],
    calls: Sequence[CallArguments],
    state: GraphState,
) -> str:
    """What the step gives back counts what its arguments are filled up with; ``""`` if not.

    Args:
        original: The step.
        padded: The same on longer arguments.
        calls: Of it.
        state: Where both begin; it is not given back.
    """
    random, found = random_state(), list[list[Any]]()
    for function in (original, padded):
        set_random_state(random)
        state.restore()
        found.append([_returned(function(*args, **kwargs)) for args, kwargs in calls])
    for one, other in zip(*found, strict=True):
        if [value.shape for value in one] != [value.shape for value in other]:
            return _AS_LONG
        if not all(map(_equal_results, one, other)):
            return "the step returns other values"
    return ""


def _returned(found: Any) -> list[Any]:
    return [np.asarray(value) for value in tf.nest.flatten(found, expand_composites=True)]


def _equal_results(one: Any, other: Any) -> bool:
    if one.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    return bool(
        np.allclose(one, other, rtol=METRIC_TOLERANCE, atol=METRIC_TOLERANCE, equal_nan=True)
    )
