from __future__ import annotations

import itertools

import msgspec
import pytest

from uncork.core.edits.edit import GUARANTEES, AsyncCheckpoint, Edit, find_loosest_guarantee
from uncork.core.edits.pipeline import (
    Cache,
    GatherLast,
    ParallelMap,
    PipelineEdit,
    Prefetch,
    SplitMap,
)
from uncork.core.edits.step import (
    ArrayArguments,
    DtypePolicy,
    FlatUpdates,
    FusedUpdates,
    JitCompile,
    JitCompileOff,
    LayersInInput,
    MapOnDevice,
    MicroBatches,
    PadLengths,
    RecomputeActivations,
    ReduceRetracing,
    ReuseIterator,
    RowUpdates,
    StepEdit,
    StepsPerExecution,
    TensorArguments,
    VectorizedMapFn,
)
from uncork.core.evidence.batches import VaryingAxis

EDITS = (
    SplitMap(stage=1, expected_digest="a"),
    Cache(stage=1, expected_digest="a"),
    ParallelMap(stage=1, expected_digest="a"),
    Prefetch(expected_digest="a"),
    ReduceRetracing(code_digest="a"),
    TensorArguments(code_digest="a", argument_names=("rate",)),
    ArrayArguments(code_digest="a", argument_names=("table",)),
    StepsPerExecution(steps=4),
    LayersInInput(layer_names=("scale", "turn"), is_random=True),
    MapOnDevice(expected_digest="4f2a", placement="/device:GPU:0"),
    GatherLast(expected_digest="4f2a"),
    FlatUpdates(),
    FusedUpdates(),
    RowUpdates(),
    MicroBatches(parts=4),
    PadLengths(
        multiple=32, axes=(VaryingAxis(tensor_index=0, axis=1, max_length=64, padding_value=-1.0),)
    ),
    RecomputeActivations(segments=4),
    ReuseIterator(),
    VectorizedMapFn(code_digest="a"),
    JitCompile(),
    JitCompileOff(code_digest="a"),
    DtypePolicy(policy="mixed_bfloat16", float32_layers=("head",)),
)


@pytest.mark.parametrize("edit", EDITS, ids=lambda e: type(e).__name__)
def test_edits_are_told_apart_in_json(edit):
    assert msgspec.json.decode(msgspec.json.encode(edit), type=Edit) == edit


def test_how_checkpoints_are_written_is_neither():
    edit = AsyncCheckpoint(size_bytes=12)
    assert msgspec.json.decode(msgspec.json.encode(edit), type=Edit) == edit
    assert not isinstance(edit, PipelineEdit | StepEdit)


@pytest.mark.parametrize("edit", EDITS, ids=lambda e: type(e).__name__)
def test_every_edit_is_of_the_pipeline_or_of_the_step(edit):
    assert isinstance(edit, PipelineEdit) != isinstance(edit, StepEdit)


@pytest.mark.parametrize(
    "text",
    [
        b'{"type": "drop_layer"}',
        b'{"type": "cache", "stage": 1}',
        b'{"type": "dtype_policy", "policy": "mixed_int4"}',
        b'{"type": "steps_per_execution", "steps": "many"}',
        b'{"type": "prefetch", "expects": "a", "code": "import os"}',
    ],
)
def test_unknown_edits_and_fields_are_refused(text):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Edit)


@pytest.mark.parametrize(("a", "b"), [*itertools.product(GUARANTEES, repeat=2)])
def test_a_plan_promises_its_weakest_step(a, b):
    assert GUARANTEES.index(find_loosest_guarantee(a, b)) == max(map(GUARANTEES.index, (a, b)))


def test_no_step_no_change():
    assert find_loosest_guarantee() == "exact"
