"""Which candidates are timed by themselves, and what they must gain there."""

from __future__ import annotations

from records import observed
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.edits.step import FlatUpdates, JitCompileOff, PadLengths
from uncork.core.evidence.batches import NewShapes, PaddedShapes
from uncork.engine.tune.secondary_costs import apart
from uncork.training.variant import Version

NEW = NewShapes(batches=10, shapes=8, once=0, twice=8, compile_s=1.0)
WORK = {"steps_per_epoch": 20, "epochs": 5}
ANEW = observed(new_shapes=NEW, step_s=0.1, workload=WORK)
WITHOUT = Version(None).with_edits((JitCompileOff(),))


def test_steps_without_xla_are_timed_on_shapes_that_are_compiled() -> None:
    part = apart(Version(None), WITHOUT, ANEW)
    assert part is not None
    assert not part.is_beside, "what is kept has other steps"
    least = part.at_least(ANEW, 1.05)
    assert 0.6 < least < 0.7
    found = part.of_whole(ANEW, compare([1.0, 1.0], [least, least]))
    assert abs(found.low - 1.05) < 1e-9


def test_what_is_filled_up_leaves_some_shapes_to_compile() -> None:
    padded = (PaddedShapes(multiple=8, shapes=3, once=0, twice=0, larger=1.1),)
    now = observed(new_shapes=replace(NEW, padded=padded), step_s=0.1, workload=WORK)
    filled = Version(None).with_step_edits((PadLengths(multiple=8, axes=()),))
    part, without = (apart(Version(None), version, now) for version in (filled, WITHOUT))
    assert part is not None
    assert without is not None
    assert part.at_least(now, 1.05) > without.at_least(now, 1.05)


def test_where_nothing_is_compiled_anew_they_are_steps_like_others() -> None:
    assert apart(Version(None), WITHOUT, observed(workload=WORK)) is None
    assert apart(WITHOUT, WITHOUT.with_edits((FlatUpdates(),)), ANEW) is None
