"""``uncork run``: the script runs whole, with a plan in force, or aloud without it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import CodeType
from typing import Any

from uncork.capture import FitCall, LoopCall, PassThrough, StepCall
from uncork.core.edit import PyFunctionCache, TfFunction, is_graph
from uncork.core.errors import EditRefused, PlanRefused
from uncork.core.plan import Plan
from uncork.core.workload import Workload
from uncork.engine.eager_steps import NO_FUNCTION, eager_step, step_around, step_of_loop
from uncork.engine.fitting import differences
from uncork.engine.pipelines import enough_memory
from uncork.engine.subject import Version
from uncork.pipeline import continued, read
from uncork.step import (
    Feed,
    Mode,
    apply,
    around,
    as_written,
    batch_hooks,
    check,
    check_loader,
    flat_group_of,
    graph_training,
    loader_edited,
    signature,
)


class Running(PassThrough):
    """Puts a plan in force at the training call it was made for.

    Args:
        plan: Sealed and loaded.
        strict: What does not fit ends the script; otherwise the training runs as written.
    """

    def __init__(self, plan: Plan, *, strict: bool) -> None:
        self.plan = plan
        self.strict = strict
        self.wants_loops = plan.before.workload.kind == "custom_loop" and bool(plan.edits)
        self.met = False
        self._step_met = False
        self._versions: dict[int, tuple[Any, Any]] = {}

    def fit(self, call: FitCall) -> Any:
        """Train with the plan's edits if this is the call, and they fit."""
        meant = self.plan.before.workload
        if meant.kind != "fit" or call.index != meant.index or not self.plan.edits:
            return call.original(**call.arguments)
        self.met = True
        arguments = dict(call.arguments)
        try:
            arguments["x"] = self._edited(call)
            group = flat_group_of(call.model, self.plan.step_edits)
            if group is not None:
                arguments["callbacks"] = around(group, arguments.get("callbacks"))
        except (EditRefused, PlanRefused) as refusal:
            self._refuse(refusal, call.at)
            return call.original(**call.arguments)
        with (
            loader_edited(arguments["x"], self.plan.loader_edits),
            as_written(call.model) as saving,
        ):
            apply(call.model, self.plan.step_edits)
            with saving, self._guarded(call), group.in_force() if group else nullcontext():
                return call.original(**arguments)

    def _guarded(self, call: FitCall) -> AbstractContextManager[None]:
        if not is_graph(self.plan.step_edits):
            return nullcontext()
        return graph_training(call.model, functools.partial(self._op_by_op, call.at))

    def loop(self, call: LoopCall, first: Iterator[Any]) -> Iterator[Any]:
        """Let the loop's step run as a graph where the plan says so; the loop itself goes on."""
        evidence = call.evidence
        code = step_of_loop(evidence.eager_codes, call.at) if evidence.eager_step else None
        self._step_as_graph(call, code)
        return first

    def step_loop(self, call: StepCall) -> Callable[[StepCall], Any] | None:
        """The same of a loop that reads no dataset."""
        self._step_as_graph(call, step_around(sys._getframe()) if call.eager else None)
        return None

    def dataset(self, dataset: Any, at: str) -> Any:
        """Iterate over the edited pipeline where a custom loop reads the one the plan knows."""
        if not (self.wants_loops and self.plan.pipeline_edits):
            return dataset
        known = self._versions.get(id(dataset))
        if known is not None:
            return known[1]
        pipeline = read(dataset)
        if pipeline.digest != self.plan.before.workload.pipeline:
            return dataset
        self.met = True
        edited = dataset
        try:
            enough_memory(self.plan)
            edited = Version(pipeline).with_pipeline_edits(self.plan.pipeline_edits).pipeline
            edited = continued(edited).dataset if edited is not None else dataset
        except EditRefused as refusal:
            self._refuse(refusal, at)
        # The original is kept alive: another dataset must not get its id.
        self._versions[id(dataset)] = (dataset, edited)
        return edited

    def _edited(self, call: FitCall) -> Any:
        """The data to train on; everything is checked before anything is changed."""
        feed = Feed.of(call.arguments)
        pipeline = None if feed.dataset is None else read(feed.dataset)
        changed = differences(self.plan, _found(call, feed, pipeline.digest if pipeline else ""))
        if changed:
            raise PlanRefused(
                "the plan does not fit this training:" + "".join(f"\n    {c}" for c in changed),
                "the training it was made for",
                "run 'uncork tune' again to make a plan for this one",
            )
        check(call.model, self.plan.step_edits)
        for loader_edit in self.plan.loader_edits:
            check_loader(feed.x, loader_edit)
            _check_whole_epochs(feed)
        if any(isinstance(edit, PyFunctionCache) for edit in self.plan.pipeline_edits):
            _check_whole_epochs(feed)
        enough_memory(self.plan)
        if pipeline is None or not self.plan.pipeline_edits:
            return call.arguments["x"]
        edited = Version(pipeline).with_pipeline_edits(self.plan.pipeline_edits).pipeline
        assert edited is not None
        return continued(edited).dataset

    def _step_as_graph(self, call: LoopCall | StepCall, code: CodeType | None) -> None:
        edit = next((e for e in self.plan.step_edits if isinstance(e, TfFunction)), None)
        if edit is None or self._step_met or call.index != self.plan.before.workload.index:
            return
        self.met = self._step_met = True
        step = eager_step(code, functools.partial(self._op_by_op, call.at))
        if step is None:
            self._op_by_op(call.at, NO_FUNCTION)
        else:
            step.expects, step.mode = edit.code, Mode.GRAPH

    def _op_by_op(self, at: str, why: str) -> None:
        if self.strict:
            raise PlanRefused(
                f"the step of {at} cannot run as a graph: {why}",
                "the step that the plan was made for",
                "run 'uncork tune' again to make a plan for this one",
            )
        sys.stderr.write(f"uncork: the step of {at} goes on op by op: {why}\n")

    def _refuse(self, refusal: EditRefused | PlanRefused, at: str) -> None:
        if self.strict:
            raise PlanRefused(refusal.received, refusal.expected, refusal.remedy) from refusal
        sys.stderr.write(f"uncork: {at} trains as written, without the plan: {refusal}\n")


def _check_whole_epochs(feed: Feed) -> None:
    if feed.steps_per_epoch is not None:
        raise EditRefused(
            f"fit is given steps_per_epoch={feed.steps_per_epoch}",
            "epochs that begin where the data does",
            "leave it out, or tune with it",
        )


def _found(call: FitCall, feed: Feed, pipeline: str) -> Workload:
    return Workload(
        index=call.index,
        at=call.at,
        kind="fit",
        data=feed.kind,
        model=signature(call.model),
        element_spec=feed.spec,
        batch_size=None,
        steps_per_epoch=call.arguments.get("steps_per_epoch"),
        steps_given=call.arguments.get("steps_per_epoch") is not None,
        epochs=1,
        pipeline=pipeline,
        batch_hooks=batch_hooks(call.arguments.get("callbacks")),
    )
