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
    TensorArguments,
    TfFunction,
    VectorizedMapFn,
)
from uncork.report.content.edit_text import EDIT_TEXTS, describe_edit

KINDS = get_args(Edit)


def test_no_edit_is_without_words():
    assert set(EDIT_TEXTS) == {kind.__struct_config__.tag for kind in KINDS}


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (Cache(stage=3, expected_digest=""), "stage 3 in memory"),
        (ParallelMap(stage=1, expected_digest=""), "map at stage 1 in parallel"),
        (Prefetch(expected_digest=""), "prepare batches"),
        (VectorizedMapFn(), "tf.map_fn over all elements"),
        (JitCompile(), "with XLA"),
        (JitCompileOff(), "without XLA"),
        (
            DtypePolicy(policy="mixed_bfloat16", float32_layers=("bn",)),
            "mixed_bfloat16, but not in bn",
        ),
        (
            DtypePolicy(policy="mixed_bfloat16", float32_layers=tuple("abcdefgh")),
            "a, b, c, d, e, f and 2 more",
        ),
        (TfFunction(code_digest=""), "step as a tf.function"),
        (TfFunction(code_digest="", number_arguments=("rate",)), "step as a tf.function"),
        (TensorArguments(code_digest="", argument_names=("rate", "epoch")), "pass rate, epoch to"),
        (
            ArrayArguments(code_digest="", argument_names=("table",)),
            "copy table into a tensor only if",
        ),
        (AsyncCheckpoint(size_bytes=12), "checkpoints asynchronously"),
        (
            ValidationInput(edits=(Prefetch(expected_digest=""),), expected_digest=""),
            "validation data: prepare",
        ),
    ],
)
def test_an_edit_is_a_sentence(edit, said):
    assert said in describe_edit(edit)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_of_edit_has_its_words(kind):
    fields = msgspec.structs.fields(kind)
    said = describe_edit(kind(**{field.name: _of(field.type) for field in fields}))
    assert said, "nothing that it says lacks a value"
    assert "{" not in said


def _of(type_):
    if type_ in (str, int, float, bool):
        return type_("2")
    return (
        (Prefetch(expected_digest=""),) if Prefetch in get_args(get_args(type_)[0]) else ("a", "b")
    )
