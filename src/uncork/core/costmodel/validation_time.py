"""The validation of a ``fit``, seen as a training of its own; and what its speed is worth."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from uncork.core.base.measurement import Comparison
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import WorkloadDiagnosis

# Of an epoch and its part of a validation, what the latter must take before its input is looked at.
MIN_VALIDATION_SHARE: Final = 0.05


def validation_as_training(diagnosis: WorkloadDiagnosis) -> WorkloadDiagnosis | None:
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
    waiting = 1.0 - 1.0 / feed.resident_speedup
    workload = replace(
        diagnosis.workload,
        data_kind="tf.data",
        pipeline_digest=feed.pipeline_digest,
        batch_size=round(feed.measurement.samples_per_s * feed.measurement.step_s.median),
        steps_per_epoch=feed.batch_count,
        has_explicit_steps=False,
        epochs=found.validation_count,
        has_default_rewrites=feed.has_default_rewrites,
    )
    return WorkloadDiagnosis(
        workload=workload,
        measurement=feed.measurement,
        ceilings={"consumer": feed.measurement.samples_per_s * feed.resident_speedup},
        headroom=max(1.0, feed.resident_speedup),
        breakdown={"input": waiting, "host": 0.0, "step": 1.0 - waiting, "unknown": 0.0},
        consumer_cpu_s=feed.resident_step_cpu_s,
        busy_core_speed_ratio=diagnosis.busy_core_speed_ratio,
        stages=feed.stages,
        memory_available_bytes=diagnosis.memory_available_bytes,
    )


def epoch_gain(diagnosis: WorkloadDiagnosis, validation_speedup: float) -> float:
    """Speed-up of an epoch and its validation where the latter runs so many times as fast.

    Args:
        diagnosis: Of the training; of one whose length is not known nothing is promised.
        validation_speedup: Samples/s of the validation over those that it has now; above 0.
    """
    epoch_s, validating_s = epoch_and_validation_s(diagnosis)
    return whole_speedup(epoch_s, validating_s, validation_speedup) if epoch_s else 1.0


def epoch_and_validation_s(diagnosis: WorkloadDiagnosis) -> tuple[float, float]:
    """Of an epoch's training, 0 where its length is not known; and of its part of a validation."""
    found, steps = diagnosis.validation, diagnosis.workload.steps_per_epoch
    validating_s = found.validation_s / found.every_epochs if found else 0.0
    return (steps or 0) * diagnosis.step_s, validating_s


def whole_speedup(rest_s: float, part_s: float, part_speedup: float) -> float:
    """Speed-up of a whole of which one part runs so many times as fast.

    Example:
        An epoch of 2 s is followed by a validation of 2 s, which comes to take 0.5 s:

        >>> whole_speedup(2.0, 2.0, part_speedup=4.0)
        1.6
    """
    return (rest_s + part_s) / (rest_s + part_s / part_speedup)


def required_part_speedup(rest_s: float, part_s: float, min_whole_speedup: float) -> float:
    """How many times as fast that part must run for such a speed-up; infinite where none would do.

    Example:
        >>> required_part_speedup(2.0, 2.0, min_whole_speedup=1.6)
        4.0
    """
    left_s = (rest_s + part_s) / min_whole_speedup - rest_s
    return part_s / left_s if left_s > 0 else math.inf


def epoch_comparison(diagnosis: WorkloadDiagnosis, comparison: Comparison) -> Comparison:
    """The same of an epoch and its validation, where the latter was compared alone.

    Args:
        diagnosis: Of the training.
        comparison: Of the validation, which was to run :func:`required_part_speedup` what the whole
            must gain.
    """
    return scale_comparison(comparison, lambda faster: epoch_gain(diagnosis, faster))


def scale_comparison(comparison: Comparison, gain: Callable[[float], float]) -> Comparison:
    """What a comparison of one part says of the whole.

    Args:
        comparison: Of the part.
        gain: Of the whole, where the part runs so many times as fast, above 0.
    """
    return replace(
        comparison,
        ratio=gain(comparison.ratio),
        low=gain(comparison.low) if comparison.low > 0 else 0.0,
        high=None if comparison.high is None else gain(comparison.high),
        min_detectable_ratio=None
        if comparison.min_detectable_ratio is None
        else gain(comparison.min_detectable_ratio),
    )


def with_validation_speed(
    diagnosis: WorkloadDiagnosis, samples_per_s: float, *, is_edited: bool
) -> WorkloadDiagnosis:
    """The same with a validation that runs at this speed.

    Args:
        diagnosis: Of a training that validates.
        samples_per_s: As it was measured last.
        is_edited: Its input is another one now, and was not looked at.
    """
    found = diagnosis.validation
    if found is None:
        return diagnosis
    feed = None if is_edited else found.feed
    now = replace(found, validation_s=found.sample_count / samples_per_s, feed=feed)
    return replace(diagnosis, validation=now)
