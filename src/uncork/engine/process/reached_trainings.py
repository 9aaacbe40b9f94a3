"""Why a script ended without any training that could be worked on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from uncork.core.base.errors import NothingToMeasure, UncorkError, WrongUse
from uncork.core.documents.workload import Workload

# Steps below which a training call is not worth a look: a smoke test, a model being built.
MIN_TRAINING_STEPS: Final = 4


def does_real_work(workload: Workload) -> bool:
    """Enough steps to be measured, or an unknown number of them."""
    if workload.steps_per_epoch is None:
        return True
    return workload.steps_per_epoch * workload.epochs >= MIN_TRAINING_STEPS


def no_training_error(reached_workloads: Sequence[Workload], training: int | None) -> UncorkError:
    """The error to end with.

    Args:
        reached_workloads: Training calls met.
        training: The one asked for, if any.
    """
    if not reached_workloads:
        return NothingToMeasure(
            "the script ended without training: no Model.fit, no loop over a tf.data.Dataset that "
            "computes gradients, no step that updates an optimizer repeatedly",
            "a script that trains with Keras 3 on the TensorFlow backend",
            "check its arguments: does it train when started with plain python?",
        )
    calls = "".join(f"\n    {format_training(w)}" for w in reached_workloads)
    if training is not None and training not in [w.index for w in reached_workloads]:
        return WrongUse(
            f"there is no training call {training}; the script reached:{calls}",
            "--training with one of these numbers",
            f"--training {reached_workloads[0].index}",
        )
    return NothingToMeasure(
        f"no training call is long enough to be measured; the script reached:{calls}",
        f"at least {MIN_TRAINING_STEPS} steps, and more if calls are in a loop",
        "train longer, with more data or more epochs, or choose one: "
        f"--training {reached_workloads[0].index}",
    )


def format_training(workload: Workload) -> str:
    """One training call in a list."""
    steps = "an unknown number of" if workload.steps_per_epoch is None else workload.steps_per_epoch
    what = "Model.fit" if workload.kind == "fit" else "custom loop"
    return f"{workload.index}: {workload.at}  {what}, {steps} steps x {workload.epochs} epochs"
