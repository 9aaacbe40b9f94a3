"""What was seen of a training beside its speed: one record for each kind of thing."""

from __future__ import annotations

from typing import Literal

from uncork.core.base.measurement import Comparison
from uncork.core.base.record import Record


class BatchPadding(Record, frozen=True, kw_only=True):
    """Rows of a batch that were filled up with zeros to one length.

    Attributes:
        max_length: That length.
        mean_length: Of the rows without their zeros.
        bucketed_mean_length: Mean length if rows of like length were put together, and filled up to
            the longest.
        truncated_speedup: The step on a batch cut to that length over the same as it is.
        at: The line that fills them up, where the script has one such line.
    """

    max_length: int
    mean_length: float
    bucketed_mean_length: float
    truncated_speedup: Comparison
    at: str | None = None


class SlowLayer(Record, frozen=True, kw_only=True):
    """A layer with an argument that no fast kernel knows.

    Attributes:
        layer: Its class.
        argument: At fault.
        at: Where it is made.
        speedup_without_argument: A copy without the argument over one with it, each by itself.
    """

    layer: str
    argument: str
    at: str | None
    speedup_without_argument: Comparison


class FullResolutionLayer(Record, frozen=True, kw_only=True):
    """A layer that computes at every position of what the network reads.

    Attributes:
        layer: Its class.
        at: Where it is made.
        position_counts: Positions along each axis, ``(72, 72)``, or steps of a sequence, ``(99,)``.
        reduced_by: How others make them fewer: ``strides`` of a convolution, or ``stacking``
            neighbouring steps of a sequence.
        reduction_factor: How many times fewer that leaves.
    """

    layer: str
    at: str | None
    position_counts: tuple[int, ...]
    reduced_by: Literal["strides", "stacking"]
    reduction_factor: int


class OneHotLabels(Record, frozen=True, kw_only=True):
    """Labels written as rows with a single one in them, beside the same as whole numbers.

    Attributes:
        class_count: Length of a row.
        batch_bytes: Of the labels of one batch.
        creation_s: Elapsed seconds that filling and copying them takes longer, a batch.
        creation_cpu_s: CPU seconds likewise.
        loss_s: Elapsed seconds that a categorical cross-entropy and its gradient take longer.
        loss_cpu_s: CPU seconds likewise.
    """

    class_count: int
    batch_bytes: int
    creation_s: float
    creation_cpu_s: float
    loss_s: float
    loss_cpu_s: float


class Transfer(Record, frozen=True, kw_only=True):
    """A batch that must be sent to the device that trains on it.

    Attributes:
        device: ``GPU:0``, say; ``CPU:0 of another host`` where it is not this process's.
        batch_bytes: Of the batch.
        min_bytes: Of the same, were floats that hold whole numbers of a byte sent as bytes.
        wall_s: Elapsed seconds until it is there.
        cpu_s: CPU seconds of this process until then.
        free_device_bytes: Of the device's memory, what the training has not needed so far; None
            where that cannot be asked.
        placement: The device in TensorFlow's words; ``""`` where it was not kept.
    """

    device: str
    batch_bytes: int
    min_bytes: int
    wall_s: float
    cpu_s: float
    free_device_bytes: int | None = None
    placement: str = ""

    @property
    def avoidable_share(self) -> float:
        """Part of it that could be spared: all but the bytes, or all of what is narrow already."""
        return 1 - self.min_bytes / self.batch_bytes if self.is_too_wide else 1.0

    @property
    def is_too_wide(self) -> bool:
        """Fewer bytes would say the same."""
        return self.min_bytes < self.batch_bytes
