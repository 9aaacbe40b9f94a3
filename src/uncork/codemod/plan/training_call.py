"""Where a script makes, compiles, feeds and runs what a plan is for."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from uncork.codemod.syntax.call_syntax import check_keyword, with_keyword
from uncork.codemod.syntax.changes import Change, Statement
from uncork.codemod.syntax.script_tree import ScriptTree, find_argument, method_name, receiver
from uncork.core.base.errors import EditRefused
from uncork.core.documents.plan import Plan
from uncork.pycode.syntax.parse import find_sklearn_names, parse_source

# Arguments of Keras's compile that stand before the settings of the step.
_BEFORE = 6
_TAKES_ONE = ("enumerate", "tqdm")
# Of what goes on with a dataset, and of what makes one.
_OF_DATASETS = frozenset({
    "apply", "batch", "bucket_by_sequence_length", "cache", "choose_from_datasets", "concatenate",
    "enumerate", "filter", "flat_map", "from_generator", "from_tensor_slices", "from_tensors",
    "group_by_window", "ignore_errors", "interleave", "list_files", "load", "map", "padded_batch",
    "prefetch", "ragged_batch", "random", "range", "rebatch", "repeat", "sample_from_datasets",
    "scan", "shard", "shuffle", "skip", "snapshot", "take", "take_while", "unbatch", "unique",
    "window", "with_options", "zip",
})  # fmt: skip
_WRAPPERS = frozenset({
    "as_numpy", "as_numpy_iterator", "enumerate", "islice", "iter", "list", "tqdm", "track",
    "trange", "zip",
})  # fmt: skip


def add_compile_setting(
    source: ScriptTree, plan: Plan, name: str, value: str, *, replaceable_values: Collection[str]
) -> Change:
    """One more setting of the model that is trained.

    Args:
        source: The script.
        plan: Says which training.
        name: Of the keyword.
        value: As code.
        replaceable_values: What the script may give already.

    Raises:
        EditRefused: The call of ``compile`` is not known, sets up other models, too, or the model
            is trained by other calls of ``fit``, which the plan leaves as they are.
    """
    work = plan.before.workload
    if work.kind != "fit":
        raise EditRefused("the script trains in its own loop, without compile")
    compiles = [call for call in source.calls("compile") if not source.is_imported(receiver(call))]
    if work.step_setup_at is None and len(compiles) == 1:  # re.compile is another one
        call = compiles[0]
    else:
        call = source.call_at(work.step_setup_at, "compile")
    if not source.runs_once(call):
        raise EditRefused(
            f"the compile on line {source.line(call)} may set up other models, too (it is in a "
            "loop, or in a function with several callers)"
        )
    check_one_fit(source, plan)
    _check_is_keras(source, call)
    check_keyword(call, name, replaceable_values)
    return Change(call, lambda now: with_keyword(now, name, value))


def _check_is_keras(source: ScriptTree, call: cst.Call) -> None:
    """Refuse where the keyword may be unknown to what is called, or given by its place."""
    own = [f for f in source.nodes_of_type(cst.FunctionDef) if f.name.value == "compile"]
    if own and source.enclosing_function(call) not in own:
        raise EditRefused(
            f"the script defines its own compile on line {source.line(own[0])}, which may not "
            "accept another argument"
        )
    if len([arg for arg in call.args if arg.keyword is None]) > _BEFORE:
        raise EditRefused(f"the compile on line {source.line(call)} passes settings by position")


def check_one_fit(source: ScriptTree, plan: Plan) -> cst.Call:
    """The call of ``fit`` that the plan is for, where the script has no other.

    Raises:
        EditRefused: It has others, or the one it has is not the plan's.
    """
    call = source.call_at(plan.before.workload.at, "fit")
    others = find_sklearn_names(parse_source(source.module.code))
    fits = [each for each in source.calls("fit") if _root_name(receiver(each)) not in others]
    lines = [str(source.line(each)) for each in fits]
    if len(lines) > 1:
        raise EditRefused(
            f"the script calls fit on lines {', '.join(lines)}, and the plan is for one of them"
        )
    return call


def _root_name(node: cst.CSTNode) -> str:
    while isinstance(node, cst.Call | cst.Attribute):
        node = node.func if isinstance(node, cst.Call) else node.value
    return node.value if isinstance(node, cst.Name) else ""


def find_training_data(source: ScriptTree, plan: Plan) -> tuple[cst.BaseExpression, Statement]:
    """The dataset that the training reads, as code, and the statement that reads it.

    Raises:
        EditRefused: It is not plain which that is.
    """
    work = plan.before.workload
    if work.data_kind != "tf.data":
        raise EditRefused(f"the training reads {work.data_kind}, not tf.data")
    if work.kind == "custom_loop":
        loop = _loop_at(source, source.line_of(work.at, "loop"))
        _check_serves_one(source, loop)
        return _chained(source, _iterated(loop)), loop
    call = source.call_at(work.at, "fit")
    _check_serves_one(source, call)
    given = find_argument(call, "x") or (call.args[0] if call.args else None)
    if given is None or given.star or (given.keyword and given.keyword.value != "x"):
        raise EditRefused(f"the fit on line {source.line(call)} gets its data in another way")
    return _chained(source, given.value), source.enclosing_statement(call)


def find_validation_data(
    source: ScriptTree, plan: Plan
) -> tuple[cst.BaseExpression, cst.SimpleStatementLine]:
    """The dataset that ``fit`` validates on, as code, and the statement that reads it.

    Raises:
        EditRefused: It is not plain which that is.
    """
    call = source.call_at(plan.before.workload.at, "fit")
    _check_serves_one(source, call)
    given = find_argument(call, "validation_data")
    if given is None:
        raise EditRefused(
            f"the fit on line {source.line(call)} gets its validation data in another way"
        )
    return _chained(source, given.value), source.enclosing_statement(call)


def _check_serves_one(source: ScriptTree, place: cst.CSTNode) -> None:
    if not source.has_one_caller(place):
        raise EditRefused(
            f"what line {source.line(place)} reads may be other data, too (it is in a function "
            "with several callers, or with callers outside the script)"
        )


def _loop_at(source: ScriptTree, line: int) -> cst.For:
    found = [loop for loop in source.nodes_of_type(cst.For) if source.line(loop) == line]
    if len(found) != 1:
        raise EditRefused(f"there is no for statement on line {line}", "for ... in dataset:")
    return found[0]


def _iterated(loop: cst.For) -> cst.BaseExpression:
    """What is gone through; within ``enumerate(...)``, what is numbered."""
    found = loop.iter
    if isinstance(found, cst.Call) and isinstance(found.func, cst.Name):
        if found.func.value not in _TAKES_ONE or not found.args or found.args[0].keyword:
            raise EditRefused("the loop iterates over the result of a function")
        return found.args[0].value
    return found


def _chained(source: ScriptTree, data: cst.BaseExpression) -> cst.BaseExpression:
    """An expression that a method of datasets can be put behind."""
    is_chain = isinstance(data, cst.Call) and method_name(data) in _OF_DATASETS
    if not (is_chain or isinstance(data, cst.Name | cst.Attribute)):
        raise EditRefused(
            f"the script trains on '{source.code(data)}', which is neither a name nor a chain of "
            "calls"
        )
    if isinstance(data, cst.Name) and _is_wrapped(source, data.value):
        raise EditRefused(f"'{data.value}' wraps a dataset, and is not one itself")
    return data


def _is_wrapped(source: ScriptTree, name: str) -> bool:
    """It is bound by a ``with``, or to what a function gives that shows progress or takes apart."""
    for item in source.nodes_of_type(cst.WithItem):
        if item.asname is not None and source.code(item.asname.name) == name:
            return True
    for target in source.nodes_of_type(cst.AssignTarget):
        statement = source.parent(target)
        if source.code(target.target) == name and isinstance(statement, cst.Assign):
            value = statement.value
            if isinstance(value, cst.Call):
                called = source.code(value.func).rpartition(".")[2]
                if called in _WRAPPERS:
                    return True
    return False
