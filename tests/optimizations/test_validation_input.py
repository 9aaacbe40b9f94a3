from __future__ import annotations

from optimizations.situations import FED, POINT, SITUATIONS, proposal, reason
from records import observed, stage
from uncork.core.base.record import replace
from uncork.core.documents.plan import Policy
from uncork.core.edits.edit import ValidationInput
from uncork.core.edits.pipeline import Cache, ParallelMap
from uncork.core.evidence.callbacks import Validation
from uncork.core.evidence.stage import CachePoint
from uncork.optimizations.validation_input import ValidationInputOptimization

FEEDING = ValidationInputOptimization()
SMALL = CachePoint(element_count=320, memory_bytes=1_000_000, saved_cpu_s_per_step=0.2)
LOAD = stage(1, "map", 0.3, name="load", parallelism=1, cache_point=SMALL)


def validated(*stages, seconds=3.2, times=5, workload=None, feed=True, **changes):
    """A training of 100 steps of 0.1 s; a step of its validation takes 0.32 s, mostly for input."""
    shown = stages or (stage(0, "from_tensor_slices"), LOAD, stage(2, "batch", length=10))
    fed = replace(FED, stages=shown)
    found = Validation(
        validation_s=seconds, sample_count=320, validation_count=times, feed=fed if feed else None
    )
    return observed(
        stage(0, "range"),
        workload={"steps_per_epoch": 100, "epochs": 5, **(workload or {})},
        validation=found,
        **changes,
    )


def test_what_repeats_itself_is_kept():
    found = proposal(FEEDING, validated())
    (edit,) = found.edits
    assert isinstance(edit, ValidationInput)
    assert edit.expected_digest == "4f2a"
    parallel, cache, *_ = edit.edits
    assert parallel == ParallelMap(stage=1, expected_digest="4f2a")
    assert cache == Cache(stage=1, expected_digest="", size_bytes=1_000_000)
    assert 13.2 / 10.3 < found.predicted < 13.2 / 10.1
    assert found.at == "train.py:21"
    assert "validation data" in found.rationale


def test_what_cannot_be_kept_runs_in_parallel():
    found = proposal(
        FEEDING,
        validated(
            stage(0, "from_tensor_slices"),
            replace(LOAD, cache_point=None),
            stage(2, "batch"),
            seconds=9.6,
        ),
    )
    (edit,) = found.edits
    assert edit.edits == (ParallelMap(stage=1, expected_digest="4f2a"),)


def test_a_part_of_the_memory_is_all_that_it_takes():
    large = replace(LOAD, cache_point=POINT)
    tight = Policy(memory_share=0.01)
    stages = (stage(0, "from_tensor_slices"), large, stage(2, "batch"))
    found = proposal(FEEDING, validated(*stages, seconds=9.6), policy=tight)
    assert not any(isinstance(edit, Cache) for edit in found.edits[0].edits)


def test_a_short_validation_is_left_alone():
    assert "below" in reason(FEEDING, validated(seconds=0.3))
    assert "takes 2.9% of an epoch" in reason(FEEDING, validated(seconds=0.3, feed=False))
    assert "no tf.data pipeline" in reason(FEEDING, validated(feed=False))


def test_of_epochs_without_a_length_nothing_is_known():
    found = reason(FEEDING, validated(feed=False, workload={"steps_per_epoch": None}))
    assert "unknown length" in found


def test_one_validation_reads_its_data_once():
    found = reason(FEEDING, validated(replace(LOAD, parallelism=None), times=1))
    assert "one epoch only" in found


def test_of_a_pass_that_goes_on_nothing_is_kept():
    assert "validation_steps" in reason(FEEDING, validated(workload={"validation_steps": 3}))


def test_loops_and_trainings_without_any():
    assert "loop" in reason(FEEDING, validated(workload={"kind": "custom_loop"}))
    assert "no validation" in reason(FEEDING, SITUATIONS["waiting for input"])
