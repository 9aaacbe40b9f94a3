"""A plan in this process: does it fit the machine, and what is kept of it while a script runs?"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as keras_trainer

from records import STEPS, WORKLOAD, plan, stage, workload_diagnosis
from uncork.capture.base.listener import StepCall
from uncork.capture.base.stop import ScriptStopper, StopScript
from uncork.core.base.errors import EditRefused, PlanRefused
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan
from uncork.core.edits.edit import KeepFreedMemory, LoaderCache
from uncork.core.edits.pipeline import Cache, GeneratorCache, Prefetch, PyFunctionCache, ReadAhead
from uncork.core.edits.step import DtypePolicy, FlatUpdates, JitCompile, ReuseIterator
from uncork.engine.apply import machine_match as this_machine
from uncork.engine.apply.loop_datasets import _EDITED
from uncork.engine.apply.machine_match import check_precision, machine_differences
from uncork.engine.apply.memory_budget import check_cache_memory
from uncork.engine.apply.plan_listener import PlanListener
from uncork.engine.apply.plan_notices import PlanNotices
from uncork.measure.machine.devices import accelerators
from uncork.measure.machine.probe import available_memory_bytes, probe_host
from uncork.pipeline.analysis.input_files import named_file_bytes
from uncork.pipeline.ir.tree import read_pipeline

KEPT = next(step for step in STEPS if step.outcome == "kept")


def with_edits(*edits: Any, **workload: Any) -> Plan:
    before = workload_diagnosis(workload=replace(WORKLOAD, **workload))
    return plan(before=before, steps=(replace(KEPT, edits=edits),))


def numbers(count: int = 6) -> tf.data.Dataset:
    return tf.data.Dataset.range(count).map(lambda x: x * 2).batch(2)


def running(*edits: Any) -> PlanListener:
    digest = read_pipeline(numbers()).digest
    expecting = tuple(replace(edit, expected_digest=digest) for edit in edits)
    return PlanListener(
        with_edits(*expecting, kind="custom_loop", pipeline_digest=digest), strict=True
    )


CACHE, PREFETCH = Cache(stage=1, expected_digest=""), Prefetch(expected_digest="")


def test_a_dataset_is_edited_once() -> None:
    planned, ours = running(CACHE), numbers()
    edited = planned.dataset(ours, "train.py:3")
    assert edited is not ours
    assert planned.dataset(ours, "train.py:3") is edited
    assert [x.tolist() for x in edited.as_numpy_iterator()] == [[0, 2], [4, 6], [8, 10]]
    other = tf.data.Dataset.range(3)
    assert planned.dataset(other, "train.py:9") is other
    assert planned.is_settled


def test_of_many_datasets_those_that_are_gone_are_not_kept() -> None:
    """Their data and a cache of each would fill the memory."""
    planned, ours = running(CACHE), numbers()
    edited = planned.dataset(ours, "train.py:3")
    for _ in range(20):
        other = numbers()
        assert planned.dataset(other, "train.py:3") is not other
        assert planned.dataset(ours, "train.py:3") is edited, "it is read in between"
    assert len(planned._data._alike) <= 4


def test_datasets_that_are_made_anew_for_each_pass_are_not_cached_for_ever(
    capsys: pytest.CaptureFixture[str],
) -> None:
    planned = running(CACHE)
    made = [numbers() for _ in range(20)]
    found = [planned.dataset(each, "train.py:3") for each in made]
    assert [one is other for one, other in zip(made, found, strict=True)] == [False] * 8 + [
        True
    ] * 12
    told = capsys.readouterr().err
    assert told.count("creates a new dataset") == 1
    assert not any(_EDITED in vars(each) for each in made)


def test_only_what_was_handed_out_is_what_the_plan_edits() -> None:
    """Validation data that looks the same is read by whoever likes; it is not the loop's."""
    planned, validation = running(PREFETCH), numbers()
    edited = planned.dataset(validation, "train.py:3")
    assert planned.is_settled
    assert planned._data.has_returned(edited)
    assert not planned._data.has_returned(validation)
    assert not planned._data.has_returned(numbers())
    copied = copy.copy(validation)
    assert planned.dataset(copied, "train.py:3") is not edited


def test_what_keeps_nothing_is_of_use_for_any_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    planned = running(PREFETCH)
    for _ in range(20):
        other = numbers()
        assert planned.dataset(other, "train.py:3") is not other
    assert "creates a new dataset" not in capsys.readouterr().err


@pytest.mark.parametrize(("sizes", "fits"), [((1_000,), True), ((10**15,), False)])
def test_the_memory_of_the_cache_that_was_chosen_counts(sizes: Any, fits: bool) -> None:
    """Not that of others that would have been legal: they were too large for this very machine."""
    edits = tuple(Cache(stage=1, expected_digest="", size_bytes=size) for size in sizes)
    made = with_edits(*edits)
    if fits:
        check_cache_memory(made)
    else:
        with pytest.raises(EditRefused, match="GB of memory"):
            check_cache_memory(made)


