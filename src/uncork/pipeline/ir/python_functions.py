"""Python functions that a map calls: which they are, what they are asked, how to keep the answers.

``py_function`` and ``numpy_function`` leave a token in the graph; the function behind it stands in
a registry of TensorFlow's. Another function under another token is all that it takes to change it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from uncork.compat.tf.autograph import without_autograph_mark
from uncork.compat.tf.py_function import (
    entry_like,
    function_of,
    keep_alive,
    register,
    registered,
    replace_registered,
)
from uncork.compat.tfdata.generators import generator_of, returns_next_element, state_behind
from uncork.pipeline.functions.effects import PYTHON_OPS, RepeatabilityChecker, has_python_calls
from uncork.pipeline.functions.function_graph import (
    ConcreteFunction,
    Graph,
    argument_specs,
    cache_per_function,
    called_functions,
    graph_of,
    is_control,
    replay,
    trace,
)
from uncork.pipeline.ir.node import Node
from uncork.pycode.purity.memoized_function import MemoizedFunction
from uncork.pycode.purity.memoized_generator import MemoizedGenerator
from uncork.pycode.purity.reachability import function_digest

_TOKEN: Final = "token"
_OF_ARRAYS: Final = frozenset({"PyFunc", "PyFuncStateless"})


def python_functions(function: ConcreteFunction) -> dict[str, Callable[..., Any]]:
    """The user's Python functions that a map's function calls, by their tokens.

    Returns:
        None of them where one is called inside a loop or a branch of the graph.

    Example:
        >>> import tensorflow as tf
        >>> minus = tf.function(lambda x: tf.numpy_function(np.negative, [x], tf.float32))
        >>> found = python_functions(minus.get_concrete_function(tf.TensorSpec([], tf.float32)))
        >>> list(found.values())
        [<ufunc 'negative'>]
    """
    found = {token: registered(token) for token in _tokens(function)}
    return {
        token: without_autograph_mark(function_of(f)) for token, f in found.items() if f is not None
    }


def python_digest(function: ConcreteFunction) -> str:
    """Of the code of all Python functions that a map's function calls."""
    return "".join(function_digest(f) for f in python_functions(function).values())


def has_repeatable_python_calls(function: ConcreteFunction) -> bool:
    """An element that comes again has its Python functions asked the same again."""
    graph, judge = (
        graph_of(function),
        RepeatabilityChecker(graph_of(function), allow_static_tables=True),
    )
    asked = [node for node in graph.nodes.values() if _is_call(node)]
    needed = graph.required_ops(reference for node in asked for reference in node.input)
    return bool(asked) and all(
        judge.is_repeatable(graph.nodes[name]) or _is_call(graph.nodes[name]) for name in needed
    )


@contextmanager
def record_python_calls(function: ConcreteFunction) -> Iterator[dict[str, list[tuple[Any, ...]]]]:
    """Note what the Python functions are asked, by their tokens, for as long as the block lasts."""
    found: dict[str, list[tuple[Any, ...]]] = {token: [] for token in python_functions(function)}
    before = {token: registered(token) for token in found}
    instead = {
        t: entry_like(held, _noting(function_of(held), found[t])) for t, held in before.items()
    }
    try:
        for token, noting in instead.items():  # the registry itself holds nothing
            replace_registered(token, noting)
        yield found
    finally:
        for token, held in before.items():
            replace_registered(token, held)


def memoize_python_calls(function: ConcreteFunction, max_bytes: int) -> ConcreteFunction:
    """The same function, whose Python functions are called once for each thing they are asked.

    Args:
        function: Of a map.
        max_bytes: That all answers take, as far as was seen.
    """
    graph = graph_of(function)
    tokens, held = {}, []
    for token in python_functions(function):
        kept = MemoizedFunction(function_of(registered(token)), max_bytes)
        held.append(entry_like(registered(token), kept))
        tokens[token] = register(held[-1])
    altered = _with_tokens(graph, tokens)
    effects = [f"^{effect}" for effect in graph.effects]

    def keeping(*tensors: Any) -> list[Any]:
        feeds = dict(zip((f"{a}:0" for a in graph.arguments), tensors, strict=True))
        names = altered.required_ops([*graph.outputs, *effects])
        return replay(altered, names, feeds, graph.outputs)

    made = trace("uncork_keeping", argument_specs(graph), keeping)
    # The registry itself forgets a function that nobody holds; TensorFlow keeps them here, too.
    keep_alive(made.graph, held)
    return made


