"""What a cache keeps for ever although it was meant to be drawn anew in every epoch."""

from __future__ import annotations

from typing import Final

from uncork.pipeline.effects import DRAWS, op_types
from uncork.pipeline.node import Node

# Of ``tf.random.Generator``, whose state moves on from draw to draw.
_GENERATORS: Final = frozenset({
    "RngReadAndSkip", "RngSkip", "StatefulUniform", "StatefulUniformInt", "StatefulUniformFullInt",
    "StatefulStandardNormalV2", "StatefulTruncatedNormal", "StatefulRandomBinomial",
})  # fmt: skip
# Keras's seed generators: a variable is moved on, and a stateless op drawn from with it.
_VARIABLES: Final = frozenset({"AssignVariableOp", "AssignAddVariableOp"})
# What of a function goes on from pass to pass.
MOVES: Final = _GENERATORS | _VARIABLES


def freezes_draws(node: Node) -> bool:
    """A cache with something below it that draws other numbers in each pass.

    Only what certainly draws counts: Python code may or may not, and a shuffle below a cache is an
    order drawn once, which people choose on purpose.
    """
    return node.kind == "cache" and any(_draws_below(below) for below in node.inputs)


def _draws_below(node: Node) -> bool:
    if node.kind == "cache":
        return False  # that one is to blame
    return _draws(node) or any(map(_draws_below, node.inputs))


def is_moving_source(node: Node) -> bool:
    """Numbers drawn at random, others in each pass."""
    return type(node.dataset).__name__ == "_RandomDataset" and bool(node.dataset._rerandomize)


def _draws(node: Node) -> bool:
    if is_moving_source(node):
        return True
    ops = frozenset[str]().union(*map(op_types, node.functions))
    by_variable = bool(ops & _VARIABLES) and any(op.startswith("StatelessRandom") for op in ops)
    return by_variable or bool(ops & (DRAWS | _GENERATORS))
