"""Which candidates are timed by themselves, and what they must gain there."""

from __future__ import annotations

from records import observed
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.edits.step import FlatUpdates, JitCompileOff, PadLengths
from uncork.core.evidence.batches import PaddedShapes, VaryingShapes
from uncork.engine.tune.secondary_costs import secondary_cost_of
from uncork.training.variant import Variant

NEW = VaryingShapes(
    batch_count=10, shape_count=8, seen_once=0, seen_twice=8, compile_s_per_shape=1.0
)
WORK = {"steps_per_epoch": 20, "epochs": 5}
ANEW = observed(varying_shapes=NEW, step_s=0.1, workload=WORK)
WITHOUT = Variant(None).with_edits((JitCompileOff(),))


def test_steps_without_xla_are_timed_on_shapes_that_are_compiled() -> None:
    part = secondary_cost_of(Variant(None), WITHOUT, ANEW)
    assert part is not None
    assert not part.leaves_steps_unchanged, "what is kept has other steps"
    least = part.min_ratio(ANEW, 1.05)
    assert 0.6 < least < 0.7
    found = part.scale_to_whole(ANEW, compare([1.0, 1.0], [least, least]))
    assert abs(found.low - 1.05) < 1e-9


def test_what_is_filled_up_leaves_some_shapes_to_compile() -> None:
    padded = (PaddedShapes(multiple=8, shape_count=3, seen_once=0, seen_twice=0, size_ratio=1.1),)
    now = observed(varying_shapes=replace(NEW, padded_shapes=padded), step_s=0.1, workload=WORK)
    filled = Variant(None).with_step_edits((PadLengths(multiple=8, axes=()),))
    part, without = (
        secondary_cost_of(Variant(None), version, now) for version in (filled, WITHOUT)
    )
    assert part is not None
    assert without is not None
    assert part.min_ratio(now, 1.05) > without.min_ratio(now, 1.05)


def test_where_nothing_is_compiled_anew_they_are_steps_like_others() -> None:
    assert secondary_cost_of(Variant(None), WITHOUT, observed(workload=WORK)) is None
    assert secondary_cost_of(WITHOUT, WITHOUT.with_edits((FlatUpdates(),)), ANEW) is None
