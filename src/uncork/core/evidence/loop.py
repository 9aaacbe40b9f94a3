"""What was seen of a training beside its speed: one record for each kind of thing."""

from __future__ import annotations

from typing import Literal

from uncork.core.measurement import Comparison, Measurement
from uncork.core.record import Record
from uncork.core.stage import Stage


class Padded(Record, frozen=True, kw_only=True):
    """Rows of a batch that were filled up with zeros to one length.

    Attributes:
        longest: That length.
        mean: Of the rows without their zeros.
        grouped: Mean length if rows of like length were put together, and filled up to the longest.
        cut: The step on a batch cut to that length over the same as it is.
        at: The line that fills them up, where the script has one such line.
    """

    longest: int
    mean: float
    grouped: float
    cut: Comparison
    at: str | None = None


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


class KerasDefect(Record, frozen=True, kw_only=True):
    """Something that Keras gets wrong in this training, without a word.

    Attributes:
        name: Of the defect.
        evidence: A sentence.
        remedy: What to type.
        at: Where it is called for, if that is in one place.
        doubles_backward: It makes every step run what it differentiates twice.
    """

    name: str
    evidence: str
    remedy: str
    at: str | None = None
    doubles_backward: bool = False


class PartedAnew(Record, frozen=True, kw_only=True):
    """Training and validation data are parts of one dataset, by place, whose order changes.

    Attributes:
        shuffle_at: What puts it in another order in each pass, where that is known.
        parts: The methods that part it: that of the training, that of the validation.
    """

    shuffle_at: str | None
    parts: tuple[str, str]


class Growth(Record, frozen=True, kw_only=True):
    """A variable that grows with every step, and the steps with it.

    Attributes:
        name: Of the attribute that holds it.
        bytes_per_step: By which it grows.
        first_s: Of the first step.
        added_s: By which each step is longer than the one before.
        at: Where it is changed, if that is in one place.
    """

    name: str
    bytes_per_step: float
    first_s: float
    added_s: float
    at: str | None = None


class Unrolled(Record, frozen=True, kw_only=True):
    """A loop of Python's, or of a layer, that is written out round for round in the traced step.

    Attributes:
        at: The ``for`` statement, or where the layer is made.
        ops: In the graph of the forward pass, as many as the loop became.
        share: Part of all ops there, 0 to 1.
        rounds: As often as it reads a variable; 0 where it reads none.
        first_s: Seconds that the first step takes for being traced, or for being the first.
    """

    at: str
    ops: int
    share: float
    rounds: int
    first_s: float

    @property
    def seconds(self) -> float:
        """Of the first step, what the loop takes if all ops take the same."""
        return self.share * self.first_s


class Remade(Record, frozen=True, kw_only=True):
    """A compiled function that a script makes anew for each epoch.

    Attributes:
        first_s: Seconds of its first call beyond those of a later one.
        at: Where it is defined.
    """

    first_s: float
    at: str | None = None


class Waiting(Record, frozen=True, kw_only=True):
    """Python waits for a value that the step computes.

    Attributes:
        share: Part of a step in which it does, 0 to 1.
        at: The user's line that reads it.
    """

    share: float
    at: str | None = None


class Answering(Record, frozen=True, kw_only=True):
    """A loop of the user's own calls Keras's ``evaluate`` or ``predict``.

    Attributes:
        share: Part of a step that passes in them, 0 to 1.
        calls: For each step.
        spared: Part of that which is the making of what they read through, 0 to 1.
        tracing: Part of a step in which they have TensorFlow trace functions.
        at: The user's line that spends most in them.
    """

    share: float
    calls: float
    spared: float = 0.0
    tracing: float = 0.0
    at: str | None = None


class StartLine(Record, frozen=True, kw_only=True):
    """A line of the user's that takes long before the training begins.

    Attributes:
        at: Which one.
        seconds: Until the training began.
        in_framework: Most of them pass in TensorFlow or Keras, which the line calls.
    """

    at: str
    seconds: float
    in_framework: bool = False


LoopWork = Literal["metrics", "evaluation", "function", "graph", "plain"]


class LoopLine(Record, frozen=True, kw_only=True):
    """A line in the body of a training loop of the user's own.

    Attributes:
        at: Which one.
        work: What it calls first: Keras's metrics, an evaluation or prediction, a function of the
            user's whose value is dropped, a ``tf.function``, or none of these.
        seconds: Of one step on a resident batch, most likely; being watched slows Python down.
        share: Of that step, 0 to 1.
        function_at: Where the user's function begins that it spends most in.
        grows: It gives a name what the name held before and more.
    """

    at: str
    work: LoopWork
    seconds: float
    share: float
    function_at: str | None = None
    grows: bool = False

    @property
    def is_beside(self) -> bool:
        """It belongs neither to the step nor to its input, as far as one can see."""
        return self.grows or self.work in ("metrics", "evaluation", "function")


class SlowLayer(Record, frozen=True, kw_only=True):
    """A layer with an argument that no fast kernel knows.

    Attributes:
        layer: Its class.
        argument: At fault.
        at: Where it is made.
        without: A copy without the argument over one with it, each by itself.
    """

    layer: str
    argument: str
    at: str | None
    without: Comparison


class FullSize(Record, frozen=True, kw_only=True):
    """A layer that computes at every position of what the network reads.

    Attributes:
        layer: Its class.
        at: Where it is made.
        size: Positions along each axis, ``(72, 72)``, or steps of a sequence, ``(99,)``.
        reduced_by: How others make them fewer: ``strides`` of a convolution, or ``stacking``
            neighbouring steps of a sequence.
        fewer: How many times fewer that leaves.
    """

    layer: str
    at: str | None
    size: tuple[int, ...]
    reduced_by: Literal["strides", "stacking"]
    fewer: int


class OneHot(Record, frozen=True, kw_only=True):
    """Labels written as rows with a single one in them, beside the same as whole numbers.

    Attributes:
        classes: Length of a row.
        bytes: Of the labels of one batch.
        made_s: Elapsed seconds that filling and copying them takes longer, a batch.
        made_cpu_s: CPU seconds likewise.
        loss_s: Elapsed seconds that a categorical cross-entropy and its gradient take longer.
        loss_cpu_s: CPU seconds likewise.
    """

    classes: int
    bytes: int
    made_s: float
    made_cpu_s: float
    loss_s: float
    loss_cpu_s: float


class Transfer(Record, frozen=True, kw_only=True):
    """A batch that must be sent to the device that trains on it.

    Attributes:
        device: ``GPU:0``, say; ``CPU:0 of another host`` where it is not this process's.
        bytes: Of the batch.
        needed_bytes: Of the same, were floats that hold whole numbers of a byte sent as bytes.
        wall_s: Elapsed seconds until it is there.
        cpu_s: CPU seconds of this process until then.
        room_bytes: Of the device's memory, what the training has not needed so far; None where
            that cannot be asked.
        placement: The device in TensorFlow's words; ``""`` where it was not kept.
    """

    device: str
    bytes: int
    needed_bytes: int
    wall_s: float
    cpu_s: float
    room_bytes: int | None = None
    placement: str = ""

    @property
    def needless(self) -> float:
        """Part of it that could be spared: all but the bytes, or all of what is narrow already."""
        return 1 - self.needed_bytes / self.bytes if self.too_wide else 1.0

    @property
    def too_wide(self) -> bool:
        """Fewer bytes would say the same."""
        return self.needed_bytes < self.bytes
