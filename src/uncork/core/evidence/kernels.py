"""What of a training step its kernels spend where, as far as the profiler tells."""

from __future__ import annotations

from typing import Final, Literal

from uncork.core.base.record import Record

Phase = Literal["forward", "backward", "optimizer", "metrics"]
# Seconds. A kernel that takes longer takes longer to compute than to be started.
BRIEF_S: Final = 20e-6


class KernelPart(Record, frozen=True, kw_only=True):
    """Kernels that belong together: of one layer or line, in one phase of the step.

    Attributes:
        phase: Which one; what neither the tape, an optimizer nor a metric made is ``forward``.
        share: Of the time of all kernels of the step, 0 to 1.
        calls: How many of them run in one step.
        kernel: The kind that takes most of it, ``Conv2DBackpropFilter``.
        layer: Class of the Keras layer that they compute; ``""`` where none does.
        at: Where that layer is made, or what stands in the user's code.
        rounds: Of the loop inside the step that they stand in; 0 outside of loops.
        of_map: That loop is one of ``tf.map_fn``.
        of_batch: Share of those that depend on the batch alone, not on any weight.
        of_batch_at: The line of the step's own function that most of these come from; None for
            what layers of a model do.
        rows: Of the table of an ``Embedding`` that they pass over as a whole; 0 for others.
        rows_used: Of these, what a batch looks up, at most.
        compiled_apart: In a function of that layer's which XLA compiles by itself.
        brief: Share of those that take less than ``BRIEF_S`` each.
        brief_calls: How many of these run in one step.
    """

    phase: Phase
    share: float
    calls: float
    kernel: str
    layer: str = ""
    at: str | None = None
    rounds: int = 0
    of_map: bool = False
    of_batch: float = 0.0
    of_batch_at: str | None = None
    rows: int = 0
    rows_used: int = 0
    compiled_apart: bool = False
    brief: float = 0.0
    brief_calls: float = 0.0
