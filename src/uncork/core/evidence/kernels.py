"""What of a training step its kernels spend where, as far as the profiler tells."""

from __future__ import annotations

from typing import Final, Literal

from uncork.core.base.record import Record

Phase = Literal["forward", "backward", "optimizer", "metrics"]
# Seconds. A kernel that takes longer takes longer to compute than to be started.
MAX_SHORT_KERNEL_S: Final = 20e-6


class KernelGroup(Record, frozen=True, kw_only=True):
    """Kernels that belong together: of one layer or line, in one phase of the step.

    Attributes:
        phase: Which one; what neither the tape, an optimizer nor a metric made is ``forward``.
        share: Of the time of all kernels of the step, 0 to 1.
        calls_per_step: How many of them run in one step.
        main_kernel: The kind that takes most of it, ``Conv2DBackpropFilter``.
        layer: Class of the Keras layer that they compute; ``""`` where none does.
        at: Where that layer is made, or what stands in the user's code.
        loop_iterations: Of the loop inside the step that they stand in; 0 outside of loops.
        is_map_fn_loop: That loop is one of ``tf.map_fn``.
        batch_only_share: Share of those that depend on the batch alone, not on any weight.
        batch_only_at: The line of the step's own function that most of these come from; None for
            what layers of a model do.
        table_rows: Of the table of an ``Embedding`` that they pass over as a whole; 0 for others.
        max_used_rows: Of these, what a batch looks up, at most.
        is_compiled_separately: In a function of that layer's which XLA compiles by itself.
        short_kernel_share: Share of those that take less than ``MAX_SHORT_KERNEL_S`` each.
        short_calls_per_step: How many of these run in one step.
    """

    phase: Phase
    share: float
    calls_per_step: float
    main_kernel: str
    layer: str = ""
    at: str | None = None
    loop_iterations: int = 0
    is_map_fn_loop: bool = False
    batch_only_share: float = 0.0
    batch_only_at: str | None = None
    table_rows: int = 0
    max_used_rows: int = 0
    is_compiled_separately: bool = False
    short_kernel_share: float = 0.0
    short_calls_per_step: float = 0.0
