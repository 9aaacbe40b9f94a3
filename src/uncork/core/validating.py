"""The validation of a ``fit``, seen as a training of its own; and what its speed is worth."""

from __future__ import annotations

import math

from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.measurement import Comparison
from uncork.core.record import replace


def as_training(diagnosis: WorkloadDiagnosis) -> WorkloadDiagnosis | None:
    """What is known of its input, where what is proposed for a training's can be asked of it.

    Args:
        diagnosis: Of the training.

    Returns:
        None where nothing is known of what feeds it.
    """
    found = diagnosis.validation
    if found is None or found.feed is None:
        return None
    feed = found.feed
    waiting = 1.0 - 1.0 / feed.resident
    workload = replace(
        diagnosis.workload,
        data="tf.data",
        pipeline=feed.pipeline,
        batch_size=round(feed.measurement.samples_per_s * feed.measurement.step_s.median),
        steps_per_epoch=feed.batches,
        steps_given=False,
        epochs=diagnosis.workload.epochs // found.every,
    )
    return WorkloadDiagnosis(
        workload=workload,
        measurement=feed.measurement,
        ceilings={"consumer": feed.measurement.samples_per_s * feed.resident},
        headroom=max(1.0, feed.resident),
        breakdown={"input": waiting, "host": 0.0, "step": 1.0 - waiting, "unknown": 0.0},
        consumer_cpu_s=feed.resident_cpu_s,
        together=diagnosis.together,
        stages=feed.stages,
        memory_available_bytes=diagnosis.memory_available_bytes,
    )


def epoch_gain(diagnosis: WorkloadDiagnosis, faster: float) -> float:
    """Speed-up of an epoch and its validation where the latter runs so many times as fast.

    Args:
        diagnosis: Of the training; of one whose length is not known nothing is promised.
        faster: Samples/s of the validation over those that it has now; above 0.
    """
    found, steps = diagnosis.validation, diagnosis.workload.steps_per_epoch
    if found is None or not steps:
        return 1.0
    return with_part_faster(steps * diagnosis.step_s, found.seconds / found.every, faster)


def with_part_faster(rest_s: float, part_s: float, faster: float) -> float:
    """Speed-up of a whole of which one part runs so many times as fast.

    Example:
        An epoch of 2 s is followed by a validation of 2 s, which comes to take 0.5 s:

        >>> with_part_faster(2.0, 2.0, faster=4.0)
        1.6
    """
    return (rest_s + part_s) / (rest_s + part_s / faster)


def epoch_comparison(
    diagnosis: WorkloadDiagnosis, found: Comparison, at_least: float
) -> Comparison:
    """The same of an epoch and its validation, where the latter was compared alone.

    Args:
        diagnosis: Of the training.
        found: Of the validation.
        at_least: A smaller gain of the whole is none.
    """
    ratio, low, high, detectable = (
        None if r is None else epoch_gain(diagnosis, r) if r > 0 else 0.0
        for r in (found.ratio, found.low, found.high, found.detectable)
    )
    assert ratio is not None
    assert low is not None
    faster = found.verdict == "faster" and low >= at_least
    lost = found.verdict == "slower"
    return replace(
        found,
        ratio=ratio,
        low=low,
        high=None if high is None or math.isinf(high) else high,
        detectable=detectable,
        verdict="faster" if faster else "slower" if lost else "not_proven",
    )


def with_faster_validation(diagnosis: WorkloadDiagnosis, faster: float) -> WorkloadDiagnosis:
    """The same with a validation that was edited, and now runs so many times as fast."""
    found = diagnosis.validation
    assert found is not None
    return replace(
        diagnosis,
        validation=replace(found, seconds=found.seconds / faster, feed=None),
    )
