"""``jit_compile``: of ``compile`` for a ``fit``, of ``@tf.function`` for a loop's own step."""

from __future__ import annotations

from uncork.core.errors import EditRefused
from uncork.core.plan import Plan
from uncork.core.step_edit import JitCompile, JitCompileOff, LayersInInput
from uncork.source.changes import Changes
from uncork.source.decorator import decorated
from uncork.source.training_call import compile_setting
from uncork.source.tree import Source

# What Keras makes of these is decided on the machine; the plan was tried against it there.
_AUTO = ('"auto"', "'auto'")
_UNSET = ("False", "None", *_AUTO)


def jit_compile(source: Source, plan: Plan, edit: JitCompile) -> Changes:
    """The keyword of ``compile``, or of the decorator.

    Raises:
        EditRefused: There is no one call, or no one function, that it could be given to; or it
            would do something else than the plan.
    """
    if edit.code:
        return [decorated(source, plan, "jit_compile", "True", unset=_UNSET[:2])]
    if any(isinstance(each, LayersInInput) for each in plan.step_edits):
        raise EditRefused("it is for the step without the layers that the plan runs in the input")
    if plan.before.workload.steps_per_epoch is None:
        raise EditRefused(
            "only their end tells how long the data are, and the step that meets it is not counted "
            "under XLA: the plan leaves that one as it is"
        )
    return [compile_setting(source, plan, "jit_compile", "True", unset=_UNSET)]


def jit_compile_off(source: Source, plan: Plan, edit: JitCompileOff) -> Changes:
    """The same, set to False.

    Raises:
        EditRefused: As above.
    """
    if edit.code:
        return [decorated(source, plan, "jit_compile", "False", unset=("True",))]
    return [compile_setting(source, plan, "jit_compile", "False", unset=("True", *_AUTO))]
