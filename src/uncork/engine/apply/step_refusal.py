"""The step of a ``fit`` cannot run as planned: before its first steps, or in the middle of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

from uncork.capture.base.listener import FitCall
from uncork.engine.apply.plan_notices import PlanNotices

# Of an eager model, which are watched before the others run as a graph.
_FIRST_STEPS: Final = 2


def tell_step_refusal(notices: PlanNotices, call: FitCall, how: str) -> Callable[[str], None]:
    """What is to be told why a step cannot run as planned.

    Args:
        notices: Ends the script where the training has not begun.
        call: Its training, which is about to begin.
        how: Its step goes on.
    """
    begin = _update_count(call.model)

    def tell(why: str) -> None:
        begun = _update_count(call.model) - begin > _FIRST_STEPS
        notices.step_continues(call.at, how, why, has_begun=begun)

    return tell


def _update_count(model: Any) -> int:
    optimizer = getattr(model, "optimizer", None)
    with tf.init_scope():  # it may be told while the step is traced
        return 0 if optimizer is None else int(optimizer.iterations)
