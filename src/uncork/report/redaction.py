"""A record to show to others: all figures, and nothing that names files, functions or data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import Diagnosis
from uncork.core.documents.plan import Plan
from uncork.core.documents.workload import ModelSignature, Workload
from uncork.core.evidence.callbacks import CallbackCost
from uncork.core.evidence.kernels import KernelGroup
from uncork.core.evidence.loop import StateGrowth
from uncork.core.evidence.model import FullResolutionLayer, SlowLayer
from uncork.core.evidence.stage import Stage
from uncork.core.evidence.storage import CacheFolder

R = TypeVar("R", bound=Diagnosis | Plan)

# Fields that hold sentences; others hold places, figures and words of our own.
_SENTENCES = frozenset(
    {"detail", "error_message", "evidence", "notes", "reason", "refusal_reason", "remedy", "script"}
)
# And paths of the user's, or names of jobs, and what the script was called with.
_FOLDERS = frozenset(
    {"arguments", "disk_cache_folder", "folder", "module", "path", "placement", "working_folder"}
)
# And names of arguments and layers, several of them.
_NAMES = frozenset(
    {
        "argument_names",
        "float32_layers",
        "layer_names",
        "number_arguments",
        "precision_sensitive_layers",
        "preprocessing_layers",
        "random_layers",
    }
)
_HIDDEN = "hidden"
_PATHS = re.compile(
    r"(?:\b[A-Za-z]:)?[\w.~-]*[/\\](?!(?:s|step)(?![\w/\\.-]))[^\s:'\",;)]+"  # but not samples/s
    r"|(?<![\w.])(?!(?:tf|keras|np)\.)[\w.-]*[\w-]\.[A-Za-z]\w{1,9}(?=[:'\"\s,;)]|$)"
)
# An apostrophe within a word opens nothing, and what to type is Uncork's own.
_QUOTED = re.compile(r"(?:(?<!\w)|(?<=\b[bfru]))'(?!uncork )[^']*'|\"[^\"]*\"")


def redact(record: R) -> R:
    """The same record without paths, names of files, functions, classes and features, or code.

    Places become ``file1:58``: what lies in one file can still be told. A plan loses its seal with
    it, so that a concealed one cannot be run.

    Args:
        record: A diagnosis or a plan; it stays as it is.

    Example:
        >>> from uncork.report.redaction import Redactor
        >>> hidden = Redactor(files=["src/secret.py"], functions=["load_scans"])
        >>> hidden.redact_text("map(load_scans) at src/secret.py:12 reads '/data/patients'")
        'map(function1) at file1:12 reads hidden'
    """
    files = [record.script, *(at.rpartition(":")[0] for at in _places(record))]
    files += [disk.path for disk in _all(record, CacheFolder)]
    named = (*_all(record, Stage), *_all(record, CallbackCost), *_all(record, StateGrowth))
    kinds = (KernelGroup, SlowLayer, FullResolutionLayer)
    layers = [layer for kind in kinds for layer in _all(record, kind)]
    functions = [each.name for each in named if each.name]
    functions += [each.layer for each in layers if each.layer]
    functions += [name for workload in _all(record, Workload) for name in workload.batch_callbacks]
    functions += [name for name in _names(record) if name]
    concealed: R = Redactor(files, functions).redact_value(record)
    return replace(concealed, digest="") if isinstance(concealed, Plan) else concealed


class Redactor:
    """Replaces what is known to be the user's by numbered stand-ins, in order of appearance.

    Args:
        files: Paths as they appear in records.
        functions: Names of map functions and the like.
    """

    def __init__(self, files: list[str], functions: list[str]) -> None:
        known = {path: f"file{n}" for n, path in enumerate(dict.fromkeys(filter(None, files)), 1)}
        # The longest first: one path may be the end of another.
        self._files = sorted(known.items(), key=lambda item: -len(item[0]))
        self._functions = {
            name: f"function{n}" for n, name in enumerate(dict.fromkeys(functions), 1)
        }

    def redact_text(self, text: str) -> str:
        """A sentence or a place without its names."""
        for path, stand_in in self._files:
            text = text.replace(path, stand_in)
        for name, stand_in in self._functions.items():
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", stand_in, text)
        return _PATHS.sub(_HIDDEN, _QUOTED.sub(_HIDDEN, text))

    def redact_value(self, value: Any, field: str = "") -> Any:
        """A record, or whatever stands in one of its fields."""
        if isinstance(value, str):
            if field in _FOLDERS:
                return value and _HIDDEN
            if field in _NAMES:
                return self._functions.get(value, _HIDDEN)
            return (
                ""
                if field == "source_edit"
                else self.redact_text(value)
                if _tells(field)
                else value
            )
        if isinstance(value, tuple):
            return tuple(self.redact_value(each, field) for each in value)
        if not isinstance(value, msgspec.Struct):
            return value
        names = value.__struct_fields__
        made = {name: self.redact_value(getattr(value, name), name) for name in names}
        if isinstance(value, (Stage, CallbackCost, StateGrowth)):
            made["name"] = self._functions.get(value.name, "")
        elif isinstance(value, (KernelGroup, SlowLayer, FullResolutionLayer)):
            made["layer"] = self._functions.get(value.layer, "")
        elif isinstance(value, ModelSignature):
            made.update(name="Model", optimizer=_HIDDEN, loss=_HIDDEN)
        elif isinstance(value, Workload):
            hooks, why = value.batch_callbacks, value.tf_function_refusal and _HIDDEN
            made.update(
                element_spec=_HIDDEN,
                batch_callbacks=(_HIDDEN,) * len(hooks),
                tf_function_refusal=why,
            )
        return type(value)(**made)


def _all(value: Any, kind: type) -> Iterator[Any]:
    """Every record of one kind inside another."""
    if isinstance(value, kind):
        yield value
    if isinstance(value, tuple):
        for each in value:
            yield from _all(each, kind)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _all(getattr(value, name), kind)


def _names(record: Any) -> Iterator[str]:
    for each in _all(record, msgspec.Struct):
        for field in _NAMES.intersection(each.__struct_fields__):
            found = getattr(each, field)
            yield from (name for name in found if isinstance(name, str))


def _tells(field: str) -> bool:
    return field in _SENTENCES or _is_place(field)


def _is_place(field: str) -> bool:
    return field == "at" or field.endswith("_at")


def _places(record: Any) -> Iterator[str]:
    """Every ``file.py:line`` in a record."""
    for each in _all(record, msgspec.Struct):
        found = (getattr(each, field) for field in each.__struct_fields__ if _is_place(field))
        yield from (place for place in found if isinstance(place, str))
