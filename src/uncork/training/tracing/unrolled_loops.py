"""A first step that takes long because a loop is written out in it.

Which loop of Python's, or of a layer, stands round for round in a graph that was traced?
"""

from __future__ import annotations

import ast
import functools
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import keras

from uncork.core.evidence.loop import UnrolledLoop
from uncork.pycode.frames.enclosing_loops import loops_around
from uncork.pycode.frames.layer_registry import LayerRegistry
from uncork.pycode.frames.stack import OUTLINED_STEP_PREFIX, format_location, is_user_file
from uncork.training.tracing.graph_ops import find_live_graphs

# Ops of a graph that takes seconds to trace.
_LARGE: Final = 1000
# Of a loop that it would be worth to write otherwise.
_MANY_ROUNDS: Final = 16
_GRADIENT: Final = "gradient_tape/"
# From here on a stack is that of a function that is traced.
_TRACER: Final = "/polymorphic_function/tracing_compilation.py"
_READS: Final = "ReadVariableOp"

LoopAt = Callable[[str, int], int | None]


@dataclass
class UnrolledBody:
    """What a loop has become.

    Attributes:
        location: Its ``for`` statement, or where its layer is made.
        op_count: Of the forward pass.
        share: Of all ops there.
        variable_reads: How often each variable is read.
    """

    location: str
    op_count: int = 0
    share: float = 0.0
    variable_reads: Counter[str] = field(default_factory=Counter)

    def add(self, op: Any) -> None:
        """One more."""
        self.op_count += 1
        if op.type == _READS:
            self.variable_reads[op.inputs[0].name] += 1

    @property
    def repetitions(self) -> int:
        """As often as it reads a variable, most likely; 0 where it reads none."""
        return statistics.median_low(self.variable_reads.values()) if self.variable_reads else 0

    @property
    def is_repeated(self) -> bool:
        """One body many times over; a loop over layers reads each variable once."""
        return self.repetitions >= _MANY_ROUNDS or not self.variable_reads


def largest_body(layers: LayerRegistry | None, loop_at: LoopAt) -> UnrolledBody | None:
    """The loop that most ops of the largest graph come from; None where that graph is not large.

    Args:
        layers: Of the script.
        loop_at: The line of the innermost ``for`` around a line of a file; None where none is.
    """
    graph = max(find_live_graphs(), key=lambda g: len(g.get_operations()), default=None)
    if graph is None:
        return None
    forward = [op for op in graph.get_operations() if not op.name.startswith(_GRADIENT)]
    if len(forward) < _LARGE:
        return None
    bodies: dict[Hashable, UnrolledBody] = {}
    for op in forward:
        for key, at in set(_loops(op, layers, loop_at)):
            bodies.setdefault(key, UnrolledBody(at)).add(op)
    large = [body for body in bodies.values() if body.is_repeated and body.op_count >= _LARGE]
    found = max(large, key=lambda body: (body.op_count, body.repetitions), default=None)
    if found is not None:
        found.share = found.op_count / len(forward)
    return found


def _loops(
    op: Any, layers: LayerRegistry | None, loop_at: LoopAt
) -> Iterator[tuple[Hashable, str]]:
    """Loops that an op stands in."""
    if layers:
        for layer in _layers(op.name, layers):
            if isinstance(layer, keras.layers.RNN) and layer.unroll:
                yield id(layer), layers.creation_location(layer) or ""
    frames = list(op.traceback)
    traced = [number for number, frame in enumerate(frames) if _TRACER in frame.filename]
    for frame in frames[traced[-1] :] if traced else frames:
        if is_user_file(frame.filename) and not frame.name.startswith(OUTLINED_STEP_PREFIX):
            line = loop_at(frame.filename, frame.lineno)
            if line is not None:
                yield (frame.filename, line), format_location(frame.filename, line)


def _layers(name: str, layers: LayerRegistry) -> Iterator[Any]:
    """Those whose scopes a name stands in, the innermost first."""
    while "/" in name:
        layer = layers.layer_of_op(name)
        if layer is not None:
            yield layer
        name = name.rpartition("/")[0]


# Shorter ones are not worth a look at all ops.
_LONG_S: Final = 2.0


def find_unrolled_loop(layers: LayerRegistry | None, first_step_s: float) -> UnrolledLoop | None:
    """The loop that most of a large graph comes from; None where the first step was quick.

    Args:
        layers: Of the script.
        first_step_s: Seconds that the first step took.
    """
    if first_step_s < _LONG_S:
        return None
    body = None
    with suppress(Exception):  # of graphs that live, some are half made, or of a layer's own kind
        body = largest_body(layers, functools.cache(_loop_at))
    if body is None or not body.location:
        return None
    return UnrolledLoop(
        at=body.location,
        op_count=body.op_count,
        op_share=body.share,
        iterations=body.repetitions,
        first_step_s=first_step_s,
    )


def _loop_at(filename: str, line: int) -> int | None:
    """Where the innermost ``for`` begins whose body holds a line."""
    loops = [loop for loop in loops_around(filename, line) if isinstance(loop, ast.For)]
    return loops[-1].lineno if loops and loops[-1].lineno < line else None
