"""What was seen of a training beside its speed: one record for each kind of thing."""

from __future__ import annotations

from typing import Literal

from uncork.core.base.measurement import Comparison
from uncork.core.base.record import Record


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
