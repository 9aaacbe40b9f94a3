"""Does a plan still fit the training that was reached? If not, what differs?"""

from __future__ import annotations

import platform

import keras

from uncork.core.documents.plan import Plan
from uncork.core.documents.workload import ModelSignature, Workload
from uncork.core.edits.step import (
    CodeSpecificEdit,
    DtypePolicy,
    FlatUpdates,
    JitCompileOff,
    PadLengths,
    StepsPerExecution,
    TfFunction,
)
from uncork.core.evidence.batches import is_nearly_divisible

_MODEL_WORDS = {
    "name": "class of the model",
    "parameter_count": "number of weights",
    "variables_digest": "shapes of the weights",
    "optimizer": "optimizer",
    "loss": "loss",
    "dtype_policies": "dtype policy",
    "train_step_digest": "code of train_step",
}
_SCALED = "mixed_float16"
_CODE = "code of the model's layers, losses or metrics: it has changed since the tuning"
_MADE_OF = "layers of the model, or their settings: they have changed since the tuning"


def plan_differences(plan: Plan, workload: Workload) -> tuple[str, ...]:
    """What keeps the plan from being used here; empty when it fits.

    Lines that moved, another number of epochs or other data of the same form are no obstacle: each
    edit's legality depends on the pipeline's structure and the model, and those are compared.
    """
    expected = plan.before.workload
    pairs: list[tuple[str, object, object]] = [
        ("kind of loop", expected.kind, workload.kind),
        ("data", expected.data_kind, workload.data_kind),
        ("batch", expected.element_spec, workload.element_spec),
    ]
    # What fills batches up is read off the pipeline, too.
    if plan.pipeline_edits or any(isinstance(edit, PadLengths) for edit in plan.step_edits):
        pairs.append(
            (
                "input pipeline (its structure and functions)",
                expected.pipeline_digest,
                workload.pipeline_digest,
            )
        )
    pairs += _hooks(plan, workload)
    steps = next((e.steps for e in plan.step_edits if isinstance(e, StepsPerExecution)), 1)
    # Keras runs whole executions only: it would take more steps than were asked for.
    if workload.has_explicit_steps and (workload.steps_per_epoch or 0) % steps:
        pairs.append(("steps_per_epoch", f"a multiple of {steps}", workload.steps_per_epoch))
    if (workload.validation_steps or 0) % steps:
        pairs.append(("validation_steps", f"a multiple of {steps}", workload.validation_steps))
    if plan.batch_multiplier > 1:
        pairs.append(("steps_per_epoch", expected.has_explicit_steps, workload.has_explicit_steps))
        if workload.batch_size is not None:
            pairs.append(("samples of a batch", expected.batch_size, workload.batch_size))
        batches = workload.steps_per_epoch
        if batches is not None and not is_nearly_divisible(batches, plan.batch_multiplier):
            pairs.append(
                ("batches of an epoch", f"a multiple of {plan.batch_multiplier}, nearly", batches)
            )
    if (steps > 1 or _counts_otherwise(plan)) and workload.steps_per_epoch is None:
        pairs.append(("length of the data", "known", "unknown"))
    if plan.step_edits:
        pairs.append(("tf.distribute strategy", _yes(expected), _yes(workload)))
    changed = [_told(what, was, now) for what, was, now in pairs if was != now]
    if (plan.step_edits or plan.backend) and expected.model and workload.model:
        changed += _model_differences(expected.model, workload.model)
        changed += _parts_changed(plan, expected.model, workload.model)
    return tuple(changed)


def _parts_changed(plan: Plan, expected: ModelSignature, found: ModelSignature) -> list[str]:
    """Of what the model is made of, where the plan holds for that alone."""
    parts = (
        (_asks_of_code(plan) and expected.code_digest != found.code_digest, _CODE),
        (
            _asks_of_layers(plan) and expected.architecture_digest != found.architecture_digest,
            _MADE_OF,
        ),
    )
    return [told for is_another, told in parts if is_another]


def _counts_otherwise(plan: Plan) -> bool:
    """The step that meets the end of a fit's data would be counted, or not, unlike as written."""
    counting = (
        isinstance(e, JitCompileOff | TfFunction)
        or (isinstance(e, DtypePolicy) and e.policy == _SCALED)
        for e in plan.step_edits
    )
    return plan.before.workload.kind == "fit" and any(counting)


def _asks_of_code(plan: Plan) -> bool:
    """Whether the plan holds only for the code that it was proved with, and that can be told.

    XLA knows not all ops, and leaves checks out; another precision does not fit all numbers; what
    a loss makes of its batch may not be what it makes of parts. Code is compared as Python compiles
    it, and each version of it does so in its own way.
    """
    here = platform.python_version_tuple()[:2]
    alike = tuple(plan.machine.python.split(".")[:2]) == here
    return alike and _is_of_code(plan)


def _asks_of_layers(plan: Plan) -> bool:
    """The same of what the model is made of: each version of Keras has settings of its own."""
    return plan.machine.keras == keras.__version__ and _is_of_code(plan)


def _is_of_code(plan: Plan) -> bool:
    return any(isinstance(e, CodeSpecificEdit) for e in plan.step_edits)


def _hooks(plan: Plan, found: Workload) -> list[tuple[str, object, object]]:
    """Callbacks of every batch, where an edit depends on them."""
    expected = plan.before.workload.batch_callbacks
    if plan.backend:  # what such a callback does to the optimizer itself is lost there
        expected = ()
    elif plan.batch_multiplier == 1 and not any(
        isinstance(edit, StepsPerExecution | FlatUpdates) for edit in plan.step_edits
    ):
        return []
    return [("callbacks on every batch", expected, found.batch_callbacks)]


def _yes(workload: Workload) -> str:
    return "active" if workload.is_distributed else ""


def _model_differences(expected: ModelSignature, found: ModelSignature) -> list[str]:
    unbuilt = found.parameter_count == 0
    names = [
        n for n in _MODEL_WORDS if not (unbuilt and n in ("parameter_count", "variables_digest"))
    ]
    return [
        _told(_MODEL_WORDS[name], getattr(expected, name), getattr(found, name))
        for name in names
        if getattr(expected, name) != getattr(found, name)
    ]


def _told(what: str, was: object, now: object) -> str:
    return f"{what}: the plan was made for {was or 'none'}, here it is {now or 'none'}"