def test_what_is_read_ahead_needs_room_as_well() -> None:
    check_cache_memory(
        with_edits(
            ReadAhead(
                stage=1, expected_digest="", readers=2, elements_per_reader=9, size_bytes=1_000
            )
        )
    )
    with pytest.raises(EditRefused, match="prefetched elements need up to 1000000"):
        check_cache_memory(
            with_edits(
                ReadAhead(
                    stage=1, expected_digest="", readers=2, elements_per_reader=9, size_bytes=10**15
                )
            )
        )


def test_a_cache_of_more_data_than_the_plan_was_made_with_is_reckoned_anew() -> None:
    """Structure is all that a plan knows of a pipeline: a tenth of the files has the same one."""
    room = 0.5 * available_memory_bytes()
    lengths = [stage(i, kind, length=6) for i, kind in enumerate(("range", "map"))]
    before = workload_diagnosis(stages=(*lengths, stage(2, "batch", length=3)))
    edit = Cache(stage=1, expected_digest="", size_bytes=int(room / 10))
    made = plan(before=before, steps=(replace(KEPT, edits=(edit,)),))
    check_cache_memory(made, read_pipeline(numbers()))
    edited = replace(KEPT, edits=(replace(edit, stage=0),))
    check_cache_memory(replace(made, steps=(edited,)), read_pipeline(numbers()))
    with pytest.raises(EditRefused, match=r"for 100\.0 times as much"):
        check_cache_memory(made, read_pipeline(numbers(600)))


def lines_of(*paths: Path) -> tf.data.Dataset:
    return tf.data.TextLineDataset([str(path) for path in paths]).map(tf.strings.length).batch(2)


def test_where_no_length_is_known_the_sizes_of_the_files_tell(tmp_path: Path) -> None:
    """How many records are in a file nobody knows; TensorFlow's cache would take any number."""
    small, large = tmp_path / "small.txt", tmp_path / "large.txt"
    small.write_text("row\n" * 10)
    large.write_text("row\n" * 1000)
    then = read_pipeline(lines_of(small))
    kinds = [place.node.kind for place in then.stage_locations]
    stages = [stage(i, kind, length=None) for i, kind in enumerate(kinds)]
    stages[0] = replace(
        stages[0], length=1, file_bytes=named_file_bytes(then.stage_locations[0].node)
    )
    size = round(0.5 * available_memory_bytes() / 10)
    edit = Cache(stage=kinds.index("map"), expected_digest="", size_bytes=size)
    before = workload_diagnosis(stages=tuple(stages))
    made = plan(before=before, steps=(replace(KEPT, edits=(edit,)),))
    check_cache_memory(made, then)
    with pytest.raises(EditRefused, match=r"for 100\.0 times as much"):
        check_cache_memory(made, read_pipeline(lines_of(large)))


def loop_at(index: int) -> StepCall:
    function = tf.function(lambda: None)
    return StepCall(index=index, at="train.py:9", args=(), kwargs={}, original=function)


def test_a_loop_over_other_data_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    strict = running(CACHE)
    strict.dataset(tf.data.Dataset.range(3), "train.py:9")
    with pytest.raises(PlanRefused, match="its input pipeline"):
        strict.step_loop(loop_at(0))
    lenient = PlanListener(strict.plan, strict=False)
    lenient.dataset(tf.data.Dataset.range(3), "train.py:9")
    assert lenient.step_loop(loop_at(0)) is None
    assert "trains unmodified, without the plan" in capsys.readouterr().err
    assert lenient.is_settled, "it was reached, and told why not"


def test_a_loop_over_the_data_that_is_known_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    planned = running(CACHE)
    planned.dataset(numbers(), "train.py:9")
    assert planned.step_loop(loop_at(0)) is None
    assert "without the plan" not in capsys.readouterr().err


def test_a_loop_reads_through_what_is_kept_from_its_first_step_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keras_s = keras_trainer.TFEpochIterator
    monkeypatch.setattr(keras_trainer, "TFEpochIterator", keras_s)  # put back at the end
    planned = PlanListener(with_edits(ReuseIterator(), kind="custom_loop", model=None), strict=True)
    assert not planned.is_settled
    assert planned.step_loop(loop_at(WORKLOAD.index)) is None
    assert planned.is_settled
    assert not planned.wants_steps, "nothing of the step is to be exchanged"
    assert keras_trainer.TFEpochIterator is not keras_s


def test_a_loop_whose_process_was_started_as_planned_has_its_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = with_edits(KeepFreedMemory(), kind="custom_loop", model=None)
    monkeypatch.setattr(this_machine, "is_keeping_freed_memory", lambda: True)
    planned = PlanListener(made, strict=True)
    assert not planned.is_settled
    assert planned.step_loop(loop_at(WORKLOAD.index)) is None
    assert planned.is_settled
    assert "continues" not in capsys.readouterr().err


