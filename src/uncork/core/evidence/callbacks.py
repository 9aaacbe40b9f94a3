"""What was seen of a training beside its speed: one record for each kind of thing."""

from __future__ import annotations

from uncork.core.base.measurement import Measurement
from uncork.core.base.record import Record
from uncork.core.evidence.stage import Stage


class ValidationFeed(Record, frozen=True, kw_only=True):
    """What feeds a validation: a tf.data pipeline that each one reads to its end.

    Attributes:
        pipeline_digest: Digest of its structure.
        batch_count: In one validation.
        has_default_rewrites: tf.data's own graph rewrites are on.
        measurement: Steps of the validation as they run.
        resident_speedup: How many times faster they run on batches from memory.
        resident_step_cpu_s: CPU seconds of one step then.
        stages: Of the pipeline, source first.
    """

    pipeline_digest: str
    batch_count: int
    has_default_rewrites: bool
    measurement: Measurement
    resident_speedup: float
    resident_step_cpu_s: float
    stages: tuple[Stage, ...]


class Validation(Record, frozen=True, kw_only=True):
    """What validating takes.

    Attributes:
        validation_s: Of one validation.
        sample_count: In it.
        every_epochs: Epochs from one to the next.
        validation_count: How many of them the training makes.
        at: The line that puts its batches together, where that is known.
        feed: Where it takes a good part of an epoch; None also where its input is no tf.data, is
            edited already, or is left before its end.
    """

    validation_s: float
    sample_count: int
    every_epochs: int = 1
    validation_count: int = 1
    at: str | None = None
    feed: ValidationFeed | None = None


class CallbackCost(Record, frozen=True, kw_only=True):
    """What a callback takes beside the steps.

    Attributes:
        name: Of its class.
        batch_s: A batch.
        action_s: Of acting once, where it acts every so many batches; 0 where that is not known.
        tracing_s: Of them, while TensorFlow traced functions.
        at: Where its hook begins, or where it is made.
        epoch_s: An epoch, before it and after it.
        epoch_hook_at: Where the hook for that begins.
        is_lower_bound: They take longer than that: they were cut short.
    """

    name: str
    batch_s: float = 0.0
    action_s: float = 0.0
    tracing_s: float = 0.0
    at: str | None = None
    epoch_s: float = 0.0
    epoch_hook_at: str | None = None
    is_lower_bound: bool = False


class CheckpointCost(Record, frozen=True, kw_only=True):
    """What the checkpoints of a ``fit`` take, which trains nothing meanwhile.

    Attributes:
        name: Class of the callback.
        save_s: Of one save, to the disk that the callback names; of all, where several save.
        save_cpu_s: CPU seconds of it.
        copy_s: Seconds in which what is to be saved is copied.
        copy_bytes: Of the copies.
        every_steps: Steps from one save to the next.
        trial_steps: Steps among which one is tried: enough for it to be written meanwhile.
        is_save_best_only: It saves only what is better than before: fewer times, maybe.
        refusal_reason: Why its files cannot be written beside the training; ``""`` where they can.
        at: Where the callback is made, if that is in one place.
    """

    name: str
    save_s: float
    save_cpu_s: float
    copy_s: float
    copy_bytes: int
    every_steps: int
    trial_steps: int
    is_save_best_only: bool = False
    refusal_reason: str = ""
    at: str | None = None
