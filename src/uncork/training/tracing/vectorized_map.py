"""Replaces ``tf.map_fn`` by ``tf.vectorized_map`` where the result is known to be the same.

``tf.map_fn`` runs its function for one element after the other, in a loop of the graph;
``tf.vectorized_map`` traces it once, and puts in the place of each op one that does the same for
all elements. Some ops it converts into something else than they were: random numbers are drawn in
another order, gradients of a function's own are forgotten. So the call is tried in a graph that is
thrown away, and what is found there decides.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tf.autograph import convert_like_caller
from uncork.compat.tf.functions import FuncGraph
from uncork.compat.tf.graphs import CompositeTensor
from uncork.core.base.errors import describe_error

# What a function's own loops and branches become, and what one that is traced by itself does.
_CONTROL: Final = frozenset(
    {"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"}
)
_CALLS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient"})
# These are stateful in TensorFlow's books, and only read.
_READS: Final = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"})
_OWN_GRADIENT: Final = "_gradient_op_type"
# Options that say that it is to be a loop, or may have to be one.
_TELLING: Final[dict[str, tuple[object, str]]] = {
    "parallel_iterations": (1, "the call asks for one element after the other"),
    "back_prop": (False, "the call turns gradients off"),
    "swap_memory": (True, "the call saves memory, and a vectorized loop needs more"),
    "infer_shape": (False, "the results may differ in shape"),
}


class NotVectorizedError(Exception):
    """A call that stays ``tf.map_fn``, with the reason as part of a sentence."""


def call_vectorized_map(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    *,
    fn_output_signature: Any = None,
    name: str | None = None,
    **options: Any,
) -> Any:
    """What ``tf.map_fn`` would return, without its loop.

    Args:
        fn: As of ``tf.map_fn``, like all others.
        elems: Stacked.
        dtype: Of what ``fn`` returns, by its older name.
        fn_output_signature: The same.
        name: Of a scope.
        options: How the loop is to run.

    Raises:
        NotVectorizedError: It is not known to be the same.

    Example:
        >>> @tf.function
        ... def lengths(vectors):
        ...     return call_vectorized_map(tf.norm, vectors)
        >>> lengths(tf.constant([[3.0, 4.0], [6.0, 8.0]])).numpy().tolist()
        [5.0, 10.0]
    """
    for option, (telling, reason) in _TELLING.items():
        if options.get(option) == telling:
            raise NotVectorizedError(f"{reason} ({option}={telling})")
    signature = dtype if fn_output_signature is None else fn_output_signature
    with tf.name_scope(name or "map"):
        call = _Call(fn, tf.nest.map_structure(_stacked, elems), signature)
        call.examine()
        return call.converted()


def _stacked(elems: Any) -> Any:
    if isinstance(elems, CompositeTensor) and not isinstance(elems, tf.Variable):
        raise NotVectorizedError("the elements are ragged or sparse tensors")
    try:
        tensor = tf.convert_to_tensor(elems)
    except Exception as error:
        raise NotVectorizedError("the elements are not tensors") from error
    if not tensor.shape.rank or tensor.dtype in (tf.variant, tf.resource):
        raise NotVectorizedError("the structure of the elements cannot be flattened")
    return tensor


class _Call:
    """One call of ``tf.map_fn``.

    Args:
        fn: For one element.
        elems: Tensors, in the structure that ``fn`` takes.
        signature: Of what ``fn`` returns; None where that is like what it takes.
    """

    def __init__(self, fn: Callable[[Any], Any], elems: Any, signature: Any) -> None:
        # As tf.map_fn does: the branches of a function are converted where its caller's are.
        self._fn = convert_like_caller(fn)
        self._elems = elems
        self._first = tf.nest.flatten(elems)[0]
        self._structure = elems if signature is None else signature
        self._shapes: list[tf.TensorShape] = []
        self._traced: Any = None
        self._specs = [_spec(each) for each in tf.nest.flatten(self._structure)]
        if not self._specs:
            raise NotVectorizedError("the function returns nothing")
        self._check_lengths()

    def examine(self) -> None:
        """Convert it in a graph of its own, and see what the function does.

        Raises:
            NotVectorizedError: Something that cannot be converted, or not for certain.
        """
        with FuncGraph("examined_map").as_default(), _in_silence():
            try:
                self._over(tf.nest.map_structure(_placeholder, self._elems))
            except NotVectorizedError:
                raise
            except Exception as error:
                raise NotVectorizedError(_in_short(error)) from error
        assert self._traced is not None
        for op in self._traced.get_operations():
            reason = _why_not(op)
            if reason:
                raise NotVectorizedError(reason)

    def converted(self) -> Any:
        """All elements at once.

        Raises:
            NotVectorizedError: It cannot be done here, though it could where it was examined.
        """
        try:
            with _in_silence(), tf.control_dependencies(self._checks()):
                return tf.nest.pack_sequence_as(self._structure, self._results())
        except Exception as error:
            raise NotVectorizedError(_in_short(error)) from error

    def _results(self) -> list[Any]:
        """``tf.vectorized_map`` of nothing fails, of which ``tf.map_fn`` makes nothing."""
        if self._first.shape[0] is not None or not all(s.is_fully_defined() for s in self._shapes):
            return self._over(self._elems)
        empty = [tf.TensorShape([0]).concatenate(shape) for shape in self._shapes]
        dtypes = [spec.dtype for spec in self._specs]
        found = tf.cond(
            tf.shape(self._first)[0] > 0,
            lambda: self._over(self._elems),
            lambda: [tf.zeros(*each) for each in zip(empty, dtypes, strict=True)],
        )
        for result, shape in zip(found, self._shapes, strict=True):
            result.set_shape(tf.TensorShape([None]).concatenate(shape))
        return list(found)

    def _over(self, elems: Any) -> list[Any]:
        found = tf.vectorized_map(self._each, elems, fallback_to_while_loop=False, warn=False)
        for result, spec in zip(found, self._specs, strict=True):
            result.set_shape(self._first.shape[:1].concatenate(spec.shape))
        self._shapes = [result.shape[1:] for result in found]
        return list(found)

    def _each(self, element: Any) -> list[Any]:
        self._traced = tf.compat.v1.get_default_graph()  # under XLA, TensorFlow makes one more
        given = self._fn(element)
        tf.nest.assert_same_structure(self._structure, given)
        leaves = tf.nest.flatten(given)
        return [_dense(leaf, spec) for leaf, spec in zip(leaves, self._specs, strict=True)]

    def _check_lengths(self) -> None:
        lengths = {each.shape[0] for each in tf.nest.flatten(self._elems)} - {None}
        if len(lengths) > 1:
            raise NotVectorizedError("the element tensors have different lengths")
        if lengths & {0, 1}:
            raise NotVectorizedError("there are fewer than two elements")

    def _checks(self) -> list[Any]:
        """``tf.vectorized_map`` would repeat a single element; ``tf.map_fn`` raises an error."""
        first, others = self._first, tf.nest.flatten(self._elems)[1:]
        unknown = [each for each in others if None in (first.shape[0], each.shape[0])]
        length = tf.shape(first)[0]
        return [tf.debugging.assert_equal(tf.shape(each)[0], length) for each in unknown]


def _spec(signature: Any) -> tf.TensorSpec:
    if isinstance(signature, tf.TensorSpec):
        return signature
    if isinstance(signature, tf.TypeSpec):
        raise NotVectorizedError("the function returns ragged or sparse tensors")
    with suppress(TypeError):
        return tf.TensorSpec(None, getattr(signature, "dtype", None) or tf.as_dtype(signature))
    raise NotVectorizedError("the result type of the function is unknown")


def _placeholder(tensor: Any) -> Any:
    return tf.compat.v1.placeholder(tensor.dtype, tensor.shape)


def _dense(leaf: Any, spec: tf.TensorSpec) -> Any:
    if isinstance(leaf, CompositeTensor) and not isinstance(leaf, tf.Variable):
        raise NotVectorizedError("the function returns ragged or sparse tensors")
    tensor = tf.convert_to_tensor(leaf, dtype_hint=spec.dtype)
    if tensor.dtype != spec.dtype:
        raise NotVectorizedError(f"the function returns {tensor.dtype.name}, not {spec.dtype.name}")
    if not tensor.shape.is_compatible_with(spec.shape):
        raise NotVectorizedError(f"the function returns shape {tensor.shape}, not {spec.shape}")
    return tensor


def _why_not(op: Any) -> str:
    kind = op.type
    if kind in _CONTROL:
        return "the function contains loops or branches"
    if kind in _CALLS:
        return "the function calls another tf.function"
    if op.op_def is not None and op.op_def.is_stateful and kind not in _READS:
        return f"the function uses random numbers, writes or checks something ({kind})"
    if _OWN_GRADIENT in op.node_def.attr:
        return "the function has a custom gradient"
    return ""


def _in_short(error: Exception) -> str:
    return f"TensorFlow cannot convert the function: {describe_error(error)}"


@contextmanager
def _in_silence() -> Iterator[None]:
    """TensorFlow logs pages about what it cannot convert; here that is an answer."""
    logger, thread = tf.get_logger(), threading.get_ident()

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    logger.addFilter(is_of_others)
    try:
        yield
    finally:
        logger.removeFilter(is_of_others)
