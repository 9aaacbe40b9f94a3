"""``set_global_policy`` before the model is built: where that is what the plan does, and no more.

A plan has layers compute in 16 bits while ``fit`` runs. A global policy is there for good: for what
the script predicts, evaluates and saves, for every other layer that it makes, and not for layers
that are given a dtype of their own. So it is written only into a script that has one model of
Keras's own layers, and fits it, and asks nothing else of it. There a model built under the policy
is bit for bit the one that the plan switches, its last layer included: neither leaves a softmax in
float32 by itself.
"""

from __future__ import annotations

import re
from typing import Final

import libcst as cst

from uncork.codemod.plan.training_call import check_one_fit
from uncork.codemod.syntax.changes import Changes, Insertion
from uncork.codemod.syntax.script_tree import ScriptTree, find_argument, method_name, receiver
from uncork.core.base.errors import EditRefused, shorten_list
from uncork.core.documents.plan import Plan
from uncork.core.edits.step import DtypePolicy

# Of a model: what no policy shows in, or what is compiled and trained under it in a plan, too.
_UNMOVED: Final = frozenset({
    "add", "build", "compile", "count_params", "fit", "get_weights", "load_weights", "save_weights",
    "set_weights", "summary",
})  # fmt: skip
_OWN_DTYPES: Final = re.compile(
    r"\bdtype\s*=|\bdtype_policy|set_dtype_policy|set_global_policy|set_floatx|mixed_precision|"
    r"auto_scale_loss"
)
_MODELS: Final = ("Sequential", "Model")
# Arguments of fit that stand before its callbacks.
_BEFORE_CALLBACKS: Final = 5
# Callbacks of Keras's that neither save a model nor ask it anything.
_HARMLESS: Final = frozenset({
    "CSVLogger", "EarlyStopping", "LearningRateScheduler", "ProgbarLogger", "ReduceLROnPlateau",
    "TerminateOnNaN",
})  # fmt: skip


def write_mixed_precision(source: ScriptTree, plan: Plan, edit: DtypePolicy) -> Changes:
    """One line behind the imports.

    Raises:
        EditRefused: It would do more than the plan does, or less.
    """
    if edit.code_digest:
        raise EditRefused(
            "the plan sets the policy only while the step of the loop is traced; in a script "
            "it would stay set"
        )
    if edit.policy == "float32":
        raise EditRefused("the script sets a policy itself, which would have to be removed")
    if edit.float32_layers:
        raise EditRefused(
            f"some layers stay in float32 ({shorten_list(edit.float32_layers)}): give them "
            'dtype="float32" by hand'
        )
    keras = source.module_alias("keras")
    _check_alone(source, plan)
    _check_layers(source, keras)
    line = f'{keras}.mixed_precision.set_global_policy("{edit.policy}")'
    return [Insertion(_last_import(source, keras), (line,), is_after=True, has_empty_line=True)]


def _check_alone(source: ScriptTree, plan: Plan) -> None:
    """Refuse where the model is used for more than its one training."""
    found = _OWN_DTYPES.search(source.module.code)
    if found:
        raise EditRefused(f"the script sets dtypes itself ('{found.group().strip()}')")
    fit = check_one_fit(source, plan)
    model, trains_in = receiver(fit), source.enclosing_function(fit)
    if not isinstance(model, cst.Name):
        raise EditRefused(f"the script trains '{source.code(model)}', which is not a name")
    if not source.runs_once(fit):
        raise EditRefused(f"the fit on line {source.line(fit)} may train several models")
    _check_callbacks(source, fit)
    for use in source.uses(model.value):
        parent = source.parent(use)
        called = parent.attr.value if isinstance(parent, cst.Attribute) else ""
        # What makes it may hand it on to where it is trained, but not what trains it.
        made = isinstance(parent, cst.Return) and source.enclosing_function(use) is not trains_in
        if called not in _UNMOVED and not made:
            raise EditRefused(
                f"line {source.line(use)} uses the model in another way, which would compute in 16 "
                "bits, too: under the plan, only fit does"
            )


