"""Why a script ended without any training that could be worked on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from uncork.core.base.errors import NothingToMeasure, UncorkError, WrongUse
from uncork.core.documents.workload import Workload

# Steps below which a training call is not worth a look: a smoke test, a model being built.
LEAST_STEPS: Final = 4


def does_real_work(workload: Workload) -> bool:
    """Enough steps to be measured, or an unknown number of them."""
    if workload.steps_per_epoch is None:
        return True
    return workload.steps_per_epoch * workload.epochs >= LEAST_STEPS


def nothing_reached(reached: Sequence[Workload], training: int | None) -> UncorkError:
    """The error to end with.

    Args:
        reached: Training calls met.
        training: The one asked for, if any.
    """
    if not reached:
        return NothingToMeasure(
            "the script ended without training: no Model.fit, no loop over a tf.data.Dataset that "
            "computes gradients, no step that moves an optimizer again and again",
            "a script that trains with Keras 3 on the TensorFlow backend",
            "check its arguments: does it train when started with plain python?",
        )
    calls = "".join(f"\n    {line(w)}" for w in reached)
    if training is not None and training not in [w.index for w in reached]:
        return WrongUse(
            f"there is no training call {training}; reached were:{calls}",
            "--training with one of these numbers",
            f"--training {reached[0].index}",
        )
    return NothingToMeasure(
        f"no training call does enough work to be measured; reached were:{calls}",
        f"at least {LEAST_STEPS} steps, and more where calls stand in a loop",
        "train longer, with more data or more epochs, or choose one: "
        f"--training {reached[0].index}",
    )


def line(workload: Workload) -> str:
    """One training call in a list."""
    steps = "an unknown number of" if workload.steps_per_epoch is None else workload.steps_per_epoch
    what = "Model.fit" if workload.kind == "fit" else "custom loop"
    return f"{workload.index}: {workload.at}  {what}, {steps} steps x {workload.epochs} epochs"
