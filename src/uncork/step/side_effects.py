"""What the functions of a training do beside computing: each step that is tried does it, too."""

from __future__ import annotations

from typing import Any, Final

from uncork.step.graph_ops import living_graphs

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
# Functions of datasets are named after what they do there; those are told of by themselves.
_OF_DATA: Final = "Dataset_"


def side_effects() -> tuple[str, ...]:
    """A sentence where functions that live in this process call Python or write; else nothing.

    Example:
        >>> import tensorflow as tf
        >>> @tf.function
        ... def step(x):
        ...     tf.print(x, output_stream="file:///dev/null")
        ...     return x
        >>> step(tf.constant(1.0)).shape
        TensorShape([])
        >>> side_effects()[0].partition(":")[0]
        'functions of the training call tf.print'
    """
    types = {op.type for graph in living_graphs() if not _of_data(graph) for op in _ops(graph)}
    found = dict.fromkeys(called for type_, called in _EFFECTS.items() if type_ in types)
    if not found:
        return ()
    return (
        f"functions of the training call {', '.join(found)}: what that prints, counts or writes "
        "was done in each step that was looked at, more often than a training does it",
    )


def _ops(graph: Any) -> list[Any]:
    return list(graph.get_operations())


def _of_data(graph: Any) -> bool:
    """It is a function of a dataset, or inside one."""
    while graph is not None:
        if getattr(graph, "name", "").startswith(_OF_DATA):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False
