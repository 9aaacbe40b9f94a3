"""Side effects of training functions, which each trial step repeats."""

from __future__ import annotations

from typing import Any, Final

from uncork.training.tracing.graph_ops import find_live_graphs

# By the ops' types, what their authors call.
_EFFECTS: Final = {
    "EagerPyFunc": "tf.py_function",
    "PyFunc": "tf.numpy_function",
    "PrintV2": "tf.print",
    "WriteFile": "tf.io.write_file",
    "WriteScalarSummary": "tf.summary",
    "WriteSummary": "tf.summary",
    "WriteHistogramSummary": "tf.summary",
    "WriteImageSummary": "tf.summary",
    "WriteAudioSummary": "tf.summary",
}
# Where a step's gradients are made, TensorFlow puts their ops.
_GRADIENTS: Final = "gradient_tape/"


def find_side_effects() -> tuple[str, ...]:
    """A note where steps that were traced in this process call Python or write; else nothing.

    Example:
        >>> import tensorflow as tf
        >>> @tf.function
        ... def step(x):
        ...     tf.print(x, output_stream="file:///dev/null")
        ...     with tf.GradientTape() as tape:
        ...         tape.watch(x)
        ...         loss = x * x
        ...     return tape.gradient(loss, x)
        >>> float(step(tf.constant(1.0)))
        2.0
        >>> "tf.print" in find_side_effects()[0]
        True
    """
    types = {op.type for graph in find_live_graphs() for op in _of_a_step(graph)}
    found = dict.fromkeys(called for type_, called in _EFFECTS.items() if type_ in types)
    if not found:
        return ()
    return (
        f"the training steps call {', '.join(found)}. Uncork runs extra steps to measure "
        "them, so this code prints, counts or writes more often than in a normal training",
    )


def _of_a_step(graph: Any) -> list[Any]:
    """Ops of a graph that takes gradients; nothing of others, which are functions of data, say."""
    ops = list(graph.get_operations())
    return ops if any(op.name.startswith(_GRADIENTS) for op in ops) else []
