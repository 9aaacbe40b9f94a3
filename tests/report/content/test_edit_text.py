from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from uncork.core.edits.edit import AsyncCheckpoint, Edit, ValidationInput
from uncork.core.edits.pipeline import Cache, ParallelMap, Prefetch
from uncork.core.edits.step import (
    ArrayArguments,
    DtypePolicy,
    JitCompile,
    JitCompileOff,
    MapsAtOnce,
    TensorArguments,
    TfFunction,
)
from uncork.report.content.edit_text import SAID, describe_edit


def test_no_edit_is_without_words():
    assert set(SAID) == _kinds(Edit)


def _kinds(union):
    parts = get_args(union)
    return set().union(*map(_kinds, parts)) if parts else {union}


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (Cache(stage=3, expects=""), "stage 3 in memory"),
        (ParallelMap(stage=1, expects=""), "stage 1 on several elements"),
        (Prefetch(expects=""), "prepare batches"),
        (MapsAtOnce(), "tf.map_fn over all elements"),
        (JitCompile(), "with XLA"),
        (JitCompileOff(), "without XLA"),
        (DtypePolicy(policy="mixed_bfloat16", keep=("bn",)), "mixed_bfloat16, but not in bn"),
        (
            DtypePolicy(policy="mixed_bfloat16", keep=tuple("abcdefgh")),
            "a, b, c, d, e, f and 2 more",
        ),
        (TfFunction(code=""), "step as a tf.function"),
        (TfFunction(code="", numbers=("rate",)), "step as a tf.function"),
        (TensorArguments(code="", names=("rate", "epoch")), "hand rate, epoch to"),
        (ArrayArguments(code="", names=("table",)), "copy table into a tensor only where"),
        (AsyncCheckpoint(bytes=12), "checkpoints in a thread"),
        (ValidationInput(edits=(Prefetch(expects=""),), expects=""), "validation data: prepare"),
    ],
)
def test_an_edit_is_a_sentence(edit, said):
    assert said in describe_edit(edit)


@pytest.mark.parametrize("kind", SAID, ids=lambda kind: kind.__name__)
def test_each_kind_of_edit_has_its_words(kind):
    fields = msgspec.structs.fields(kind)
    said = describe_edit(kind(**{field.name: _of(field.type) for field in fields}))
    assert said, "nothing that it says lacks a value"
    assert "{" not in said


def _of(type_):
    if type_ in (str, int, float, bool):
        return type_("2")
    return (Prefetch(expects=""),) if Prefetch in get_args(get_args(type_)[0]) else ("a", "b")
