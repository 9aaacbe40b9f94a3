"""The same verbs for those who hold a model and a dataset: scripts, notebooks, tests."""

from __future__ import annotations

import copy
import inspect
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from uncork.api.data_state import preserve_data_state
from uncork.api.display import Displayable
from uncork.capture.base.listener import FitCall
from uncork.compat.versions import require_tensorflow
from uncork.core.base.errors import EditRefused, PlanRefused, WrongUse
from uncork.core.base.journal import Journal
from uncork.core.base.owned_folder import owned_folder
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import Diagnosis, Explanation, Overhead
from uncork.core.documents.job import JobResult
from uncork.core.documents.plan import Plan, Policy, Speedup
from uncork.core.documents.plan_file import load_plan
from uncork.core.edits.edit import GUARANTEES, Guarantee
from uncork.engine.apply.plan_listener import PlanListener
from uncork.engine.commands.confirm import withdraw_plan
from uncork.engine.commands.tune import create_plan
from uncork.engine.diagnose.explain import explain_pipeline
from uncork.engine.diagnose.observe import DEFAULT_BUDGET_S, observe, with_disk
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.process.cluster_guard import refuse_cluster
from uncork.engine.subject.dataset_subject import DatasetSubject
from uncork.engine.subject.subject import Subject
from uncork.engine.subject.time_budget import DIAGNOSIS_SHARE
from uncork.engine.tune.tuner import Tuner
from uncork.measure.benchmark.interleave import Trial, interleave
from uncork.measure.benchmark.timed_block import timing_overhead_s
from uncork.measure.machine.devices import cluster_process_count
from uncork.measure.machine.devices import detect_machine as this_machine
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.runtime.resume_state import continue_shuffles
from uncork.pipeline.transforms.disk_cache import fill_disk_caches
from uncork.pycode.frames.dataset_lines import record_source_lines
from uncork.pycode.frames.training_line import user_line
from uncork.report.terminal.progress import Progress
from uncork.rules.nondeterminism import nondeterminism_notes
from uncork.training.input.loader_edits import has_epoch_hooks
from uncork.training.variant import Variant

# A plan is for repeated training; asked for no number of epochs, assume more than one.
_EPOCHS = 10
_FINAL_BLOCK_S = 1.0
_FINAL_BUDGET_S = 20.0


def diagnose(
    model: Any,
    data: Any,
    *,
    epochs: int = _EPOCHS,
    budget: float = DEFAULT_BUDGET_S,
    quiet: bool = False,
    **fit: Any,
) -> Displayable[Diagnosis]:
    """Where does the time of ``model.fit(data)`` go?

    The model, its optimizer and all random states are given back as they were.

    Args:
        model: Compiled.
        data: What ``fit`` takes: a ``tf.data.Dataset``, a ``PyDataset``, or a tuple of arrays.
        epochs: As in the training meant.
        budget: Seconds for the measuring; a shorter one is noisier.
        quiet: Print no progress.
        fit: Further arguments of ``fit``: ``batch_size``, ``callbacks``, ...

    Raises:
        WrongUse: The model was never compiled, or does not fit the data.
        NothingToMeasure: The data is empty.
    """
    begin = time.monotonic()
    machine = this_machine()
    with _examined(model, data, {**fit, "epochs": epochs}) as subject:
        found = observe(subject, machine, _journal(quiet), budget_s=budget)
    found = replace(found, notes=(*nondeterminism_notes(found), *found.notes))
    overhead = Overhead(
        step_share=timing_overhead_s() / found.step_s, total_s=time.monotonic() - begin
    )
    record = Diagnosis(script="", machine=machine, workloads=(found,), overhead=overhead)
    return Displayable(record)


def tune(
    model: Any,
    data: Any,
    *,
    epochs: int = _EPOCHS,
    policy: Policy | None = None,
    quiet: bool = False,
    **fit: Any,
) -> Displayable[Plan]:
    """Walk the road for ``model.fit(data)``; hand the plan to :func:`fit`.

    Everything is measured in this process; ``uncork tune`` confirms in fresh ones.

    Args:
        model: Compiled; given back as it was.
        data: What ``fit`` takes.
        epochs: As in the training meant: with one epoch no cache pays.
        policy: What may be done.
        quiet: Print no progress.
        fit: Further arguments of ``fit``.
    """
    begin, policy = time.monotonic(), policy or Policy()
    if not isinstance(policy, Policy):
        raise WrongUse(f"{policy!r} is not a policy", "uncork.Policy(loosest='exact')")
    machine, journal = this_machine(), _journal(quiet)
    with _examined(model, data, {**fit, "epochs": epochs}) as subject:
        walk = _walked(subject, policy, journal, reserved_s=_FINAL_BUDGET_S)
        final = _compared(subject, walk) if walk.variant is not subject.original else None
    result = JobResult(
        machine=machine,
        before=walk.before,
        after=walk.diagnosis if final else None,
        steps=tuple(walk.steps),
        notes=tuple(subject.notes),
    )
    plan = replace(create_plan(result, "", policy), tuning_cost_s=time.monotonic() - begin)
    return Displayable(_with(plan, final) if final else plan)