def user_generator_of(node: Node) -> Callable[[], Any] | None:
    """The user's function behind ``Dataset.from_generator``; None where it takes arguments."""
    source = generator_source_of(node)
    if source is None:
        return None
    return (
        source.function.user_function
        if isinstance(source.function, GeneratorWrapper)
        else source.function
    )


def has_wrapped_generator(node: Node) -> bool:
    """What ``from_generator`` calls is not the user's generator, but something that asks it."""
    source = generator_source_of(node)
    return source is not None and isinstance(source.function, GeneratorWrapper)


class GeneratorWrapper:
    """Called by ``from_generator`` instead of the user's function, which it asks in its own way.

    Args:
        user_function: That function.
    """

    def __init__(self, user_function: Callable[[], Any]) -> None:
        self.user_function = user_function


@dataclass(frozen=True)
class GeneratorSource:
    """TensorFlow's side of a ``Dataset.from_generator`` whose function takes no arguments.

    Attributes:
        state: Makes, holds and forgets the iterators, each of which has a number.
        next_arrays: Of such a number, the arrays of the next element, held against the signature;
            None where elements are more than arrays.
    """

    state: Any
    next_arrays: Callable[[int], list[Any]] | None

    @property
    def function(self) -> Callable[[], Any]:
        """What it calls: the user's, or what stands in for it."""
        return generator_of(self.state)


def generator_source_of(node: Node) -> GeneratorSource | None:
    """What stands behind a ``from_generator``; None where its function takes arguments."""
    if node.kind != "from_generator":
        return None
    state, following = None, None
    for call in filter(_is_call, _called_bodies(graph_of(node.functions[0]))):
        entry = registered(call.attr[_TOKEN].s.decode())
        function = without_autograph_mark(entry) if entry is not None else None
        own_state = state_behind(function)
        if own_state is not None and all(map(is_control, call.input)):
            state = own_state
        if call.op in _OF_ARRAYS and returns_next_element(function):
            following = function
    return None if state is None else GeneratorSource(state, following)


def has_python_code(node: Node) -> bool:
    """A generator, or a stage whose function calls into Python."""
    return node.kind == "from_generator" or any(map(has_python_calls, node.functions))


def has_memoized_python(node: Node) -> bool:
    """What its Python code makes is kept already."""
    return any(map(_keeps_calls, node.functions)) or isinstance(
        user_generator_of(node), MemoizedGenerator
    )


@cache_per_function
def _tokens(function: ConcreteFunction) -> tuple[str, ...]:
    """Of the calls into Python; none where one is made inside a loop or a branch."""
    graph = graph_of(function)
    if any(_is_call(node) for node in _called_bodies(graph)):
        return ()
    return tuple(n.attr[_TOKEN].s.decode() for n in graph.nodes.values() if _is_call(n))


def _called_bodies(graph: Graph) -> Iterator[Any]:
    """Ops of the functions that a graph calls; bodies that are in place already are not called."""
    left = [name for node in graph.nodes.values() for name in (node.op, *called_functions(node))]
    seen = set(left)
    while left:
        body = graph.library.get(left.pop())
        for node in body.node_def if body is not None else ():
            yield node
            new = {node.op, *called_functions(node)} - seen
            seen |= new
            left.extend(new)


def _keeps_calls(function: ConcreteFunction) -> bool:
    return any(isinstance(f, MemoizedFunction) for f in python_functions(function).values())


def _is_call(node: Any) -> bool:
    return node.op in PYTHON_OPS


def _noting(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> Callable[..., Any]:
    def noting(*arguments: Any) -> Any:
        calls.append(tuple(copy.deepcopy(a) if isinstance(a, np.ndarray) else a for a in arguments))
        return function(*arguments)

    return noting


def _with_tokens(graph: Graph, tokens: dict[str, str]) -> Graph:
    proto = type(graph.proto)()
    proto.CopyFrom(graph.proto)
    for node in proto.node:
        if _is_call(node):
            node.attr[_TOKEN].s = tokens[node.attr[_TOKEN].s.decode()].encode()
    return graph.with_proto(proto)
