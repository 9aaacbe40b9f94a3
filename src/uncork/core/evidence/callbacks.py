"""What was seen of a training beside its speed: one record for each kind of thing."""

from __future__ import annotations

from uncork.core.base.measurement import Measurement
from uncork.core.base.record import Record
from uncork.core.evidence.stage import Stage


class ValidationFeed(Record, frozen=True, kw_only=True):
    """What feeds a validation: a tf.data pipeline that each one reads to its end.

    Attributes:
        pipeline: Digest of its structure.
        batches: In one validation.
        default_rewrites: tf.data's own graph rewrites are on.
        measurement: Steps of the validation as they run.
        resident: How many times faster they run on batches from memory.
        resident_cpu_s: CPU seconds of one step then.
        stages: Of the pipeline, source first.
    """

    pipeline: str
    batches: int
    default_rewrites: bool
    measurement: Measurement
    resident: float
    resident_cpu_s: float
    stages: tuple[Stage, ...]


class Validation(Record, frozen=True, kw_only=True):
    """What validating takes.

    Attributes:
        seconds: Of one validation.
        samples: In it.
        every: Epochs from one to the next.
        times: How many of them the training makes.
        at: The line that puts its batches together, where that is known.
        feed: Where it takes a good part of an epoch; None also where its input is no tf.data, is
            edited already, or is left before its end.
    """

    seconds: float
    samples: int
    every: int = 1
    times: int = 1
    at: str | None = None
    feed: ValidationFeed | None = None


class CallbackCost(Record, frozen=True, kw_only=True):
    """What a callback takes beside the steps.

    Attributes:
        name: Of its class.
        seconds: A batch.
        once_s: Of acting once, where it acts every so many batches; 0 where that is not known.
        traced_s: Of them, while TensorFlow traced functions.
        at: Where its hook begins, or where it is made.
        epoch_s: An epoch, before it and after it.
        epoch_at: Where the hook for that begins.
        longer: They take longer than that: they were cut short.
    """

    name: str
    seconds: float = 0.0
    once_s: float = 0.0
    traced_s: float = 0.0
    at: str | None = None
    epoch_s: float = 0.0
    epoch_at: str | None = None
    longer: bool = False


class Saving(Record, frozen=True, kw_only=True):
    """What the checkpoints of a ``fit`` take, which trains nothing meanwhile.

    Attributes:
        name: Class of the callback.
        seconds: Of one save, to the disk that the callback names; of all, where several save.
        cpu_s: CPU seconds of it.
        copying_s: Seconds in which what is to be saved is copied.
        bytes: Of the copies.
        every: Steps from one save to the next.
        beside: Steps among which one is tried: enough for it to be written meanwhile.
        at_most: It saves only what is better than before: fewer times, maybe.
        refused: Why its files cannot be written beside the training; ``""`` where they can.
        at: Where the callback is made, if that is in one place.
    """

    name: str
    seconds: float
    cpu_s: float
    copying_s: float
    bytes: int
    every: int
    beside: int
    at_most: bool = False
    refused: str = ""
    at: str | None = None
