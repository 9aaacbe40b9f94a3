from __future__ import annotations

import pytest

from optimizations.situations import AUGMENTING, SITUATIONS, WAITING, proposal, reason
from records import observed
from uncork.core.base.record import replace
from uncork.core.edits.step import PadArguments, PadLengths
from uncork.core.evidence.batches import PaddedShapes, VaryingAxis, VaryingShapes
from uncork.optimizations.compile.pad_lengths import PadLengthsOptimization

FILL = PadLengthsOptimization()
AXES = (VaryingAxis(tensor_index=0, axis=1, max_length=64),)
PADDED = (
    PaddedShapes(multiple=8, shape_count=30, seen_once=0, seen_twice=0, size_ratio=1.05),
    PaddedShapes(multiple=32, shape_count=8, seen_once=0, seen_twice=0, size_ratio=1.2),
    PaddedShapes(multiple=256, shape_count=1, seen_once=0, seen_twice=0, size_ratio=4.0),
)
NEW = VaryingShapes(
    batch_count=200,
    shape_count=120,
    seen_once=80,
    seen_twice=40,
    compile_s_per_shape=1.0,
    axes=AXES,
    padded_shapes=PADDED,
)
# Ten seconds of steps, and 119 or more of compilations.
WORK = {"jit_compile": True, "steps_per_epoch": 1000, "epochs": 10}


def seen(new: VaryingShapes | None = NEW, **workload):
    return observed(
        *AUGMENTING,
        shares=WAITING,
        ceilings={},
        varying_shapes=new,
        step_s=0.001,
        workload=WORK | workload,
    )


def test_it_weighs_what_is_still_compiled_against_larger_batches():
    found = proposal(FILL, seen())
    assert found.edits == (PadLengths(multiple=32, axes=AXES),)
    assert found.predicted == pytest.approx((10 + 196.1) / (12 + 7), rel=0.01)
    assert "compiles 8 shapes instead of 120" in found.rationale
    assert "% 32" in found.source_edit


def test_a_long_training_makes_up_for_any_compilation():
    """And steps on larger batches are what is left: the finest multiple."""
    found = proposal(FILL, seen(steps_per_epoch=20_000))
    assert found.edits[0].multiple == 8
    assert "predicted gain" in reason(FILL, seen(steps_per_epoch=2_000_000))


LOOP = {"kind": "custom_loop", "model": None, "step_code_digest": "4f2a"}


def test_a_validation_is_filled_up_with_it():
    found = proposal(FILL, seen(replace(NEW, has_validation=True)))
    assert found.edits[0].has_validation
    assert found.source_edit.endswith("# also the validation dataset")


def test_of_a_loop_arguments_of_its_step_are_filled_up():
    found = proposal(FILL, seen(replace(NEW, trace_s_per_shape=0.5, call_signature="a"), **LOOP))
    assert found.edits == (
        PadArguments(code_digest="4f2a", call_signature="a", multiple=32, axes=AXES),
    )
    assert "train_step(pad(x), y)" in found.source_edit


@pytest.mark.parametrize(
    ("workload", "why"),
    [
        ({"step_code_digest": ""}, "calls more than one compiled function"),
        ({"is_eager_step": True}, "runs eagerly"),
        ({"replicas": 2}, "tf.distribute"),
    ],
)
def test_a_loop_whose_step_cannot_be_traced_anew_stays_as_it_is(workload, why):
    assert why in reason(FILL, seen(**LOOP | workload))


def test_what_cannot_be_filled_up_is_left_alone():
    bare = VaryingShapes(
        batch_count=200, shape_count=120, seen_once=80, seen_twice=40, compile_s_per_shape=1.0
    )
    assert "other axes than lengths" in reason(FILL, seen(bare))
    assert reason(FILL, seen(None)) == "all batches have one shape"


def test_without_xla_there_is_nothing_to_win():
    assert reason(FILL, seen(jit_compile=False)).startswith("XLA is off")


def test_batches_that_python_makes_are_its_own():
    assert "pydataset" in reason(FILL, seen(data_kind="pydataset"))


def test_a_training_of_unknown_length_promises_nothing():
    assert "assert_cardinality" in reason(FILL, seen(steps_per_epoch=None))


def test_the_same_by_hand_names_axes_and_values():
    axes = (
        VaryingAxis(tensor_index=0, axis=2, max_length=64, padding_value=-1.0),
        VaryingAxis(tensor_index=1, axis=1, max_length=9),
    )
    by_hand = proposal(FILL, seen(replace(NEW, axes=axes))).source_edit
    assert "tf.pad(rows, [[0, 0], [0, 0], [0, missing]], constant_values=-1)" in by_hand
    assert "tf.minimum(n + -n % 32, 64)" in by_hand
    assert by_hand.endswith("# also axis 1 of tensor 1, up to 9")


@pytest.mark.parametrize("situation", ["custom loop", "eager", "distributed"])
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(situation):
    assert reason(FILL, SITUATIONS[situation])