def fit(
    model: Any,
    data: Any,
    *,
    plan: Plan | Displayable[Plan] | str | Path,
    allow_partial: bool = False,
    **arguments: Any,
) -> Any:
    """``model.fit(data, ...)`` with a plan in force; returns Keras's history.

    Args:
        model: The one the plan was made for, or its like.
        data: Likewise.
        plan: From :func:`tune`, or the path of a ``plan.json``.
        allow_partial: Go on with what still fits of a plan for another training, machine or
            version, and write to stderr what does not.
        arguments: Of ``fit``.

    Raises:
        PlanRefused: The plan does not fit, with what differs; nothing has been trained.
    """
    loaded = _plan(plan)
    listener = PlanListener(loaded, strict=not allow_partial)
    listener.check_machine()
    bound = _bound(model, data, arguments)
    at = user_line(sys._getframe(1))
    call = FitCall(loaded.before.workload.index, at, model, bound, model.fit)
    return listener.fit(call)


def optimize(
    dataset: Any,
    *,
    epochs: int = _EPOCHS,
    strict: Guarantee = "exact",
    memory: float = 0.5,
    disk_cache: str | Path = "",
    budget: float = 120.0,
    quiet: bool = False,
) -> Any:
    """The same dataset, faster: every rewrite measured, and proved to keep all elements in order.

    Judged by the loader alone, which is all there is to see here; :func:`tune` judges by the
    training, and a faster loader can take cores that a training needs.

    Args:
        dataset: Any ``tf.data.Dataset``; it stays as it is.
        epochs: How often it will be read.
        strict: The weakest promise accepted.
        memory: Share of the available memory that caches may take.
        disk_cache: A folder for files of what memory has no room for; they go with this process.
        budget: Seconds for looking and trying.
        quiet: Print no progress.

    Returns:
        A dataset with the same elements, or ``dataset`` itself when nothing was gained.

    Raises:
        WrongUse: It is no dataset, or there is no such promise.
        NothingToMeasure: It is empty.
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise WrongUse(
            f"a {type(dataset).__name__} is not a tf.data.Dataset",
            "a tf.data.Dataset",
            "uncork.tune(model, data) accepts arrays and PyDatasets, too",
        )
    if strict not in GUARANTEES:
        raise WrongUse(f"there is no guarantee {strict!r}", f"one of {', '.join(GUARANTEES)}")
    at = user_line(sys._getframe(1))
    with owned_folder() as scratch, preserve_data_state(dataset):
        subject = DatasetSubject(dataset, epochs=epochs, at=at, scratch=scratch)
        policy = Policy(
            loosest_guarantee=strict,
            memory_share=memory,
            budget_s=budget,
            disk_cache_folder=str(disk_cache),
        )
        walk = _walked(subject, policy, _journal(quiet), reserved_s=0.0)
    if not walk.variant.pipeline_edits:
        return dataset
    # Not the version under trial: its cache files lie in a folder that is gone.
    try:
        edited = (
            Variant(read_pipeline(dataset))
            .with_pipeline_edits(walk.variant.pipeline_edits)
            .pipeline
        )
        assert edited is not None
        made = continue_shuffles(edited)
        fill_disk_caches(made)  # files that are not complete may have one reader only
        return made.dataset
    except EditRefused as refusal:
        sys.stderr.write(f"uncork: the dataset stays unmodified: {refusal}\n")
        return dataset


def explain(dataset: Any, *, budget: float = 5.0) -> Displayable[Explanation]:
    """What does each stage of an input pipeline cost, and which line made it?

    Lines are known of datasets made after Uncork was imported, where TensorFlow was before it, or
    first used. Epochs that shuffles count and files of caches stay as they are; Python code of the
    pipeline's own is called, and what it does elsewhere stays done. In-memory caches are measured
    as later epochs find them.

    Args:
        dataset: Any ``tf.data.Dataset``.
        budget: Seconds to measure, roughly; a shorter look is noisier.

    Returns:
        To be printed: the tree, source first, with rates, CPU time and source lines. Its ``record``
        holds the figures.

    Raises:
        WrongUse: It is no dataset.

    Example:
        >>> numbers = tf.data.Dataset.range(100).map(lambda x: x + 1).batch(10)
        >>> [stage.kind for stage in explain(numbers, budget=0.2).record.stages]
        ['range', 'map', 'batch']
    """
    record_source_lines()
    return Displayable(explain_pipeline(dataset, budget))


def _plan(plan: object) -> Plan:
    """The plan itself, whatever form it comes in.

    Raises:
        PlanRefused: It is none, or not one for ``fit``.
    """
    record = plan.record if isinstance(plan, Displayable) else plan
    loaded = load_plan(Path(record)) if isinstance(record, str | Path) else record
    if not isinstance(loaded, Plan):
        raise PlanRefused(
            f"a {type(loaded).__name__} is not a plan",
            "the result of uncork.tune, or the path of a plan.json",
            "plan = uncork.tune(model, data)",
        )
    if loaded.before.workload.kind != "fit":
        raise PlanRefused(
            f"the plan is for the custom loop at {loaded.before.workload.at}",
            "a plan for a Model.fit",
            "run the script of that loop: uncork run --plan PLAN SCRIPT",
        )
    return loaded


def _walked(subject: Subject, policy: Policy, journal: Journal, *, reserved_s: float) -> Tuner:
    machine = this_machine()
    begin = time.monotonic()
    before = observe(subject, machine, journal, budget_s=DIAGNOSIS_SHARE * policy.budget_s)
    before = with_disk(before, policy.disk_cache_folder, journal)
    walk = Tuner(
        subject, before, machine, policy, journal, start_time_s=begin, reserved_s=reserved_s
    )
    walk.run()
    return walk


def _compared(subject: Subject, walk: Tuner) -> Trial:
    """The final figure: as written against all kept steps together."""
    runners = [subject.runner(v) for v in (subject.original, walk.variant)]
    for runner in runners:
        runner.prime()
    return interleave(*runners, block_s=_FINAL_BLOCK_S, budget_s=_FINAL_BUDGET_S)


def _with(plan: Plan, final: Trial) -> Plan:
    """The plan with both speeds as they were when they were compared."""
    found = final.comparison
    if found.verdict == "slower":
        return withdraw_plan(plan, found, final.base, "in the last comparison")
    speedup = Speedup(
        ratio=found.ratio, low=found.low, high=found.high, verdict=found.verdict, n_processes=1
    )
    # The speeds of a plan give its speed-up; the medians of their blocks would give another one.
    tuned = replace(final.candidate, samples_per_s=final.base.samples_per_s * found.ratio)
    return replace(plan, baseline=final.base, tuned=tuned, speedup=speedup)


@contextmanager
def _examined(model: Any, data: Any, arguments: dict[str, Any]) -> Iterator[FitSubject]:
    """The training that is meant; the model, all random states and the data's are given back."""
    record_source_lines()
    at = user_line(sys._getframe(3))
    bound = _bound(model, data, arguments)
    refuse_cluster("this training", cluster_process_count())
    bound["x"] = _apart(bound["x"])
    with owned_folder() as scratch, preserve_data_state(data):
        subject = FitSubject(model, bound, 0, at, scratch)
        try:
            yield subject
        finally:
            subject.restore()


