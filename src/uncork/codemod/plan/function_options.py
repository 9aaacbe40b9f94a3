"""``@tf.function`` above the step of a custom loop, and its options."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from uncork.codemod.plan.training_call import add_compile_setting
from uncork.codemod.syntax.call_syntax import check_keyword, with_keyword
from uncork.codemod.syntax.changes import Change, Changes
from uncork.codemod.syntax.script_tree import ScriptTree
from uncork.core.base.errors import EditRefused
from uncork.core.documents.plan import Plan
from uncork.core.edits.step import (
    JitCompile,
    JitCompileOff,
    LayersInInput,
    ReduceRetracing,
    TfFunction,
)


def add_decorator_option(
    source: ScriptTree, plan: Plan, name: str, value: str, *, replaceable_values: Collection[str]
) -> Change:
    """One more option of the function that the loop calls for each batch.

    Args:
        source: The script.
        plan: Knows the line of that call.
        name: Of the option.
        value: As code.
        replaceable_values: What the script may give already.

    Raises:
        EditRefused: It is not plain which function that is, or something else calls it, too.
    """
    line = source.line_of(plan.before.workload.step_call_at, "step's call")
    named = f"{source.module_alias('tensorflow')}.function"
    found = {
        call.func.value: (function, decorator)
        for call in source.nodes_of_type(cst.Call)
        if isinstance(call.func, cst.Name) and source.line(call) == line
        for function in source.nodes_of_type(cst.FunctionDef)
        if function.name.value == call.func.value
        for decorator in function.decorators
        if _is(source, decorator, named)
    }
    defined = [f.name.value for f in source.nodes_of_type(cst.FunctionDef)]
    if len(found) != 1 or any(defined.count(function) > 1 for function in found):
        raise EditRefused(f"line {line} does not call a single function with @{named}")
    ((function, decorator),) = found.values()
    if len(source.uses(function.name.value)) > 1:
        raise EditRefused(f"the script uses {function.name.value} not only on line {line}")
    if isinstance(decorator.decorator, cst.Call):
        check_keyword(decorator.decorator, name, replaceable_values)

    def optioned(now: cst.BaseExpression) -> cst.Call:
        call = now if isinstance(now, cst.Call) else cst.Call(now)  # it may have had none yet
        return with_keyword(call, name, value)

    return Change(decorator.decorator, optioned)


def _is(source: ScriptTree, decorator: cst.Decorator, named: str) -> bool:
    what = decorator.decorator
    return source.code(what.func if isinstance(what, cst.Call) else what) == named


# What Keras makes of these is decided on the machine; the plan was tried against it there.
_AUTO = ('"auto"', "'auto'")
_UNSET = ("False", "None", *_AUTO)


def write_jit_compile(source: ScriptTree, plan: Plan, edit: JitCompile) -> Changes:
    """The keyword of ``compile``, or of the decorator.

    Raises:
        EditRefused: There is no one call, or no one function, that it could be given to; or it
            would do something else than the plan.
    """
    if edit.code_digest:
        return [
            add_decorator_option(source, plan, "jit_compile", "True", replaceable_values=_UNSET[:2])
        ]
    if any(isinstance(each, LayersInInput) for each in plan.step_edits):
        raise EditRefused(
            "it applies to the step without the layers that the plan runs in the input pipeline"
        )
    if plan.before.workload.steps_per_epoch is None:
        raise EditRefused(
            "the length of the data is unknown until they end, and XLA would not count the last "
            "step: the plan leaves that step unmodified"
        )
    return [add_compile_setting(source, plan, "jit_compile", "True", replaceable_values=_UNSET)]


def write_jit_compile_off(source: ScriptTree, plan: Plan, edit: JitCompileOff) -> Changes:
    """The same, set to False.

    Raises:
        EditRefused: As above.
    """
    if edit.code_digest:
        return [
            add_decorator_option(source, plan, "jit_compile", "False", replaceable_values=("True",))
        ]
    return [
        add_compile_setting(
            source, plan, "jit_compile", "False", replaceable_values=("True", *_AUTO)
        )
    ]


def write_reduce_retracing(source: ScriptTree, plan: Plan, edit: ReduceRetracing) -> Changes:
    """The keyword of the decorator.

    Raises:
        EditRefused: There is no one function that it could be given to.
    """
    return [
        add_decorator_option(
            source, plan, "reduce_retracing", "True", replaceable_values=("False", "None")
        )
    ]


def write_tf_function(source: ScriptTree, plan: Plan, edit: TfFunction) -> Changes:
    """``run_eagerly=False`` of ``compile``, or ``@tf.function`` above the step of a loop.

    Raises:
        EditRefused: There is no one call, or no one function, that it could be given to; or it
            would do something else than the plan.
    """
    if "run_functions_eagerly" in source.module.code:
        raise EditRefused("the script runs all functions eagerly")
    if plan.before.workload.kind == "fit":
        return [
            add_compile_setting(source, plan, "run_eagerly", "False", replaceable_values=("True",))
        ]
    if edit.number_arguments:
        names = ", ".join(edit.number_arguments)
        raise EditRefused(
            f"the loop passes {names} as Python numbers, and each new number is traced"
        )
    line = source.line_of(plan.before.workload.step_call_at, "step's call")
    called = {
        call.func.value
        for call in source.nodes_of_type(cst.Call)
        if isinstance(call.func, cst.Name) and source.line(call) == line
    }
    steps = [f for f in source.nodes_of_type(cst.FunctionDef) if f.name.value in called]
    if len(steps) != 1:
        raise EditRefused(f"line {line} does not call a single function of the script")
    (step,) = steps
    if step.decorators or len(source.uses(step.name.value)) > 1:
        raise EditRefused(f"{step.name.value} has a decorator, or is not used only on line {line}")
    decorator = cst.Decorator(cst.parse_expression(f"{source.module_alias('tensorflow')}.function"))
    return [Change(step, lambda now: now.with_changes(decorators=[decorator]))]
