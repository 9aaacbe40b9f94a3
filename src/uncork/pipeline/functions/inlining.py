"""Put the bodies of called ``tf.function``s in place of the calls.

A map function that is itself a ``tf.function`` is a single call to the outside, which is random as
a whole as soon as one op in it is. Only with the body in place can it be cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from uncork.compat.tf.graphs import function_def_to_graph_def

NodeDef = Any
INLINABLE_CALL_OPS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


@dataclass
class InlinedGraph:
    """Ops without calls, and what references to the calls have become.

    Attributes:
        nodes: By name, bodies where the calls were.
        replaced_tensors: ``call:0`` to the tensor in its body that it returned.
        replaced_controls: Name of a call to the ops that must have run once it would have.
    """

    nodes: dict[str, NodeDef] = field(default_factory=dict)
    replaced_tensors: dict[str, str] = field(default_factory=dict)
    replaced_controls: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def resolve_tensor(self, reference: str) -> str:
        """The tensor that ``op:index`` stands for now."""
        while reference in self.replaced_tensors:
            reference = self.replaced_tensors[reference]
        return reference

    def resolve_control(self, name: str) -> tuple[str, ...]:
        """The ops that stand for one op in an order of execution."""
        if name not in self.replaced_controls:
            return (name,)
        return tuple(
            dict.fromkeys(
                n for part in self.replaced_controls[name] for n in self.resolve_control(part)
            )
        )


def inline_calls(nodes: Mapping[str, NodeDef], library: Mapping[str, Any]) -> InlinedGraph:
    """Replace calls, and the calls in their bodies, until none is left.

    Calls that must be compiled by XLA stay: the body alone would not be.

    Args:
        nodes: Ops of a graph, by name.
        library: Function definitions, by name.
    """
    result = InlinedGraph()
    left = list(nodes.values())[::-1]
    while left:
        node = left.pop()
        if not _may_inline(node, library):
            result.nodes[node.name] = node
            continue
        left.extend(reversed(list(_body(node, library[node.attr["f"].func.name], result))))
    for node in result.nodes.values():
        _redirect(node, result)
    return result


def _may_inline(node: NodeDef, library: Mapping[str, Any]) -> bool:
    if node.op not in INLINABLE_CALL_OPS or node.attr["f"].func.name not in library:
        return False
    attributes = (node.attr, library[node.attr["f"].func.name].attr)
    return not any(a["_XlaMustCompile"].b for a in attributes if "_XlaMustCompile" in a)


def _body(call: NodeDef, function: Any, result: InlinedGraph) -> Iterator[NodeDef]:
    """Ops of the called function under names of their own; notes what the call stands for."""
    graph, flat = function_def_to_graph_def(function)
    given = [r for r in call.input if not r.startswith("^")]
    waits = [r for r in call.input if r.startswith("^")]
    arguments = dict(zip((a.name for a in function.signature.input_arg), given, strict=True))

    def outside(reference: str) -> str:
        name, _, index = reference.removeprefix("^").partition(":")
        if name not in arguments:
            mark = "^" if reference.startswith("^") else ""
            return f"{mark}{call.name}/{name}" + (f":{index}" if index else "")
        given_name = arguments[name]
        return f"^{given_name.partition(':')[0]}" if reference.startswith("^") else given_name

    for node in graph.node:
        if node.name not in arguments:
            node.name = f"{call.name}/{node.name}"
            yield _rewired(node, [outside(r) for r in node.input], waits)
    returned = [outside(flat[function.ret[o.name]]) for o in function.signature.output_arg]
    for index, reference in enumerate(returned):
        result.replaced_tensors[f"{call.name}:{index}"] = _indexed(reference)
    effects = (f"{call.name}/{name}" for name in function.control_ret.values())
    result.replaced_controls[call.name] = (*effects, *(r.partition(":")[0] for r in returned))


def _rewired(node: NodeDef, inputs: list[str], waits: list[str]) -> NodeDef:
    data = [r for r in inputs if not r.startswith("^")]
    orders = dict.fromkeys([*(r for r in inputs if r.startswith("^")), *waits])
    del node.input[:]
    node.input.extend([*data, *orders])
    return node


def _indexed(reference: str) -> str:
    return reference if ":" in reference else f"{reference}:0"


def _redirect(node: NodeDef, result: InlinedGraph) -> None:
    data = [result.resolve_tensor(_indexed(r)) for r in node.input if not r.startswith("^")]
    orders = [n for r in node.input if r.startswith("^") for n in result.resolve_control(r[1:])]
    del node.input[:]
    node.input.extend([*data, *(f"^{name}" for name in dict.fromkeys(orders))])
