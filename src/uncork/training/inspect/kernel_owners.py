"""Whose kernels a step runs: of which layer, at which line, in which phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from uncork.core.evidence.kernels import MAX_SHORT_KERNEL_S, KernelGroup, Phase
from uncork.measure.profile.kernels import Kernel
from uncork.pycode.frames.layer_registry import LayerRegistry
from uncork.pycode.frames.stack import format_location, is_user_file, user_location
from uncork.training.inspect.embedding_tables import EmbeddingTables
from uncork.training.tracing.graph_ops import GraphOps

# Of all kernels; the rest is told together.
_SMALL: Final = 0.01
_GRADIENT: Final = "gradient_tape/"
_MADE_BY: Final[dict[str, Phase]] = {
    "/keras/src/optimizers/": "optimizer",
    "/keras/src/metrics/": "metrics",
}
# Where Keras updates the metrics of ``compile``; losses are computed in the same file.
_COMPILED: Final = "/keras/src/trainers/compile_utils.py"
_UPDATE: Final = "update_state"
# Functions that stay functions: compiled by XLA, say.
_CALL: Final = "PartitionedCall"
_BACKWARD: Final = "__backward_"
_LAYERS: Final = "/keras/src/layers/layer.py"
_MAP_FN: Final = "/tensorflow/python/ops/map_fn.py"
# Where TensorFlow calls a function to trace it.
_TRACING: Final = "/tensorflow/python/framework/func_graph.py"


def group_kernels(
    kernels: Sequence[Kernel], layers: LayerRegistry, batch_size: int | None = None
) -> tuple[KernelGroup, ...]:
    """Put kernels that belong together in one part, those that take longest first.

    Args:
        kernels: Of a step.
        layers: Of the script.
        batch_size: Samples of the step.

    Returns:
        Nothing where no kernel could be found in a graph: none was traced, say.
    """
    sorter = _Sorter(layers, kernels, batch_size)
    parts: dict[Any, _Part] = {}
    for kernel in kernels:
        key = sorter.key(kernel)
        part = parts.setdefault(key, _Part(key))
        part.add(kernel)
        if key.phase == "forward" and sorter.is_of_batch(kernel):
            part.add_of_batch(kernel, sorter.called_at(kernel))
    total = sum(kernel.seconds for kernel in kernels)
    if not sorter.found or total <= 0:
        return ()
    told = [part.told(total) for part in _large(list(parts.values()), total)]
    return tuple(sorted(told, key=lambda part: -part.share))


@dataclass(frozen=True)
class _Key:
    """What kernels of one part have in common."""

    phase: Phase
    layer: str = ""
    at: str | None = None
    in_loop: bool = False
    of_map: bool = False
    rows: int = 0
    rows_used: int = 0
    compiled_apart: bool = False


@dataclass
class _Part:
    key: _Key
    seconds: float = 0.0
    of_batch_s: Counter[str | None] = field(default_factory=Counter)
    calls: float = 0.0
    most_calls: float = 0.0
    brief_s: float = 0.0
    brief_calls: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, kernel: Kernel) -> None:
        self.seconds += kernel.seconds
        self.calls += kernel.calls_per_step
        self.most_calls = max(self.most_calls, kernel.calls_per_step)
        if kernel.seconds < MAX_SHORT_KERNEL_S * kernel.calls_per_step:
            self.brief_s += kernel.seconds
            self.brief_calls += kernel.calls_per_step
        self.kinds[kernel.kind] += int(kernel.seconds * 1e9)

    def add_of_batch(self, kernel: Kernel, called_at: str | None) -> None:
        self.of_batch_s[called_at] += kernel.seconds  # type: ignore[assignment]

    def join(self, other: _Part) -> None:
        self.seconds += other.seconds
        self.of_batch_s.update(other.of_batch_s)
        self.calls += other.calls
        self.brief_s += other.brief_s
        self.brief_calls += other.brief_calls
        self.kinds.update(other.kinds)

    def told(self, total_s: float) -> KernelGroup:
        key = self.key
        return KernelGroup(
            phase=key.phase,
            share=self.seconds / total_s,
            calls_per_step=self.calls,
            main_kernel=self.kinds.most_common(1)[0][0],
            layer=key.layer,
            at=key.at,
            loop_iterations=round(self.most_calls) if key.in_loop else 0,
            is_map_fn_loop=key.of_map,
            batch_only_share=sum(self.of_batch_s.values()) / total_s,
            batch_only_at=max(self.of_batch_s, key=self.of_batch_s.__getitem__, default=None),
            table_rows=key.rows,
            max_used_rows=key.rows_used,
            is_compiled_separately=key.compiled_apart,
            short_kernel_share=self.brief_s / total_s,
            short_calls_per_step=self.brief_calls,
        )


def _large(parts: Sequence[_Part], total_s: float) -> Iterator[_Part]:
    """Parts worth telling, and what remains of each phase."""
    rest: dict[Phase, _Part] = {}
    for part in parts:
        if part.seconds >= _SMALL * total_s:
            yield part
        else:
            phase = part.key.phase
            rest.setdefault(phase, _Part(_Key(phase))).join(part)
    yield from rest.values()


class _Sorter:
    """Tells for a kernel which part it belongs to.

    Attributes:
        found: Some kernel was found in a graph.
    """

    def __init__(
        self, layers: LayerRegistry, kernels: Sequence[Kernel], batch_size: int | None
    ) -> None:
        self.graphs = GraphOps()
        ops = [
            op for kernel in kernels if (op := self.graphs.op_of_kernel(kernel.name)) is not None
        ]
        self.found = bool(ops)
        self._layers = layers
        self._tables = EmbeddingTables(layers, ops, batch_size)
        self._phases: dict[str, Phase] = {}

    def key(self, kernel: Kernel) -> _Key:
        op, name = self.graphs.op_of_kernel(kernel.name), kernel.name
        phase = self._phase(op, name)
        table = None if op is None else self._tables.table_of_op(op)
        if table is not None:
            layer = self._tables.layer_of_table(table)
            rows = (table[0], self._tables.max_used_rows(table))
            return _Key(
                phase,
                type(layer).__name__,
                self._layers.creation_location(layer),
                False,
                False,
                *rows,
            )
        loop = self.graphs.loop_of_kernel(kernel.name)
        if phase in ("optimizer", "metrics"):
            return _Key(phase, at=None if op is None else _users_line(op))
        layers = self._compiled_by(op)
        if len(layers) > 1:  # nobody can tell which of them
            names = {type(layer).__name__ for layer in layers}
            return _Key(phase, names.pop() if len(names) == 1 else "", compiled_apart=True)
        layer = self._layers.layer_of_op(name.removeprefix(_GRADIENT)) or self._called_by(op)
        layer = next(iter(layers), layer)
        at = self._line(op if loop is None else loop, layer, phase)
        return _Key(
            phase,
            layer=type(layer).__name__ if layer else "",
            at=at,
            in_loop=loop is not None,
            of_map=loop is not None and _is_of_map(loop),
            compiled_apart=bool(layers),
        )

    def is_of_batch(self, kernel: Kernel) -> bool:
        op = self.graphs.loop_of_kernel(kernel.name) or self.graphs.op_of_kernel(kernel.name)
        return op is not None and not self._compiled_by(op) and self.graphs.is_batch_dependent(op)

    def called_at(self, kernel: Kernel) -> str | None:
        """The line of the user's in the step's own function; None for what a model's layers do.

        Those are told by where they are made.
        """
        op = self.graphs.loop_of_kernel(kernel.name) or self.graphs.op_of_kernel(kernel.name)
        frames = [] if op is None else list(op.traceback)
        traced = (number for number, frame in enumerate(frames) if _TRACING in frame.filename)
        inside = frames[next(traced, len(frames)) :]
        if sum(_LAYERS in frame.filename for frame in inside) > 1:
            return None
        users = (frame for frame in inside if is_user_file(frame.filename))
        return next((format_location(frame.filename, frame.lineno) for frame in users), None)

    def _compiled_by(self, op: Any) -> list[Any]:
        """Layers that have XLA compile the function in which an op stands, or which it calls."""
        found = [self._called_by(call) for call in self.graphs.compiled_calls(op)]
        return list({id(layer): layer for layer in found if layer is not None}.values())

    def _called_by(self, op: Any) -> Any:
        """Which layer calls a function; where none does, whose results it takes, as a gradient."""
        if op is None or not op.type.endswith(_CALL):
            return None
        found = (
            self._layers.layer_of_op(name) for name in (op.name, *(i.op.name for i in op.inputs))
        )
        return next((layer for layer in found if layer is not None), None)

    def _phase(self, op: Any, name: str) -> Phase:
        if _GRADIENT in name or (op is not None and _is_gradient(op)):
            return "backward"
        scope = name.partition("/")[0]
        if op is None:  # made of ops beside which it stands
            return self._phases.get(scope, "forward")
        frames = list(op.traceback)
        files = {frame.filename for frame in frames}
        made_by = (phase for part, phase in _MADE_BY.items() if any(part in f for f in files))
        updated = any(f.name == _UPDATE and _COMPILED in f.filename for f in frames)
        phase: Phase = "metrics" if updated else next(made_by, "forward")
        self._phases.setdefault(scope, phase)
        return phase

    def _line(self, op: Any, layer: Any, phase: Phase) -> str | None:
        """In a layer of the user's own where it does what; else where the layer is made."""
        made_at = self._layers.creation_location(layer)
        if op is None or (phase == "backward" and made_at):
            return made_at
        return _users_line(op, inside=_LAYERS if layer else "") or made_at


def _is_of_map(loop: Any) -> bool:
    """Made by ``tf.map_fn``; of an outermost loop, nothing else is made inside of it."""
    return any(frame.filename.endswith(_MAP_FN) for frame in loop.traceback)


def _is_gradient(op: Any) -> bool:
    """It is the call of a function that TensorFlow made for a gradient, or stands in one."""
    called = bool(op.type.endswith(_CALL)) and _BACKWARD in op.get_attr("f").name
    return called or op.graph.name.startswith(_BACKWARD)


def _users_line(op: Any, inside: str = "") -> str | None:
    """The innermost of the user's lines that made an op.

    Args:
        op: Of a graph.
        inside: Only of those called from a file with this name.
    """
    frames = list(op.traceback)
    if inside:
        entered = [number for number, frame in enumerate(frames) if inside in frame.filename]
        frames = frames[entered[-1] :] if entered else []
    return user_location(frames)