def _apart(data: Any) -> Any:
    """What trials may read: a copy of a loader that does something between epochs.

    Raises:
        WrongUse: It cannot be copied.
    """
    if not isinstance(data, keras.utils.PyDataset) or not has_epoch_hooks(data):
        return data
    try:
        return copy.deepcopy(data)
    except Exception as error:
        name = type(data).__name__
        raise WrongUse(
            f"{name} changes between epochs, and cannot be copied: {error}",
            "a loader that trials can read without changing its state",
            f"give {name} a __deepcopy__, or tune the whole script: uncork tune SCRIPT",
        ) from error


def _bound(model: Any, data: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of ``fit`` by name, defaults filled in; a tuple is x, y and perhaps weights."""
    require_tensorflow()
    if not isinstance(model, keras.Model):
        raise WrongUse(
            f"a {type(model).__name__} is not a Keras model",
            "a compiled keras.Model",
            "uncork.optimize(dataset) works without a model",
        )
    names = ("x", "y", "sample_weight")
    parts = data if isinstance(data, tuple) else (data,)
    if not parts or parts[0] is None:
        raise WrongUse("there is no data to train on", "a dataset, or a tuple of arrays")
    named = {**dict(zip(names, parts, strict=False)), **arguments}
    own, keras_s = inspect.signature(type(model).fit), inspect.signature(keras.Model.fit)
    extra: dict[str, Any] = {}
    if any(p.kind is p.VAR_KEYWORD for p in own.parameters.values()):
        # What a class of the user's hands on is Keras's; beside it, it may take more.
        names_of_its_own = own.parameters.keys() - keras_s.parameters.keys()
        extra = {name: named.pop(name) for name in names_of_its_own & named.keys()}
        own = keras_s
    try:
        bound = own.bind(model, **named)
    except TypeError as error:
        raise WrongUse(f"fit does not accept these arguments: {error}", "Keras's own") from error
    bound.apply_defaults()
    return {**{k: v for k, v in bound.arguments.items() if k != "self"}, **extra}


def _journal(quiet: bool) -> Journal:
    return Journal(on_event=Progress(quiet=quiet))
