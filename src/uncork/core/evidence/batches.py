"""What a training would be with other batches: longer or shorter, larger, in parts."""

from __future__ import annotations

from typing import Final

from uncork.core.base.measurement import Comparison, Spread
from uncork.core.base.record import Record, replace

# Of the samples of an epoch's steps, what there may be no data for: a last batch that is not full
# counts as if it were, and a schedule goes on by as much too far.
_MISSING: Final = 0.03


class VaryingAxis(Record, frozen=True, kw_only=True):
    """Of a tensor of each batch an axis in which batches differ.

    Attributes:
        tensor_index: The how manieth of a batch.
        axis: Of it.
        max_length: Length that was seen: nothing is filled up beyond it.
        padding_value: What the script fills rows up with; text with nothing, whatever this is.
    """

    tensor_index: int
    axis: int
    max_length: int
    padding_value: float = 0.0


class PaddedShapes(Record, frozen=True, kw_only=True):
    """Batches filled up, so that their lengths are multiples of a number.

    Attributes:
        multiple: That number.
        shape_count: Different ones that are left.
        seen_once: Of these, met once.
        seen_twice: Met twice.
        size_ratio: Numbers in all batches, over those that there are as it is.
    """

    multiple: int
    shape_count: int
    seen_once: int
    seen_twice: int
    size_ratio: float

    @property
    def expected_shape_count(self) -> float:
        """As of :class:`VaryingShapes`."""
        return _expected(self.shape_count, self.seen_once, self.seen_twice)


class VaryingShapes(Record, frozen=True, kw_only=True):
    """Batches of different shapes, for each of which XLA compiles the step.

    Attributes:
        batch_count: Looked at.
        shape_count: Different ones among them.
        seen_once: Of these, met once.
        seen_twice: Met twice.
        compile_s_per_shape: For one of them.
        axes: In which they differ, fewer rows aside; none where they cannot be filled up.
        padded_shapes: What filling these up would leave of them.
        trace_s_per_shape: To trace the step for one of them, where a loop's own is traced for each.
        call_signature: Of a loop's calls, whose arguments are meant.
        has_validation: What is validated on are such batches, too.
    """

    batch_count: int
    shape_count: int
    seen_once: int
    seen_twice: int
    compile_s_per_shape: float
    axes: tuple[VaryingAxis, ...] = ()
    padded_shapes: tuple[PaddedShapes, ...] = ()
    trace_s_per_shape: float = 0.0
    call_signature: str = ""
    has_validation: bool = False

    @property
    def expected_shape_count(self) -> float:
        """Shapes that there are, those not met yet included."""
        return _expected(self.shape_count, self.seen_once, self.seen_twice)

    def padded_to(self, multiple: int) -> VaryingShapes | None:
        """What is left of them where lengths are multiples of a number; None of one shape."""
        left = next((each for each in self.padded_shapes if each.multiple == multiple), None)
        if left is None or left.shape_count < 2:
            return None
        return replace(
            self,
            shape_count=left.shape_count,
            seen_once=left.seen_once,
            seen_twice=left.seen_twice,
            axes=(),
            padded_shapes=(),
        )


def _expected(shapes: int, once: int, twice: int) -> float:
    """Chao 1984, bias-corrected."""
    return shapes + once * (once - 1) / (2 * (twice + 1))


class RecordedBatches(Record, frozen=True, kw_only=True):
    """Different batches of the input, kept in memory and trained on in turn; and how they came.

    What a step takes longer on them than on one batch over and over is not the input's.

    Attributes:
        batch_count: How many.
        new_step_s: Seconds of a step on a batch that the step meets for the first time, the very
            first one aside.
        known_step_s: Of a step on the same batches, met before.
        wait: Part of a step that the training takes longer than on these batches, both measured in
            turn; None where that was not done.
        start_s: From a new iterator to its first batch, beyond what a later one takes.
        is_start_in_steps: The measured steps contain such starts: whole epochs were timed.
    """

    batch_count: int
    new_step_s: float
    known_step_s: float
    wait: Spread | None = None
    start_s: float = 0.0
    is_start_in_steps: bool = False


class LargerReplicaBatch(Record, frozen=True, kw_only=True):
    """The step of several replicas with a larger batch.

    Attributes:
        batch_multiplier: How many times as large.
        speedup: Samples/s with it over samples/s as it is.
    """

    batch_multiplier: int
    speedup: Comparison


class BatchSizeTrial(Record, frozen=True, kw_only=True):
    """A larger batch: how fast it trains, and what it makes of as many samples.

    Losses are those of samples laid aside, over several orders of the data.

    Attributes:
        batch_multiplier: How many times as large.
        learning_rate_multiplier: What the learning rate was multiplied by.
        speedup: Samples/s of the step on batches from memory over the same as it is.
        samples_per_training: That each of the trainings compared was given.
        baseline_loss: After them, with the batch as it is.
        loss_increase: By how much it is higher with the larger one, on average.
        loss_increase_error: Half-width of the 95 % interval of that.
        loss_noise: Of the loss as it is, from one order of the data to another.
        samples_ratio: As many times the samples it takes to the same loss; None where it did not
            get there.
    """

    batch_multiplier: int
    learning_rate_multiplier: float
    speedup: Comparison
    samples_per_training: int
    baseline_loss: float
    loss_increase: float
    loss_increase_error: float
    loss_noise: float
    samples_ratio: float | None = None

    @property
    def is_within_noise(self) -> bool:
        """It was not seen to be worse than another order of the data would be; no proof yet."""
        return self.loss_increase < self.loss_noise


class MemoryOverflow(Record, frozen=True, kw_only=True):
    """A training that runs out of memory as it is written, and how much of its batch fits.

    Attributes:
        error_message: What it ended with.
        fitting_rows: Examples of a batch that the step as written was seen to have memory for.
        parts: Of the batch, one after the other, in which the training was seen to run.
        segments: Of the model, run again for the backward pass, in which it was; 0 where in parts.
        peak_bytes: Beyond what the process had taken before, trained so, at most.
        fitting_rows_peak_bytes: The same of the step as written, for so many rows.
    """

    error_message: str
    fitting_rows: int
    parts: int = 1
    segments: int = 0
    peak_bytes: int
    fitting_rows_peak_bytes: int

    @property
    def description(self) -> str:
        """How the training fits into memory, as part of a sentence.

        Example:
            >>> MemoryOverflow(
            ...     error_message="OOM",
            ...     fitting_rows=8,
            ...     segments=4,
            ...     peak_bytes=9,
            ...     fitting_rows_peak_bytes=5,
            ... ).description
            'with recomputed activations, in 4 segments'
        """
        if self.segments:
            return f"with recomputed activations, in {self.segments} segments"
        return f"in {self.parts} micro-batches"


def is_nearly_divisible(batch_count: int, batch_multiplier: int) -> bool:
    """So many batches can be put together by so many, with next to nothing missing in the last one.

    Example:
        >>> is_nearly_divisible(100, 4), is_nearly_divisible(99, 4), is_nearly_divisible(13, 4)
        (True, True, False)
    """
    return -(-batch_count // batch_multiplier) * batch_multiplier <= (1 + _MISSING) * batch_count
