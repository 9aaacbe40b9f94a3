"""Where the schedule of a larger batch stands from one ``fit`` to the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary

from uncork.capture.base.listener import FitCall
from uncork.core.documents.plan import Plan

# Of the steps that a training must have made to go on with a plan, how many may be missing.
_OFF: Final = 0.1
# What optimizers had counted when their steps of a larger batch began, and when these ended.
_STEPS: Final[WeakKeyDictionary[Any, tuple[int, int]]] = WeakKeyDictionary()


def schedule_start_step(plan: Plan, call: FitCall) -> int | None:
    """What the optimizer had counted when the steps of a larger batch began; None of any other.

    What is traced in one ``fit`` and in the next has its schedule at the same place then, if
    nothing else has trained the model between them.
    """
    if plan.batch_multiplier == 1:
        return None
    if is_resumed(plan, call):
        return 0
    now = int(call.model.optimizer.iterations)
    begun, ended = _STEPS.get(call.model.optimizer, (now, now))
    return begun if ended == now else now


@contextmanager
def track_schedule(optimizer: Any, start_step: int | None) -> Iterator[None]:
    """Remember where the steps of a larger batch end, however the ``fit`` inside the block does."""
    try:
        yield
    finally:
        if start_step is not None:
            _STEPS[optimizer] = start_step, int(optimizer.iterations)


def is_resumed(plan: Plan, call: FitCall) -> bool:
    """A training under a plan for larger batches was stopped, and goes on from a checkpoint."""
    epoch = int(call.arguments.get("initial_epoch") or 0)
    steps, times = plan.before.workload.steps_per_epoch, plan.batch_multiplier
    if not (epoch and steps) or times == 1:
        return False
    expected = epoch * -(-steps // times)
    return abs(int(call.model.optimizer.iterations) - expected) <= _OFF * expected
