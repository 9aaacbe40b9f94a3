from __future__ import annotations

import pytest

from optimizations.situations import FOUR_CORES, SAVED, ask, proposal, reason
from records import measurement, observed
from uncork.core.base.record import replace
from uncork.core.costmodel.checkpoint_time import checkpoint_share, checkpoint_trial_parts
from uncork.core.documents.plan import Policy
from uncork.core.edits.edit import AsyncCheckpoint
from uncork.core.evidence.callbacks import CheckpointCost
from uncork.optimizations.host.async_checkpoint import AsyncCheckpointOptimization

BESIDE = AsyncCheckpointOptimization()


def saving(**changes):
    """Epochs of 10 s, each with a save of 4 s, of which copying takes 0.5 s."""
    cpu_s = changes.pop("cpu_s_per_step", 0.1)
    workload = changes.pop("workload", None)
    steps = replace(measurement(320.0), cpu_s_per_step=cpu_s)
    return observed(checkpoint_cost=replace(SAVED, **changes), measurement=steps, workload=workload)


def test_a_long_save_is_written_beside():
    found = proposal(BESIDE, saving())
    assert found.edits == (AsyncCheckpoint(size_bytes=1_500_000_000),)
    assert found.predicted == pytest.approx(14.0 / 10.5)
    assert found.at == "train.py:30"
    assert found.rationale.startswith("saving takes 29% of the time")


def test_what_is_saved_only_where_it_is_better_takes_at_most_that():
    assert "up to 29%" in proposal(BESIDE, saving(is_save_best_only=True)).rationale


def test_cores_that_are_busy_have_no_time_to_write():
    """What they do, they do instead of steps."""
    idle = proposal(BESIDE, saving()).predicted
    assert proposal(BESIDE, saving(cpu_s_per_step=0.4)).predicted < idle
    assert "predicted" in reason(BESIDE, saving(cpu_s_per_step=0.5))
    assert "predicted" in reason(BESIDE, saving(save_cpu_s=45.0)), (
        "ten seconds of four cores are 40 s"
    )


@pytest.mark.parametrize("changes", [{"save_s": 0.6}, {"every_steps": 2000}, {"copy_s": 3.8}])
def test_a_trifle_is_left(changes):
    assert "predicted" in reason(BESIDE, saving(**changes))


def test_copies_need_room():
    assert "1.5 GB" in ask(BESIDE, saving(), FOUR_CORES, Policy(memory_share=0.1)).reason


@pytest.mark.parametrize(
    ("diagnosis", "why"),
    [
        (observed(), "no ModelCheckpoint"),
        (observed(workload={"kind": "custom_loop", "model": None}), "your training loop"),
        (saving(refusal_reason="several callbacks save"), "several callbacks"),
    ],
)
def test_it_is_left(diagnosis, why):
    assert why in reason(BESIDE, diagnosis)


def test_a_trial_is_a_part_of_what_lies_between_two_saves():
    assert checkpoint_trial_parts(saving()) == (pytest.approx(4.0), pytest.approx(10.0))
    assert checkpoint_trial_parts(saving(every_steps=10, trial_steps=10)) == (
        0.0,
        pytest.approx(5.0),
    )
    assert checkpoint_share(saving()) == pytest.approx(4 / 14)
    assert checkpoint_share(observed()) == 0.0
    assert isinstance(SAVED, CheckpointCost)
    assert ask(BESIDE, saving()) == ask(BESIDE, saving())
