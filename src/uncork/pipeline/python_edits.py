"""What edits do to Python in a pipeline: what it makes is kept."""

from __future__ import annotations

import tensorflow as tf

from uncork.core.errors import EditRefused
from uncork.core.pipeline_edit import GeneratorCache, PyFunctionCache
from uncork.pipeline.kept_generator import KeptGenerator
from uncork.pipeline.kinds import Dataset, kind_of
from uncork.pipeline.node import Node
from uncork.pipeline.nodes import derived
from uncork.pipeline.python_calls import (
    generator_of,
    hands_over_otherwise,
    keeping_calls,
    keeps_python,
    python_digest,
)
from uncork.pipeline.rebuild import make
from uncork.pipeline.source_lines import same_line
from uncork.watch import function_digest


def keep_calls(node: Node, edit: PyFunctionCache) -> Dataset:
    """A map whose Python functions are called once for each thing they are asked.

    Raises:
        EditRefused: It calls other code, or keeps the answers already.
    """
    function = node.functions[0]
    found = python_digest(function)
    if not found or found != edit.code:
        raise EditRefused(
            f"the Python code that {node} calls has digest {found or 'none'}",
            f"{edit.code}, of code that was seen to depend on what it is asked alone",
            "run 'uncork tune' again",
        )
    if keeps_python(node):
        raise EditRefused(f"{node} keeps what it was told already", "one that does not", "keep it")
    kept = derived(node.dataset._map_func, keeping_calls(function, edit.bytes))
    return make(node.dataset, [node.inputs[0].dataset], kind_of(node.dataset), _map_func=kept)


def keep_generator(node: Node, edit: GeneratorCache) -> Dataset:
    """A generator that is run once.

    Raises:
        EditRefused: It is another one, or kept already.
    """
    function = generator_of(node)
    found = "" if function is None else function_digest(function)
    if function is None or found != edit.code:
        raise EditRefused(
            f"the generator behind {node} has digest {found or 'none'}",
            f"{edit.code}, of one that was seen to yield the same each time",
            "run 'uncork tune' again",
        )
    if keeps_python(node) or hands_over_otherwise(node):
        raise EditRefused(f"{node} is rewritten already", "one that is not", "keep it")
    spec, kept = node.dataset.element_spec, KeptGenerator(function, edit.bytes)
    made = tf.data.Dataset.from_generator(kept, output_signature=spec, name=node.dataset._name)
    vars(made).update(same_line(node.dataset))
    return made
