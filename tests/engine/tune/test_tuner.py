"""The walk's own decisions, on a fake subject: its runners answer with figures from a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from optimizations.situations import COMPUTING, FOUR_CORES
from records import observed
from uncork.core.base.journal import Event, Journal
from uncork.core.base.measurement import compare
from uncork.core.base.record import from_json, replace
from uncork.core.documents.job import JobResult, TuneJob
from uncork.core.documents.plan import Policy, Proof
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.step import StepsPerExecution
from uncork.core.evidence.batches import BatchSizeTrial
from uncork.engine.commands.tune import create_plan
from uncork.engine.subject import time_budget as seconds
from uncork.engine.subject.subject import Subject
from uncork.engine.tune.tuner import Tuner
from uncork.engine.worker.tune_job import TuneListener
from uncork.measure.benchmark.interleave import Block, interleave
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Context,
    Optimization,
    Proposal,
    Skipped,
)
from uncork.training.variant import Variant, VariantRunner

FAR = 1e9  # seconds of budget


class FakeRunner(VariantRunner):
    """Blocks with these speeds, one after the other, in no time."""

    def __init__(self, speeds: Iterator[float]) -> None:
        self.speeds = speeds

    def prime(self) -> float:
        return 0.0

    def first_epoch(self, limit_s: float) -> float | None:
        return None

    def block(self, seconds: float) -> Block:
        speed = next(self.speeds)
        return Block(steps=10, samples=10 * speed, wall_s=10.0, cpu_s=10.0, warmup_s=0.0)


class FakeSubject(Subject):
    """The n-th trial of an edit of ``n`` steps runs at the speeds that were written for it."""

    def __init__(self, trials: dict[int, list[list[float]]]) -> None:
        self.workload = DIAGNOSIS.workload
        self.original = Variant(None)
        self.notes: list[str] = []
        self.trials = trials

    def runner(self, version: Variant) -> VariantRunner:
        if not version.step_edits:
            return FakeRunner(cycle([100.0]))
        left = self.trials[version.step_edits[-1].steps]
        speeds = left.pop(0) if len(left) > 1 else left[0]
        before = 1.5 ** (len(version.step_edits) - 1)  # each step kept so far was CLEAR
        return FakeRunner(cycle([before * speed for speed in speeds]))

    def resident_runner(self, version: Variant) -> VariantRunner:
        return FakeRunner(cycle([200.0]))

    def batches_dataset(self, version: Variant) -> Any:
        raise NotImplementedError

    def prove_step(self, version: Variant, kind: Guarantee, budget_s: float) -> Proof:
        return Proof(kind=kind, passed=True, detail="set by the test")

    def prove_training(self, version: Variant, budget_s: float) -> Proof:
        return Proof(kind="training", passed=True, detail="set by the test")

    def restore(self) -> None:
        """Nothing to give back."""


DIAGNOSIS = observed(
    shares=COMPUTING,
    workload={"kind": "custom_loop", "data_kind": "numpy", "pipeline_digest": ""},
    ceilings={"consumer": 100.0, "supply": 100.0},
)
UNCLEAR = [80.0, 150.0]  # 1.1 times as fast, but by no means surely so
CLEAR = [150.0, 151.0]
USELESS = [100.0, 101.0, 99.0]


def optimization(
    steps: int, promised: float | None = 1.5, first: str = "", promise: Guarantee = "exact"
) -> Optimization:
    class Grouping(Optimization):
        name = f"grouping_{steps}"
        stage = "host"
        guarantee = promise

        def _propose(self, context: Context) -> Proposal | Skipped:
            """The fourth step seems worth while only to a training that is faster by then."""
            if steps == 4 and context.diagnosis is DIAGNOSIS:
                return Skipped(reason="something else is the bottleneck")
            edits = (StepsPerExecution(steps=steps),)
            why = "it may help"
            return Proposal(
                edits=edits, predicted=promised, at=None, rationale=why, prerequisite=first
            )

    return Grouping()


@pytest.fixture
def walked() -> Callable[..., Tuner]:
    def run(
        trials: dict[int, list[list[float]]],
        budget_s: float = FAR,
        promises: dict[int, float | None] | None = None,
        **options: Any,
    ) -> Tuner:
        walk = Tuner(
            FakeSubject(trials),
            DIAGNOSIS,
            FOUR_CORES,
            Policy(budget_s=budget_s),
            Journal(),
            optimizations=tuple(
                optimization(steps, (promises or {}).get(steps, 1.5)) for steps in trials
            ),
            **options,
        )
        walk.run()
        return walk

    return run


def outcomes(walk: Tuner) -> list[tuple[str, str]]:
    return [(step.name, step.outcome) for step in walk.steps]


def test_a_gain_lost_in_noise_is_looked_at_again(walked) -> None:
    walk = walked({2: [UNCLEAR, CLEAR], 3: [CLEAR]})
    assert outcomes(walk) == [("grouping_3", "kept"), ("grouping_2", "kept")]
    assert walk.variant.step_edits == (StepsPerExecution(steps=3), StepsPerExecution(steps=2))


def test_the_second_look_can_fail_like_the_first(walked) -> None:
    walk = walked({2: [UNCLEAR, USELESS], 3: [CLEAR]})
    assert outcomes(walk) == [("grouping_3", "kept"), ("grouping_2", "rejected")]
    assert walk.steps[-1].measured.ratio == pytest.approx(1.0, abs=0.02)


def test_what_gained_nothing_behind_another_bottleneck_is_tried_once_that_is_gone(walked) -> None:
    walk = walked({4: [CLEAR], 3: [CLEAR]})
    assert outcomes(walk) == [("grouping_3", "kept"), ("grouping_4", "kept")]


def test_what_gains_nothing_at_the_end_either_stays_skipped(walked) -> None:
    walk = walked({4: [CLEAR], 3: [USELESS]})
    assert outcomes(walk) == [("grouping_4", "skipped"), ("grouping_3", "rejected")]


def test_there_is_no_third_look(walked) -> None:
    walk = walked({2: [UNCLEAR, UNCLEAR, CLEAR]})
    assert outcomes(walk) == [("grouping_2", "rejected")]


def test_what_was_plainly_no_faster_is_not_looked_at_again(walked) -> None:
    walk = walked({2: [USELESS, CLEAR]})
    assert outcomes(walk) == [("grouping_2", "rejected")]


@pytest.mark.parametrize("left_s", [5.0, seconds.TRIAL_S + 1])
def test_without_time_there_is_no_second_look(walked, left_s: float) -> None:
    """Time for the trial alone is not enough: its proof and what comes after count, too."""
    walk = walked({2: [UNCLEAR, CLEAR]}, budget_s=10.0 + left_s, reserved_s=10.0)
    assert [outcome for _, outcome in outcomes(walk)] == [
        "skipped" if left_s < seconds.TRIAL_S else "rejected"
    ]


def test_what_was_kept_back_for_confirming_is_used_where_nothing_is_to_confirm(walked) -> None:
    options = {"budget_s": 119.0, "reserved_s": 100.0}
    assert outcomes(walked({2: [UNCLEAR, CLEAR]}, **options)) == [("grouping_2", "kept")]
    rejected = walked({3: [CLEAR], 2: [UNCLEAR, CLEAR]}, **options)
    assert ("grouping_2", "kept") not in outcomes(rejected)


@pytest.mark.parametrize(
    ("left_s", "order"),
    [(FAR, [2, 3]), (seconds.TRIAL_S + seconds.AFTER_GAIN_S + 9, [3, 2])],
)
def test_short_time_is_kept_for_what_promises_more(walked, left_s: float, order: list[int]) -> None:
    options = {"budget_s": 100.0 + left_s, "reserved_s": 100.0}
    walk = walked({2: [CLEAR], 3: [CLEAR]}, promises={2: 1.2, 3: 2.0}, **options)
    assert outcomes(walk) == [(f"grouping_{steps}", "kept") for steps in order]


def test_what_promises_nothing_has_the_time_that_is_left(walked, monkeypatch) -> None:
    """It gave way to what promised more, and that has won nothing."""
    alone = compare([100.0, 100.0], [150.0, 150.0])
    monkeypatch.setattr("uncork.engine.tune.tuner.compare_resident", lambda *_: alone)
    left_s = seconds.TRIAL_S + seconds.AFTER_GAIN_S + 9
    options = {"budget_s": 100.0 + left_s, "reserved_s": 100.0}
    walk = walked({2: [CLEAR], 3: [USELESS]}, promises={2: None, 3: 2.0}, **options)
    assert outcomes(walk) == [("grouping_3", "rejected"), ("grouping_2", "kept")]


def test_what_promises_less_waits_for_nobody_further_back(walked) -> None:
    left_s = seconds.TRIAL_S + seconds.AFTER_GAIN_S + 9
    options = {"budget_s": 100.0 + left_s, "reserved_s": 100.0}
    walk = walked({2: [USELESS], 3: [CLEAR]}, promises={2: 2.0, 3: 1.2}, **options)
    assert outcomes(walk) == [("grouping_2", "rejected"), ("grouping_3", "kept")]


def test_what_was_not_tried_says_what_it_promised(walked) -> None:
    """So a report can name those that could have mattered."""
    promises = {2: 1.2, 3: None, 4: 1.5}
    walk = walked({2: [CLEAR], 3: [CLEAR], 4: [CLEAR]}, budget_s=1.0, promises=promises)
    assert [(step.outcome, step.predicted) for step in walk.steps] == [
        ("skipped", 1.2),
        ("skipped", MIN_PREDICTED_SPEEDUP),
        ("skipped", None),  # nothing to try there
    ]


def test_what_the_policy_forbids_says_it_too() -> None:
    road = (optimization(5, promise="training"), optimization(2))
    subject = FakeSubject({5: [CLEAR], 2: [CLEAR]})
    policy = Policy(budget_s=FAR, loosest_guarantee="precision")
    walk = Tuner(subject, DIAGNOSIS, FOUR_CORES, policy, Journal(), optimizations=road)
    walk.run()
    skipped = next(step for step in walk.steps if step.outcome == "skipped")
    assert (skipped.name, skipped.predicted) == ("grouping_5", 1.5)
    assert "the policy allows precision" in skipped.reason


def test_events_say_how_far_the_tuning_is() -> None:
    told: list[Event] = []
    road = (optimization(2), optimization(3), optimization(4))
    subject = FakeSubject({2: [CLEAR], 3: [USELESS], 4: [USELESS]})
    walk = Tuner(
        subject,
        DIAGNOSIS,
        FOUR_CORES,
        Policy(budget_s=FAR),
        Journal(on_event=told.append),
        optimizations=road,
    )
    walk.run()
    trying = [event.progress for event in told if event.text.startswith("trying grouping")]
    assert [(each.step, each.step_count) for each in trying if each] == [(1, 3), (2, 3), (3, 3)]
    assert [each.best_ratio for each in trying if each] == [
        None,
        *[pytest.approx(1.5, rel=0.02)] * 2,
    ]
    assert all(each and FAR - 100 < (each.seconds_left or 0) <= FAR for each in trying)
    kept = [event for event in told if event.is_milestone and event.kind == "step"]
    assert [event.text.split(":")[0] for event in kept] == ["grouping_2"]


@pytest.mark.parametrize(("promised", "kept"), [(2.0, 0), (1.1, 1)])
def test_a_gain_that_was_seen_gets_the_time_of_what_promises_less(
    walked, monkeypatch, promised: float, kept: int
) -> None:
    patience: list[float] = []

    def measured(*runners: Any, **options: Any) -> Any:
        patience.append(options["max_extended_s"])
        return interleave(*runners, **options)

    monkeypatch.setattr("uncork.engine.tune.tuner.interleave", measured)
    budget_s = 1000.0
    promises = {2: promised, 3: 1.5}
    walked({2: [CLEAR], 3: [CLEAR]}, budget_s, promises=promises, reserved_s=0.0)
    needed_s = seconds.AFTER_GAIN_S + kept * (seconds.TRIAL_S + seconds.AFTER_GAIN_S)
    assert patience[0] == pytest.approx(budget_s - needed_s, abs=5.0)


@pytest.mark.parametrize("outcome", ["kept", "rejected"])
def test_a_step_that_had_better_come_first_does(outcome: str) -> None:
    """And only once, whatever became of it."""
    trials = {2: [CLEAR], 5: [CLEAR], 3: [CLEAR if outcome == "kept" else USELESS]}
    road = (optimization(2, first="grouping_3"), optimization(5), optimization(3))
    walk = Tuner(
        FakeSubject(trials),
        DIAGNOSIS,
        FOUR_CORES,
        Policy(budget_s=FAR),
        Journal(),
        optimizations=road,
    )
    walk.run()
    names = [("grouping_3", outcome), ("grouping_2", "kept"), ("grouping_5", "kept")]
    assert outcomes(walk) == names


@pytest.mark.parametrize(
    ("loosest", "expected"),
    [
        ("training", [("grouping_3", "kept"), ("grouping_2", "kept"), ("grouping_5", "kept")]),
        ("precision", [("grouping_3", "kept"), ("grouping_2", "kept"), ("grouping_5", "skipped")]),
    ],
)
def test_another_training_comes_last_and_with_consent_only(
    loosest: Guarantee, expected: list[tuple[str, str]]
) -> None:
    """Whatever is looked at again is compared with the training as it was written."""
    road = (optimization(5, promise="training"), optimization(2), optimization(3))
    subject = FakeSubject({5: [CLEAR], 2: [UNCLEAR, CLEAR], 3: [CLEAR]})
    policy = Policy(budget_s=FAR, loosest_guarantee=loosest)
    walk = Tuner(subject, DIAGNOSIS, FOUR_CORES, policy, Journal(), optimizations=road)
    walk.run()
    assert outcomes(walk) == expected


def size(times: int, higher: float = 0.0) -> BatchSizeTrial:
    faster = compare([1.0, 1.0], [2.0, 2.0])
    about = {
        "samples_per_training": 100,
        "baseline_loss": 1.0,
        "loss_increase_error": 0.1,
        "loss_noise": 0.1,
    }
    return BatchSizeTrial(
        batch_multiplier=times,
        learning_rate_multiplier=2.0,
        speedup=faster,
        loss_increase=higher,
        **about,
    )


class Larger(Optimization):
    name = "larger"
    stage = "batch"
    guarantee = "training"

    def _propose(self, context: Context) -> Proposal | Skipped:
        """The largest of those that hold."""
        held = [each for each in context.diagnosis.batch_size_trials if each.is_within_noise]
        if not held:
            return Skipped(reason="none is left")
        edits = (StepsPerExecution(steps=held[-1].batch_multiplier),)
        return Proposal(edits=edits, predicted=2.0, at=None, rationale="it may help")


@pytest.mark.parametrize(
    ("passes", "outcome", "expected"), [(4, "kept", [8, 4]), (0, "rejected", [8, 4, 2])]
)
def test_where_a_larger_batch_is_not_proved_a_smaller_one_is_tried(
    passes: int, outcome: str, expected: list[int]
) -> None:
    tried: list[int] = []

    class Sized(FakeSubject):
        def measure_batch_sizes(
            self, version: Variant, budget_s: float
        ) -> tuple[BatchSizeTrial, ...]:
            return size(2), size(4), size(8), size(16, higher=1.0)

        def prove_training(self, version: Variant, budget_s: float) -> Proof:
            tried.append(version.step_edits[-1].steps)
            return Proof(kind="training", passed=tried[-1] <= passes, detail="set by the test")

    subject = Sized({steps: [CLEAR] for steps in (2, 4, 8)})
    policy = Policy(budget_s=FAR, loosest_guarantee="training")
    walk = Tuner(subject, DIAGNOSIS, FOUR_CORES, policy, Journal(), optimizations=(Larger(),))
    walk.run()
    assert outcomes(walk) == [("larger", outcome)]
    assert tried == expected


def test_every_outcome_is_told_and_saved(walked) -> None:
    saved = []
    walked({2: [UNCLEAR, CLEAR], 3: [CLEAR]}, after_step=lambda: saved.append(True))
    assert len(saved) == 3


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_loop_that_ends_by_itself_is_no_interruption(
    walked, tmp_path: Path, interrupted: bool
) -> None:
    tuning = TuneListener(TuneJob(), Journal(), str(tmp_path))
    tuning._walk = walked({2: [CLEAR]})
    tuning.finish(interrupted=interrupted)
    found = tuning.result
    assert found.is_interrupted == interrupted
    assert [step.outcome for step in found.steps] == ["kept"]
    assert any("could try all optimizations" in note for note in found.notes) != interrupted


def test_a_script_that_fails_loses_no_step(walked, tmp_path: Path) -> None:
    job = TuneJob(result_path=str(tmp_path / "result"))
    tuning = TuneListener(job, Journal(), str(tmp_path))
    tuning.fail()
    assert not (tmp_path / "result").exists()
    tuning._walk = walked({2: [CLEAR]})
    tuning.fail()
    found = from_json((tmp_path / "result").read_bytes(), JobResult)
    assert (found.has_script_failed, found.is_interrupted) == (True, False)
    assert [step.outcome for step in found.steps] == ["kept"]
    assert (
        "the script failed: the plan contains only what was tried"
        in create_plan(found, "", Policy()).notes[-1]
    )


def test_nothing_tried_is_no_result(tmp_path: Path) -> None:
    tuning = TuneListener(TuneJob(), Journal(), str(tmp_path))
    tuning.finish()
    assert tuning.result is None


class InBits(FakeSubject):
    """A lower precision harms its training, unless layers enough stay in float32."""

    def __init__(self, enough: str) -> None:
        super().__init__({1: [CLEAR], 2: [CLEAR]})
        self.enough, self.asked = enough, list[int]()

    def prove_step(self, version: Variant, kind: Guarantee, budget_s: float) -> Proof:
        self.asked.append(version.step_edits[-1].steps)
        passed = self.enough == "careful" and version.step_edits[-1].steps == 2
        harmed = self.enough != "unclear"
        return Proof(
            kind=kind, passed=passed, detail="set by the test", is_disproved=harmed and not passed
        )


class FewBits(Optimization):
    """Of two steps where layers that it harms first are left out, of one otherwise."""

    name = "few_bits"
    stage = "precision"
    guarantee = "precision"

    def _propose(self, context: Context) -> Proposal | Skipped:
        """By what the workload keeps."""
        steps = 1 + len(context.workload.float32_layers("mixed_bfloat16"))
        edits = (StepsPerExecution(steps=steps),)
        return Proposal(edits=edits, predicted=1.5, at=None, rationale="it may help")


@pytest.mark.parametrize(
    ("enough", "layers", "asked", "outcome", "reason"),
    [
        ("careful", ("last",), [1, 2], "kept", "it may help"),
        (
            "never",
            ("last",),
            [1, 2],
            "rejected",
            "set by the test; with last in float32: not proven: set by the test",
        ),
        ("careful", (), [1], "rejected", "set by the test"),
        ("unclear", ("last",), [1], "rejected", "set by the test"),
    ],
)
def test_what_harms_a_training_is_tried_with_fewer_layers(
    enough: str, layers: tuple[str, ...], asked: list[int], outcome: str, reason: str
) -> None:
    subject = InBits(enough)
    work = replace(DIAGNOSIS.workload, precision_sensitive_layers=layers)
    before = replace(DIAGNOSIS, workload=work)
    walk = Tuner(
        subject, before, FOUR_CORES, Policy(budget_s=FAR), Journal(), optimizations=(FewBits(),)
    )
    walk._keep = lambda candidate, measured: candidate.step_edits  # type: ignore[method-assign]
    walk.run()
    (step,) = walk.steps
    assert subject.asked == asked
    assert step.outcome == outcome
    assert step.reason.endswith(reason)
    assert not walk.diagnosis.workload.is_precision_conservative or outcome == "kept"
