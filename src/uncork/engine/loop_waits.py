"""What a loop of the user's own does beside its step: it waits for values, evaluates, predicts."""

from __future__ import annotations

from typing import Final

from uncork.core.facts import Answering, Waiting
from uncork.engine.call_proofs import spared_s
from uncork.engine.version import VersionRunner
from uncork.measure.keras_calls import keras_calls
from uncork.measure.waits import waits

# Calls of Keras's methods that are made again to see what is spared of them.
_TIMED_CALLS: Final = 2


def waiting_in(runner: VersionRunner, seconds: float) -> Waiting:
    """What part of the time the loop waits for values of its step."""
    with waits() as found:
        block = runner.block(seconds)
    whole_s = block.warmup_s + block.wall_s
    return Waiting(share=min(1.0, found.seconds / whole_s), at=found.at)


def answering_in(runner: VersionRunner, seconds: float) -> Answering | None:
    """What part of the time passes in calls of ``evaluate`` and ``predict``."""
    with keras_calls() as found:
        block = runner.block(seconds)
    if not found.count:
        return None
    whole_s = block.warmup_s + block.wall_s
    each_s = [spared_s(call) for call in list(found.last)[-_TIMED_CALLS:]]
    all_s = sum(each_s) / max(1, len(each_s)) * found.repeatable
    return Answering(
        share=min(1.0, found.seconds / whole_s),
        calls=found.count / max(1, block.steps),
        spared=min(1.0, all_s / found.seconds),
        tracing=min(1.0, found.traced_s / whole_s),
        at=found.at,
    )
