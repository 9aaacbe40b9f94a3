"""How the step of the user's own loop runs."""

from __future__ import annotations

from typing import Any, ClassVar

from uncork.core.base.record import Record
from uncork.core.edits.step import PadArguments


class StepMode(Record, frozen=True, kw_only=True):
    """How a step runs when it is called.

    Attributes:
        is_graph: As a ``tf.function``, also where its author runs it op by op.
        is_xla: Compiled with XLA.
        is_xla_off: Not so, where its author has it compiled so.
        has_open_shapes: Traced once for all shapes.
        has_vectorized_maps: What it asks of ``tf.map_fn`` is answered for all elements at once.
        has_fused_updates: Each weight is updated by one kernel.
        tensor_arguments: Arguments that it is given as tensors where they are Python numbers.
        array_arguments: Arguments of which it is given kept tensors where they are NumPy arrays.
        padded_arguments: How far arguments are filled up; None where they are left as they are.
        policy: What its layers compute in; ``""`` for their own dtype policy.
        float32_layers: Names of layers that stay as they are.
        is_precision_conservative: Names do not count, as of
            :class:`~uncork.core.edits.step.DtypePolicy`.

    Example:
        >>> StepMode.XLA.is_modified, StepMode.GRAPH.is_modified
        (True, False)
        >>> StepMode(policy="mixed_bfloat16").description
        'in mixed_bfloat16'
    """

    ORIGINAL: ClassVar[StepMode]
    GRAPH: ClassVar[StepMode]
    ANY_SHAPE: ClassVar[StepMode]
    XLA: ClassVar[StepMode]

    is_graph: bool = False
    is_xla: bool = False
    is_xla_off: bool = False
    has_open_shapes: bool = False
    has_vectorized_maps: bool = False
    has_fused_updates: bool = False
    tensor_arguments: tuple[str, ...] = ()
    array_arguments: tuple[str, ...] = ()
    padded_arguments: PadArguments | None = None
    policy: str = ""
    float32_layers: tuple[str, ...] = ()
    is_precision_conservative: bool = False

    @property
    def is_modified(self) -> bool:
        """Uncork traces another function than the user's for this mode."""
        flags = (
            self.is_xla,
            self.is_xla_off,
            self.has_open_shapes,
            self.has_vectorized_maps,
            self.has_fused_updates,
        )
        return any(flags) or bool(
            self.tensor_arguments or self.array_arguments or self.padded_arguments or self.policy
        )

    @property
    def tf_function_options(self) -> dict[str, Any]:
        """Options for ``tf.function``."""
        found: dict[str, Any] = {"reduce_retracing": True} if self.has_open_shapes else {}
        return found | ({"jit_compile": self.is_xla} if self.is_xla or self.is_xla_off else {})

    @property
    def description(self) -> str:
        """The mode as the end of a sentence: the step cannot run ..."""
        found = [
            f"with {', '.join(self.tensor_arguments)} as tensors" if self.tensor_arguments else "",
            f"with cached tensors for {', '.join(self.array_arguments)}"
            if self.array_arguments
            else "",
            f"with lengths padded to multiples of {self.padded_arguments.multiple}"
            if self.padded_arguments
            else "",
            "with one trace for all shapes" if self.has_open_shapes else "",
            "with a vectorized tf.map_fn" if self.has_vectorized_maps else "",
            "with one update kernel for each weight" if self.has_fused_updates else "",
            "compiled with XLA" if self.is_xla else "",
            "without XLA" if self.is_xla_off else "",
            f"in {self.policy}" if self.policy else "",
        ]
        return " and ".join(filter(None, found)) or (
            "as a graph" if self.is_graph else "unmodified"
        )


StepMode.ORIGINAL, StepMode.GRAPH = StepMode(), StepMode(is_graph=True)
StepMode.ANY_SHAPE, StepMode.XLA = StepMode(has_open_shapes=True), StepMode(is_xla=True)
