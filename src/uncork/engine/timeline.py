"""A timeline of the training as it runs, for whoever wants to look at it step by step."""

from __future__ import annotations

from typing import Final

from uncork.core.errors import told
from uncork.engine.subject import Subject
from uncork.measure.timeline import trace_into

# Steps, and the bounds of what they may take in seconds: a trace grows by megabytes a second.
_STEPS: Final = 30
_SHORTEST_S: Final = 0.2
_LONGEST_S: Final = 3.0


def keep_timeline(subject: Subject, folder: str, step_s: float) -> str | None:
    """Trace some steps of the original, its input and all.

    Args:
        subject: What is trained.
        folder: Of the user's, for TensorBoard.
        step_s: Of one step.

    Returns:
        Why there is none, where that is so.
    """
    seconds = min(_LONGEST_S, max(_SHORTEST_S, _STEPS * step_s))
    try:
        runner = subject.runner(subject.original)
        runner.prime()
        trace_into(folder, lambda: runner.block(seconds))
    except Exception as error:  # a script that profiles itself, a full disk: the figures stand
        return f"no timeline was kept: {told(error)}"
    return None
