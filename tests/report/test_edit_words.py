from __future__ import annotations

from typing import get_args

import pytest

from uncork.core.edit import (
    Cache,
    DtypePolicy,
    Edit,
    JitCompile,
    MapsAtOnce,
    ParallelMap,
    Prefetch,
    ValidationInput,
)
from uncork.report.edit_words import SAID, describe_edit


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
        (JitCompile(), "XLA"),
        (DtypePolicy(policy="mixed_bfloat16", keep=("bn",)), "mixed_bfloat16, but not in bn"),
        (ValidationInput(edits=(Prefetch(expects=""),), expects=""), "validation data: prepare"),
    ],
)
def test_every_edit_is_a_sentence(edit, said):
    assert said in describe_edit(edit)
