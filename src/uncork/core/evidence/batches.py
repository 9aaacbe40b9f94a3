"""What a training would be with other batches: longer or shorter, larger, in parts."""

from __future__ import annotations

from typing import Final

from uncork.core.base.measurement import Comparison
from uncork.core.base.record import Record, replace

# Of the samples of an epoch's steps, what there may be no data for: a last batch that is not full
# counts as if it were, and a schedule goes on by as much too far.
_MISSING: Final = 0.03


class OpenAxis(Record, frozen=True, kw_only=True):
    """Of a tensor of each batch an axis in which batches differ.

    Attributes:
        tensor: The how manieth of a batch.
        axis: Of it.
        longest: Length that was seen: nothing is filled up beyond it.
        fill: What the script fills rows up with; text with nothing, whatever this is.
    """

    tensor: int
    axis: int
    longest: int
    fill: float = 0.0


class PaddedShapes(Record, frozen=True, kw_only=True):
    """Batches filled up, so that their lengths are multiples of a number.

    Attributes:
        multiple: That number.
        shapes: Different ones that are left.
        once: Of these, met once.
        twice: Met twice.
        larger: Numbers in all batches, over those that there are as it is.
    """

    multiple: int
    shapes: int
    once: int
    twice: int
    larger: float

    @property
    def expected(self) -> float:
        """As of :class:`NewShapes`."""
        return _expected(self.shapes, self.once, self.twice)


class NewShapes(Record, frozen=True, kw_only=True):
    """Batches of different shapes, for each of which XLA compiles the step.

    Attributes:
        batches: Looked at.
        shapes: Different ones among them.
        once: Of these, met once.
        twice: Met twice.
        compile_s: For one of them.
        axes: In which they differ, fewer rows aside; none where they cannot be filled up.
        padded: What filling these up would leave of them.
        trace_s: To trace the step for one of them, where a loop's own is traced for each.
        form: Of a loop's calls, whose arguments are meant.
        validation: What is validated on are such batches, too.
    """

    batches: int
    shapes: int
    once: int
    twice: int
    compile_s: float
    axes: tuple[OpenAxis, ...] = ()
    padded: tuple[PaddedShapes, ...] = ()
    trace_s: float = 0.0
    form: str = ""
    validation: bool = False

    @property
    def expected(self) -> float:
        """Shapes that there are, those not met yet included."""
        return _expected(self.shapes, self.once, self.twice)

    def filled_up(self, multiple: int) -> NewShapes | None:
        """What is left of them where lengths are multiples of a number; None of one shape."""
        left = next((each for each in self.padded if each.multiple == multiple), None)
        if left is None or left.shapes < 2:
            return None
        return replace(
            self, shapes=left.shapes, once=left.once, twice=left.twice, axes=(), padded=()
        )


def _expected(shapes: int, once: int, twice: int) -> float:
    """Chao 1984, bias-corrected."""
    return shapes + once * (once - 1) / (2 * (twice + 1))


class Larger(Record, frozen=True, kw_only=True):
    """The step of several replicas with a larger batch.

    Attributes:
        times: How many times as large.
        faster: Samples/s with it over samples/s as it is.
    """

    times: int
    faster: Comparison


class BatchSize(Record, frozen=True, kw_only=True):
    """A larger batch: how fast it trains, and what it makes of as many samples.

    Losses are those of samples laid aside, over several orders of the data.

    Attributes:
        times: How many times as large.
        rate: What the learning rate was multiplied by.
        faster: Samples/s of the step on batches from memory over the same as it is.
        samples: That each of the trainings compared was given.
        loss: After them, with the batch as it is.
        higher: By how much it is higher with the larger one, on average.
        error: Half-width of the 95 % interval of that.
        noise: Of the loss as it is, from one order of the data to another.
        price: As many times the samples it takes to the same loss; None where it did not get there.
    """

    times: int
    rate: float
    faster: Comparison
    samples: int
    loss: float
    higher: float
    error: float
    noise: float
    price: float | None = None

    @property
    def holds(self) -> bool:
        """It was not seen to be worse than another order of the data would be; no proof yet."""
        return self.higher < self.noise


class TooLarge(Record, frozen=True, kw_only=True):
    """A training that runs out of memory as it is written, and how much of its batch fits.

    Attributes:
        said: What it ended with.
        rows: Examples of a batch that the step as written was seen to have memory for.
        parts: Of the batch, one after the other, in which the training was seen to run.
        segments: Of the model, run again for the backward pass, in which it was; 0 where in parts.
        bytes: Beyond what the process had taken before, trained so, at most.
        rows_bytes: The same of the step as written, for so many rows.
    """

    said: str
    rows: int
    parts: int = 1
    segments: int = 0
    bytes: int
    rows_bytes: int

    @property
    def how(self) -> str:
        """In what way it is trained all the same.

        Example:
            >>> TooLarge(said="OOM", rows=8, segments=4, bytes=9, rows_bytes=5).how
            'with activations made again, in 4 segments'
        """
        if self.segments:
            return f"with activations made again, in {self.segments} segments"
        return f"in {self.parts} parts"


def nearly_whole(batches: int, times: int) -> bool:
    """So many batches can be put together by so many, with next to nothing missing in the last one.

    Example:
        >>> nearly_whole(100, 4), nearly_whole(99, 4), nearly_whole(13, 4)
        (True, True, False)
    """
    return -(-batches // times) * times <= (1 + _MISSING) * batches
