"""``uncork run``: the script runs whole, with a plan in force, or aloud without it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from uncork.capture import FitCall, LoopCall, PassThrough
from uncork.core.edit import PyFunctionCache, TfFunction
from uncork.core.errors import EditRefused, PlanRefused
from uncork.core.plan import Plan
from uncork.core.workload import Workload
from uncork.engine.eager_steps import NO_FUNCTION, eager_step_of
from uncork.engine.fitting import differences
from uncork.engine.pipelines import enough_memory
from uncork.engine.subject import Version
from uncork.pipeline import continued, read
from uncork.step import (
    Feed,
    Mode,
    apply,
    as_written,
    batch_hooks,
    check,
    check_loader,
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
        except (EditRefused, PlanRefused) as refusal:
            self._refuse(refusal, call.at)
            return call.original(**call.arguments)
        with (
            loader_edited(arguments["x"], self.plan.loader_edits),
            as_written(call.model) as saving,
        ):
            apply(call.model, self.plan.step_edits)
            with saving:
                return call.original(**arguments)

    def loop(self, call: LoopCall, first: Iterator[Any]) -> Iterator[Any]:
        """Let the loop's step run as a graph where the plan says so; the loop itself goes on."""
        edit = next((e for e in self.plan.step_edits if isinstance(e, TfFunction)), None)
        meant = call.index == self.plan.before.workload.index
        if edit is not None and meant and not self._step_met:
            self.met = self._step_met = True
            try:
                self._step_as_graph(call, edit)
            except EditRefused as refusal:
                self._refuse(refusal, call.at)
        return first

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

    def _step_as_graph(self, call: LoopCall, edit: TfFunction) -> None:
        if not call.evidence.eager_step:
            raise EditRefused("its step is compiled already", "one that runs op by op", "keep it")
        step = eager_step_of(call, lambda why: _told_so(call.at, why))
        if step is None:
            raise EditRefused(NO_FUNCTION, "a function that holds the tape", "tune again")
        found = step.code_now()
        if found != edit.code:
            step.give_back()
            raise EditRefused(
                "the code of its step is another one",
                "the code that the plan was made for",
                "run 'uncork tune' again to make a plan for this one",
            )
        step.mode = Mode.GRAPH

    def _refuse(self, refusal: EditRefused | PlanRefused, at: str) -> None:
        if self.strict:
            raise PlanRefused(refusal.received, refusal.expected, refusal.remedy) from refusal
        sys.stderr.write(f"uncork: {at} trains as written, without the plan: {refusal}\n")


def _told_so(at: str, why: str) -> None:
    sys.stderr.write(f"uncork: the step of {at} goes on op by op: {why}\n")


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
