"""Steps that noise hides one by one, tried as one: a real pipeline, and speeds from a script."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
import tensorflow as tf

from engine.tune.test_tuner import CLEAR, DIAGNOSIS, USELESS, FakeRunner, FakeSubject
from optimizations.situations import FOUR_CORES
from uncork.core.base.journal import Journal
from uncork.core.base.record import replace
from uncork.core.documents.plan import PlanStep, Policy, Ratio
from uncork.core.edits.pipeline import ParallelMap, Prefetch
from uncork.engine.diagnose import observe
from uncork.engine.tune.combined_trial import is_inconclusive
from uncork.engine.tune.tuner import Tuner
from uncork.optimizations.base.proposal import Context, Optimization, Proposal
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit
from uncork.training.variant import Variant, VariantRunner
from uncork.verify.provers.pipeline import PipelineProver

LITTLE = [90.0, 125.0]  # 1.06 times as fast, if anything


class FakePipelineSubject(FakeSubject):
    """What reads a pipeline with so many edits runs at the speeds that were written for it."""

    def __init__(self, speeds: dict[int, list[float]]) -> None:
        super().__init__({})
        data = tf.data.Dataset.range(256).map(lambda x: x + 1).batch(8)
        self.original = Variant(read_pipeline(data))
        self.workload = replace(self.workload, data_kind="tf.data")
        self.speeds = {0: [100.0], **speeds}

    def runner(self, version: Variant) -> VariantRunner:
        return FakeRunner(cycle(self.speeds[len(version.pipeline_edits)]))

    def batches_dataset(self, version: Variant) -> Any:
        return version.pipeline.dataset


class Ahead(Optimization):
    name, stage, guarantee = "prefetch", "input", "exact"

    def _propose(self, context: Context) -> Proposal:
        edits = (Prefetch(expected_digest=""),)
        return Proposal(edits=edits, predicted=1.1, at="train.py:9", rationale="it overlaps")


class InParallel(Optimization):
    name, stage, guarantee = "parallelize_prefix", "input", "exact"

    def _propose(self, context: Context) -> Proposal:
        edits = (ParallelMap(stage=1, expected_digest=""),)
        return Proposal(edits=edits, predicted=1.2, at="train.py:7", rationale="on all cores")


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Tuner]:
    """Between its trials it is looked at only as long as it takes to find anything."""
    for name in ("_CAREFUL", "_BRIEF"):
        monkeypatch.setattr(observe, name, getattr(observe, name).scaled(0.1))

    def run(speeds: dict[int, list[float]], road: tuple[Optimization, ...] = ROAD) -> Tuner:
        walk = Tuner(
            FakePipelineSubject(speeds),
            DIAGNOSIS,
            FOUR_CORES,
            Policy(budget_s=1e9),
            Journal(),
            optimizations=road,
            after_step=lambda: saved.append([step.name for step in walk.steps]),
        )
        saved: list[list[str]] = []
        walk.run()
        # Never saved without a part of what is in force.
        assert all(len(names) == len(road) for names in saved[len(road) - 1 :])
        return walk

    return run


ROAD = (InParallel(), Ahead())


def test_what_each_alone_could_not_show_they_show_together(walked) -> None:
    walk = walked({1: LITTLE, 2: CLEAR})
    assert [(step.name, step.outcome) for step in walk.steps] == [
        ("parallelize_prefix", "kept"),
        ("prefetch", "kept"),
    ]
    first, last = walk.steps
    assert (first.measured, first.predicted, first.samples_per_s) == (None, None, None)
    assert last.samples_per_s
    assert last.measured.ratio == pytest.approx(1.5, abs=0.02)
    assert last.predicted == pytest.approx(1.2 * 1.1)
    assert "in combination with prefetch" in first.reason
    assert (first.at, last.at) == ("train.py:7", "train.py:9")
    assert first.proof == last.proof
    assert first.proof.passed
    assert walk.variant.pipeline_edits == (*first.edits, *last.edits)
    assert walk.diagnosis.workload.pipeline_digest == walk.variant.pipeline.digest


@pytest.mark.deep
def test_what_was_kept_together_can_be_applied_one_by_one(walked) -> None:
    """As a plan is: each edit expects the pipeline that those before it left."""
    walk = walked({1: LITTLE, 2: CLEAR})
    pipeline = walk.subject.original.pipeline
    for step in walk.steps:
        for edit in step.edits:
            assert edit.expected_digest == pipeline.digest
            pipeline = apply_edit(pipeline, edit)
    assert pipeline.digest == walk.variant.pipeline.digest


@pytest.mark.deep
def test_what_gains_nothing_together_either_is_told_so(walked) -> None:
    walk = walked({1: LITTLE, 2: USELESS})
    assert [step.outcome for step in walk.steps] == ["rejected", "rejected"]
    assert all("; combined with" in step.reason for step in walk.steps)
    assert walk.variant is walk.subject.original


def test_what_breaks_is_no_end_of_the_tuning(walked, monkeypatch) -> None:
    walk_look = Tuner._look

    def breaks(*_: object) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "no memory for {'image': 3}")

    monkeypatch.setattr(Tuner, "_look", breaks)
    walk = walked({1: LITTLE, 2: CLEAR})
    assert [step.outcome for step in walk.steps] == ["rejected", "rejected"]
    monkeypatch.setattr(Tuner, "_look", walk_look)
    monkeypatch.setattr(PipelineProver, "prove", breaks)
    walk = walked({1: LITTLE, 2: CLEAR})
    assert all('{"image": 3}' in step.reason for step in walk.steps)  # quoted


def test_one_alone_is_not_tried_as_several(walked) -> None:
    walk = walked({1: LITTLE, 2: CLEAR}, ROAD[:1])
    assert [step.outcome for step in walk.steps] == ["rejected"]
    assert "combin" not in walk.steps[0].reason


def test_an_edit_that_no_longer_applies_ends_it(walked) -> None:
    class Elsewhere(InParallel):
        def _propose(self, context: Context) -> Proposal:
            edits = (ParallelMap(stage=2, expected_digest=""),)  # a batch
            return Proposal(edits=edits, predicted=1.2, at=None, rationale="of another pipeline")

    walk = walked({1: LITTLE, 2: CLEAR}, (Elsewhere(), Ahead()))
    assert [step.outcome for step in walk.steps] == ["rejected", "rejected"]


@pytest.mark.parametrize(
    ("low", "high", "predicted", "is_open"),
    [
        (0.9, 1.2, 1.1, True),
        (0.9, None, 1.1, True),
        (0.9, 1.2, 1.01, False),  # nothing was promised
        (0.9, 1.2, None, False),
        (0.98, 1.02, 1.1, False),  # whatever was promised, it is not there
        (0.5, 0.8, 1.1, False),
    ],
)
def test_what_the_noise_leaves_open(low, high, predicted, is_open) -> None:
    step = PlanStep(
        name="prefetch",
        stage="input",
        outcome="rejected",
        reason="",
        predicted=predicted,
        measured=Ratio(ratio=(low + (high or low)) / 2, low=low, high=high),
    )
    assert is_inconclusive(step) == is_open
    assert not is_inconclusive(replace(step, outcome="kept"))
    assert not is_inconclusive(replace(step, measured=None))