def test_a_loop_whose_process_was_not_started_as_planned_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = with_edits(KeepFreedMemory(), kind="custom_loop", model=None)
    monkeypatch.setattr(this_machine, "is_keeping_freed_memory", lambda: False)
    with pytest.raises(PlanRefused, match="returns freed memory"):
        PlanListener(made, strict=True).step_loop(loop_at(WORKLOAD.index))
    lenient = PlanListener(made, strict=False)
    assert lenient.step_loop(loop_at(WORKLOAD.index)) is None
    assert "continues with the settings of this process" in capsys.readouterr().err
    assert lenient.is_settled


def test_a_machine_is_itself_and_no_other() -> None:
    here = probe_host(accelerators())
    assert machine_differences(here) == ()
    elsewhere = replace(here, cpu_model="another", devices=("GPU:0 NVIDIA H200",))
    processor, devices = machine_differences(elsewhere)
    assert processor == f"processor: another, here {here.cpu_model}"
    assert devices == "accelerators: GPU:0 NVIDIA H200, here none"
    assert machine_differences(replace(here, cpu_model="", tensorflow="")) == ()


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float32"])
def test_a_precision_is_refused_where_it_would_be_imitated(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    made = with_edits(DtypePolicy(policy=policy))
    asked = "has_native_float16" if policy == "mixed_float16" else "has_native_bfloat16"
    monkeypatch.setattr(this_machine, asked, lambda: True)
    check_precision(made)
    monkeypatch.setattr(this_machine, asked, lambda: False)
    if policy == "float32":
        check_precision(made)
    else:
        with pytest.raises(EditRefused, match="only emulates"):
            check_precision(made)


def test_what_python_keeps_needs_room_as_well() -> None:
    """Of a generator that nobody counted, as much as there was room for where it was tuned."""
    for edit in (
        GeneratorCache(stage=0, expected_digest="", size_bytes=1 << 50, code_digest="c0de"),
        PyFunctionCache(stage=0, expected_digest="", size_bytes=1 << 50, code_digest="c0de"),
        LoaderCache(size_bytes=1 << 50, expected_digest="4f2a"),
    ):
        with pytest.raises(EditRefused, match="GB of memory"):
            check_cache_memory(with_edits(edit))


@pytest.mark.parametrize(("edit", "refused"), [(FlatUpdates(), True), (JitCompile(), False)])
def test_what_does_itself_what_keras_does_keeps_to_the_keras_it_was_proved_with(
    edit: Any, refused: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    here = replace(probe_host(accelerators()), keras="3.0.5")
    made = replace(with_edits(edit), machine=here)
    PlanNotices(made, strict=False).compare_machine()
    assert "Keras: 3.0.5" in capsys.readouterr().err
    if refused:
        notices = PlanNotices(made, strict=True)
        for _ in range(2):  # a script may catch the first refusal, and train again
            with pytest.raises(PlanRefused, match=r"Keras 3\.0\.5"):
                notices.compare_machine()
    else:
        PlanNotices(made, strict=True).compare_machine()


def test_before_the_training_a_refusal_cannot_be_caught_and_later_it_ends_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made, stops = with_edits(JitCompile()), ScriptStopper()
    notices = PlanNotices(made, strict=True, guard=stops.run_guarded)
    with pytest.raises(StopScript):
        notices.step_continues("train.py:9", "eagerly", "it has changed")
    assert isinstance(stops.cause, PlanRefused)
    assert "it has changed" in stops.cause.received
    assert capsys.readouterr().err == ""
    notices = PlanNotices(made, strict=True)
    with pytest.raises(PlanRefused):
        notices.training_refused(EditRefused("no room"), "train.py:9")
    notices.step_continues("train.py:9", "eagerly", "it has changed", has_begun=True)
    notices.training_refused(EditRefused("no room"), "train.py:9", has_begun=True)
    notices.has_trained = True
    notices.step_continues("train.py:9", "eagerly", "it has changed")
    notices.training_refused(EditRefused("no room"), "train.py:9")
    said = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in said] == [
        "the step of train.py:9 continues eagerly",
        "train.py:9 trains unmodified, without the plan",
    ] * 2


def test_a_plan_of_another_machine_is_refused_where_tensorflow_tells_more() -> None:
    here = probe_host(accelerators())
    made = replace(with_edits(JitCompile()), machine=here)
    PlanListener(made, strict=True).check_machine()
    other = replace(made, machine=replace(here, devices=("GPU:0 NVIDIA H200",)))
    with pytest.raises(PlanRefused, match="accelerators: GPU:0 NVIDIA H200, here "):
        PlanListener(other, strict=True).check_machine()
    PlanListener(other, strict=False).check_machine()


def test_loops_in_a_model_s_own_step_are_outlined_where_its_code_is_compared() -> None:
    """As they were while it was tuned: otherwise its digest is another one."""
    assert with_edits(JitCompile()).is_code_specific
    assert not with_edits(FlatUpdates()).is_code_specific
