"""How the step of a loop of the user's own runs."""

from __future__ import annotations

from typing import Any, ClassVar

from uncork.core.base.record import Record
from uncork.core.edits.step import PadArguments


class Mode(Record, frozen=True, kw_only=True):
    """How a step runs when it is called.

    Attributes:
        graph: As a ``tf.function``, also where its author runs it op by op.
        xla: Compiled with XLA.
        no_xla: Not so, where its author has it compiled so.
        any_shape: Traced once for all shapes.
        at_once: What it asks of ``tf.map_fn`` is answered for all elements at once.
        fused: Each weight is updated by one kernel.
        tensors: Arguments that it is given as tensors where they are Python numbers.
        arrays: Arguments of which it is given kept tensors where they are NumPy arrays.
        lengths: How far arguments are filled up; None where they are left as they are.
        policy: What its layers compute in; ``""`` for their own dtype policy.
        keep: Names of layers that stay as they are.
        careful: Names do not count, as of :class:`~uncork.core.edits.step.DtypePolicy`.

    Example:
        >>> Mode.XLA.is_other, Mode.GRAPH.is_other
        (True, False)
        >>> Mode(policy="mixed_bfloat16").words
        'in mixed_bfloat16'
    """

    WRITTEN: ClassVar[Mode]
    GRAPH: ClassVar[Mode]
    ANY_SHAPE: ClassVar[Mode]
    XLA: ClassVar[Mode]

    graph: bool = False
    xla: bool = False
    no_xla: bool = False
    any_shape: bool = False
    at_once: bool = False
    fused: bool = False
    tensors: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    lengths: PadArguments | None = None
    policy: str = ""
    keep: tuple[str, ...] = ()
    careful: bool = False

    @property
    def is_other(self) -> bool:
        """Another function than the user's is traced for it."""
        flags = (self.xla, self.no_xla, self.any_shape, self.at_once, self.fused)
        return any(flags) or bool(self.tensors or self.arrays or self.lengths or self.policy)

    @property
    def options(self) -> dict[str, Any]:
        """Of ``tf.function``."""
        found: dict[str, Any] = {"reduce_retracing": True} if self.any_shape else {}
        return found | ({"jit_compile": self.xla} if self.xla or self.no_xla else {})

    @property
    def words(self) -> str:
        """As the end of a sentence: the step cannot run ..."""
        found = [
            f"with {', '.join(self.tensors)} as tensors" if self.tensors else "",
            f"with kept tensors of {', '.join(self.arrays)}" if self.arrays else "",
            f"on lengths of multiples of {self.lengths.multiple}" if self.lengths else "",
            "traced for all shapes at once" if self.any_shape else "",
            "with its tf.map_fn at once" if self.at_once else "",
            "with one kernel for each weight's update" if self.fused else "",
            "compiled with XLA" if self.xla else "",
            "without XLA" if self.no_xla else "",
            f"in {self.policy}" if self.policy else "",
        ]
        return " and ".join(filter(None, found)) or ("as a graph" if self.graph else "as written")


Mode.WRITTEN, Mode.GRAPH = Mode(), Mode(graph=True)
Mode.ANY_SHAPE, Mode.XLA = Mode(any_shape=True), Mode(xla=True)