def _check_callbacks(source: ScriptTree, fit: cst.Call) -> None:
    """Refuse those that may save the model, or ask it something, while it trains."""
    places = [arg for arg in fit.args if arg.keyword is None]
    if any(arg.star for arg in fit.args) or len(places) > _BEFORE_CALLBACKS:
        raise EditRefused(f"the callbacks of the fit on line {source.line(fit)} are unclear")
    given = find_argument(fit, "callbacks")
    if given is None:
        return
    value = given.value
    listed = value.elements if isinstance(value, cst.List | cst.Tuple) else None
    for each in (value,) if listed is None else (element.value for element in listed):
        name = _name(source, each) if isinstance(each, cst.Call) else ""
        weights = isinstance(each, cst.Call) and find_argument(each, "save_weights_only")
        if name == "ModelCheckpoint" and weights and source.code(weights.value) == "True":
            continue
        if name not in _HARMLESS:
            raise EditRefused(
                f"it is unclear what '{source.code(each)}' does with the model during training"
            )


def _name(source: ScriptTree, call: cst.Call) -> str:
    """Of what is called, without where it is from."""
    return source.code(call.func).rpartition(".")[2]


def _check_one_model(source: ScriptTree) -> None:
    """Refuse where other models are built, whose layers would be in 16 bits as well."""
    made = [c for c in source.nodes_of_type(cst.Call) if _is_model(source, c)]
    outermost = [c for c in made if not any(each in made for each in source.ancestors(c))]
    if len(outermost) > 1:
        lines = ", ".join(str(source.line(each)) for each in outermost)
        raise EditRefused(
            f"the script creates models on lines {lines}, and the plan is for one of them"
        )


def _is_model(source: ScriptTree, call: cst.Call) -> bool:
    return _name(source, call) in _MODELS or ".applications." in source.code(call.func)


def _check_layers(source: ScriptTree, keras: str) -> None:
    """Refuse where layers are made that need not be the model's."""
    _check_one_model(source)
    made = [c for c in source.nodes_of_type(cst.Call) if _is_layer(source, c, keras)]
    if not made:
        raise EditRefused("the script creates no keras.layers itself")
    for layer in made:
        if not _is_part(source, layer, keras):
            raise EditRefused(
                f"line {source.line(layer)} creates a layer that may not belong to the model"
            )


def _is_layer(source: ScriptTree, call: cst.Call, keras: str) -> bool:
    if isinstance(call.func, cst.Name):
        own = source.imported_from("keras.layers", "tensorflow.keras.layers")
        return _is_class(own.get(call.func.value, ""))
    name = method_name(call)
    owner = source.code(receiver(call)) if name else ""
    return owner in (f"{keras}.layers", "layers") and _is_class(name)


def _is_class(name: str) -> bool:
    """Of a layer; ``Input`` is a function."""
    return name[:1].isupper() and name != "Input"


def _is_part(source: ScriptTree, layer: cst.Call, keras: str) -> bool:
    """It is called at once where a model is made, added to one, or listed in one."""
    parent = source.parent(layer)
    if isinstance(parent, cst.Call) and parent.func is layer:
        return _makes_a_model(source, layer)
    calls = [c for c in source.ancestors(layer) if isinstance(c, cst.Call)][:1]
    return any(
        method_name(call) == "add" or source.code(call.func).rpartition(".")[2] in _MODELS
        for call in calls
    )


def _makes_a_model(source: ScriptTree, layer: cst.Call) -> bool:
    """Of the lambda or function that it stands in, or of the script itself."""
    inside = (n for n in source.ancestors(layer) if isinstance(n, cst.Lambda | cst.FunctionDef))
    place = next(inside, None)
    return place is None or any(
        _is_model(source, call) and place in source.ancestors(call)
        for call in source.nodes_of_type(cst.Call)
    )


def _last_import(source: ScriptTree, keras: str) -> cst.SimpleStatementLine:
    """The end of the imports among which Keras's is."""
    root = keras.partition(".")[0]
    body = list(source.module.body)
    lines = source.imports()
    place = body.index(source.find_import(root))
    while place + 1 < len(body) and body[place + 1] in lines:
        place += 1
    found = body[place]
    assert isinstance(found, cst.SimpleStatementLine)
    return found
