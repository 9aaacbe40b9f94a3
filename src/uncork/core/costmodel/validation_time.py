"""The validation of a ``fit``, seen as a training of its own; and what its speed is worth."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from uncork.core.base.measurement import Comparison
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import WorkloadDiagnosis

# Of an epoch and its part of a validation, what the latter must take before its input is looked at.
WORTH_LOOKING: Final = 0.05


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
        epochs=found.times,
        default_rewrites=feed.default_rewrites,
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
    epoch_s, validating_s = seconds_of(diagnosis)
    return with_part_faster(epoch_s, validating_s, faster) if epoch_s else 1.0


def seconds_of(diagnosis: WorkloadDiagnosis) -> tuple[float, float]:
    """Of an epoch's training, 0 where its length is not known; and of its part of a validation."""
    found, steps = diagnosis.validation, diagnosis.workload.steps_per_epoch
    validating_s = found.seconds / found.every if found else 0.0
    return (steps or 0) * diagnosis.step_s, validating_s


def with_part_faster(rest_s: float, part_s: float, faster: float) -> float:
    """Speed-up of a whole of which one part runs so many times as fast.

    Example:
        An epoch of 2 s is followed by a validation of 2 s, which comes to take 0.5 s:

        >>> with_part_faster(2.0, 2.0, faster=4.0)
        1.6
    """
    return (rest_s + part_s) / (rest_s + part_s / faster)


def faster_for(rest_s: float, part_s: float, gain: float) -> float:
    """How many times as fast that part must run for such a speed-up; infinite where none would do.

    Example:
        >>> faster_for(2.0, 2.0, gain=1.6)
        4.0
    """
    left_s = (rest_s + part_s) / gain - rest_s
    return part_s / left_s if left_s > 0 else math.inf


def epoch_comparison(diagnosis: WorkloadDiagnosis, found: Comparison) -> Comparison:
    """The same of an epoch and its validation, where the latter was compared alone.

    Args:
        diagnosis: Of the training.
        found: Of the validation, which was to run :func:`faster_for` what the whole must gain.
    """
    return in_whole(found, lambda faster: epoch_gain(diagnosis, faster))


def in_whole(found: Comparison, gain: Callable[[float], float]) -> Comparison:
    """What a comparison of one part says of the whole.

    Args:
        found: Of the part.
        gain: Of the whole, where the part runs so many times as fast, above 0.
    """
    return replace(
        found,
        ratio=gain(found.ratio),
        low=gain(found.low) if found.low > 0 else 0.0,
        high=None if found.high is None else gain(found.high),
        detectable=None if found.detectable is None else gain(found.detectable),
    )


def with_validation(
    diagnosis: WorkloadDiagnosis, samples_per_s: float, *, edited: bool
) -> WorkloadDiagnosis:
    """The same with a validation that runs at this speed.

    Args:
        diagnosis: Of a training that validates.
        samples_per_s: As it was measured last.
        edited: Its input is another one now, and was not looked at.
    """
    found = diagnosis.validation
    if found is None:
        return diagnosis
    feed = None if edited else found.feed
    now = replace(found, seconds=found.samples / samples_per_s, feed=feed)
    return replace(diagnosis, validation=now)
