"""What can be said of a training call the moment it is reached, before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.capture.base.listener import FitCall, LoopCall, StepCall
from uncork.core.documents.workload import Workload
from uncork.core.evidence.loop import StartupLine
from uncork.training.input.feed import Feed


def summarize_fit(call: FitCall) -> Workload:
    """What can be said of a call without touching its model or reading its data."""
    feed = Feed.from_arguments(call.arguments)
    epochs = int(call.arguments.get("epochs") or 1) - int(call.arguments.get("initial_epoch") or 0)
    steps = feed.steps_per_epoch
    if steps is None and feed.kind != "generator":
        steps = feed.create_epoch_iterator(call.model).num_batches
    return Workload(
        index=call.index,
        at=call.at,
        kind="fit",
        data_kind=feed.kind,
        model=None,
        element_spec=feed.spec,
        batch_size=None,
        steps_per_epoch=steps,
        epochs=epochs,
    )


# Where nobody knows how many: a second one decides what pays, and more change little.
DEFAULT_EPOCHS: Final = 2


def assumed_epochs_notes(epochs: int | None) -> Iterator[str]:
    """What the user should know where that is so."""
    if epochs is None:
        yield "the number of epochs of this loop is unknown: Uncork assumes later epochs"


def startup_lines_of(call: LoopCall | StepCall, epochs: int | None) -> tuple[StartupLine, ...]:
    """What took long before a loop began; against a training of unknown length it says nothing."""
    return call.startup_lines if epochs is not None else ()


def summarize_loop(call: LoopCall, epochs: int | None) -> Workload:
    """What can be said of a loop over a dataset; of so many epochs, None where nobody knows."""
    length = int(call.dataset.cardinality())
    return Workload(
        index=call.index,
        at=call.at,
        kind="custom_loop",
        data_kind="tf.data",
        model=None,
        element_spec="",
        batch_size=None,
        steps_per_epoch=length if length >= 0 else None,
        epochs=epochs or DEFAULT_EPOCHS,
        is_epoch_count_assumed=epochs is None,
        is_eager_step=call.evidence.has_eager_step,
    )


def summarize_step_loop(call: StepCall, epochs: int | None) -> Workload:
    """What can be said of a loop that calls its step itself; of so many epochs, None as above."""
    return Workload(
        index=call.index,
        at=call.at,
        kind="custom_loop",
        data_kind="other",
        model=None,
        element_spec="",
        batch_size=None,
        steps_per_epoch=None,
        epochs=epochs or DEFAULT_EPOCHS,
        is_epoch_count_assumed=epochs is None,
        is_eager_step=call.is_eager,
        step_setup_at=call.eager_at,
        dtype_policy_at=call.policy_at,
    )
