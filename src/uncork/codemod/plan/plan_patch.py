"""A plan in the words of the script, as far as they say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from uncork.codemod.plan.compile_options import MODEL_SETTING_NOTE, write_steps_per_execution
from uncork.codemod.plan.dataset_end import write_autotune_off, write_prefetch
from uncork.codemod.plan.function_options import (
    write_jit_compile,
    write_jit_compile_off,
    write_reduce_retracing,
    write_tf_function,
)
from uncork.codemod.plan.mixed_precision import write_mixed_precision
from uncork.codemod.plan.process_settings import write_intra_op_threads, write_keep_freed_memory
from uncork.codemod.plan.reasons import describe_omission
from uncork.codemod.plan.rewrite_calls import REWRITES, write_rewrite
from uncork.codemod.plan.split_calls import SplitRequest, merge_splits, write_split
from uncork.codemod.plan.stage_calls import (
    write_less_ahead,
    write_parallel_map,
    write_shuffle_first,
)
from uncork.codemod.syntax.changes import Change, Changes, Insertion, apply_changes
from uncork.codemod.syntax.patch import OmittedChange, Patch
from uncork.codemod.syntax.script_tree import ScriptTree
from uncork.core.base.errors import EditRefused
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan, PlanStep
from uncork.core.edits.edit import Edit, IntraOpThreads, KeepFreedMemory, ValidationInput
from uncork.core.edits.pipeline import (
    AutotuneOff,
    Cache,
    GatherLast,
    LessAhead,
    ParallelMap,
    Prefetch,
    ShuffleFirst,
    SplitMap,
    StageEdit,
)
from uncork.core.edits.step import (
    DtypePolicy,
    JitCompile,
    JitCompileOff,
    ReduceRetracing,
    StepsPerExecution,
    TfFunction,
)
from uncork.core.evidence.stage import Stage

# For each edit what writes it; of a stage's edit, what writes it where the stage was made.
WRITERS: Final[dict[type[Any], Callable[..., Changes]]] = {
    AutotuneOff: write_autotune_off,
    DtypePolicy: write_mixed_precision,
    IntraOpThreads: write_intra_op_threads,
    JitCompile: write_jit_compile,
    JitCompileOff: write_jit_compile_off,
    KeepFreedMemory: write_keep_freed_memory,
    Prefetch: write_prefetch,
    ReduceRetracing: write_reduce_retracing,
    StepsPerExecution: write_steps_per_execution,
    TfFunction: write_tf_function,
}
# Of these, what a validation has at the end of its own pipeline.
_END_WRITERS: Final[dict[type[Any], Callable[..., Changes]]] = {
    AutotuneOff: write_autotune_off,
    Prefetch: write_prefetch,
}
STAGE_WRITERS: Final[dict[type[Any], Callable[..., Changes]]] = {
    LessAhead: write_less_ahead,
    ParallelMap: write_parallel_map,
    ShuffleFirst: write_shuffle_first,
}


# Both are of the pipeline's end, wherever it is read.
_AT_THE_END: Final = (AutotuneOff, GatherLast, Prefetch)
# Leave each stage where it was.
_IN_PLACE: Final = (LessAhead, ParallelMap)


@dataclass
class _Stages:
    """The stages as the edits so far have left them; what stands where in the script.

    Attributes:
        known: Those that the script makes, None for a new one, in the order of their numbers.
        lost_to: The step that is not written, so that the numbers after it are others; ``""`` where
            all is known.
    """

    known: list[Stage | None]
    lost_to: str = ""

    def check(self) -> None:
        """Whether numbers of stages are those of the plan.

        Raises:
            EditRefused: They are not.
        """
        if self.lost_to:
            raise EditRefused(
                f"it changes a stage that {self.lost_to} creates, and no line of the script is "
                "known for that stage"
            )

    def of(self, edit: StageEdit) -> Stage | None:
        """The stage that an edit is for; None where no line of the script's made it."""
        return self.known[edit.stage] if edit.stage < len(self.known) else None

    def after(self, edits: Sequence[Any]) -> None:
        """What edits that were written leave."""
        first = edits[0]
        if not isinstance(first, StageEdit) or isinstance(first, _IN_PLACE):
            return
        stage = self.of(first)
        names = [type(edit) for edit in edits]
        moves = bool(stage and stage.cache_point and stage.cache_point.placed_before)
        if names == [Cache] and stage is not None and not moves:
            self.known.insert(first.stage + 1, None)
        else:  # nobody knows which stage is where
            self.known = []


@dataclass
class _Target:
    """A pipeline that edits are written for.

    Attributes:
        plan: With the stages of that pipeline.
        stages: As they are by now.
        is_for_validation: It is that of the validation.
        calls_uncork: No function of the script's is cut in two; Uncork does it at run time.
        notes: What the user should know, by step.
    """

    plan: Plan
    stages: _Stages
    is_for_validation: bool = False
    calls_uncork: bool = False
    notes: list[str] = field(default_factory=list)


def build_plan_patch(plan: Plan, text: bytes, path: str, *, calls_uncork: bool = False) -> Patch:
    """The script with what of a plan can be written there.

    Args:
        plan: Made for exactly this text.
        text: Of the script.
        path: Where it lies.
        calls_uncork: Leave the script's functions whole: where one is to be cut in two, the patched
            script calls ``uncork.rewrite``.

    Raises:
        WrongUse: It is no Python that can be read.
    """
    source = ScriptTree(text, path)
    target = _Target(plan, _Stages(list(plan.before.stages)), calls_uncork=calls_uncork)
    changes: list[Change | Insertion] = []
    said, unsaid, notes = [], [], []
    for step in plan.accepted_steps:
        try:
            changes = merge_splits(changes, _written(source, step, target))
        except EditRefused as refusal:
            unsaid.append(OmittedChange(name=step.name, reason=refusal.received))
            if any(isinstance(edit, StageEdit) for edit in step.edits):
                target.stages.lost_to = target.stages.lost_to or step.name
            continue
        said.append(step.name)
        if any(
            isinstance(edit, StepsPerExecution | JitCompile | JitCompileOff) for edit in step.edits
        ):
            notes.append(f"{step.name}: {MODEL_SETTING_NOTE}")
    if plan.before.workload.kind == "custom_loop":
        notes = []
    return Patch(
        path=path,
        before=text,
        after=apply_changes(source, _once(changes)) if changes else text,
        included=tuple(said),
        omitted=tuple(unsaid),
        notes=(*notes, *target.notes),
    )


def _once(changes: Sequence[Change | Insertion]) -> list[Change | Insertion]:
    """Without an import that is asked for twice."""
    found: list[Change | Insertion] = []
    for change in changes:
        if isinstance(change, Change) or change not in found:
            found.append(change)
    return found


def _written(source: ScriptTree, step: PlanStep, target: _Target) -> list[Change | Insertion]:
    """All edits of a step, or none: half of one is another one, which nobody has proved."""
    found: list[Change | Insertion] = []
    stages, notes = target.stages, target.notes
    trial = _copy_of(target)
    for edits in _grouped(step.edits):
        if isinstance(edits[0], ValidationInput):
            found += _for_validation(source, step, edits[0], trial)
        else:
            found += _edits_written(source, step, edits, trial)
    stages.known, stages.lost_to = trial.stages.known, trial.stages.lost_to
    notes[:] = trial.notes
    return found


def _copy_of(target: _Target) -> _Target:
    """A copy that may be given up."""
    stages = _Stages(list(target.stages.known), target.stages.lost_to)
    return _Target(
        target.plan, stages, target.is_for_validation, target.calls_uncork, list(target.notes)
    )


def _grouped(edits: Sequence[Edit]) -> Iterator[tuple[Any, ...]]:
    """Edits one by one; a cut and the cache of its first part together."""
    waiting = list(edits)
    while waiting:
        first, *waiting = waiting
        after = waiting[0] if waiting else None
        if isinstance(first, SplitMap) and isinstance(after, Cache) and after.stage == first.stage:
            yield first, waiting.pop(0)
        else:
            yield (first,)


def _for_validation(
    source: ScriptTree, step: PlanStep, edit: ValidationInput, target: _Target
) -> list[Change | Insertion]:
    """The same edits for another pipeline, which has its own stages."""
    plan, validation = target.plan, target.plan.before.validation
    stages = validation.feed.stages if validation and validation.feed else ()
    own = replace(plan, before=replace(plan.before, stages=stages))
    inner = _Target(own, _Stages(list(stages)), True, target.calls_uncork, target.notes)
    found: list[Change | Insertion] = []
    for edits in _grouped(edit.edits):
        found += _edits_written(source, step, edits, inner)
    return found


def _edits_written(
    source: ScriptTree, step: PlanStep, edits: tuple[Any, ...], target: _Target
) -> list[Change | Insertion]:
    """Edits of one stage, or one of something else."""
    edit, kind = edits[0], type(edits[0])
    if isinstance(edit, StageEdit):
        target.stages.check()
    if kind in STAGE_WRITERS or kind in (SplitMap, Cache):
        found = _stage_written(source, step, edits, target)
    elif kind in REWRITES:
        stage = target.stages.of(edit) if isinstance(edit, StageEdit) else None
        found = _rewritten(source, step, edits, stage, target, "")
    elif target.is_for_validation and kind in _END_WRITERS:
        found = list(_END_WRITERS[kind](source, target.plan, edit, is_for_validation=True))
    elif kind in WRITERS:
        found = list(WRITERS[kind](source, target.plan, edit))
    else:
        raise EditRefused(describe_omission(step.edits, step.source_edit))
    target.stages.after(edits)
    return found


def _stage_written(
    source: ScriptTree, step: PlanStep, edits: tuple[Any, ...], target: _Target
) -> list[Change | Insertion]:
    """In the script's own words; where these do not say it, as a call of Uncork's."""
    edit = edits[0]
    stage = target.stages.of(edit)
    try:
        if stage is None or (isinstance(edit, ShuffleFirst) and None in target.stages.known):
            raise EditRefused("no line of the script creates the stage that it changes")
        if type(edit) in STAGE_WRITERS:
            return list(STAGE_WRITERS[type(edit)](source, target.plan, edit, stage))
        kinds = {type(each) for each in edits}
        if target.calls_uncork and SplitMap in kinds:
            raise EditRefused("two functions of the script's own would not train the same")
        request = SplitRequest(stage, SplitMap in kinds, Cache in kinds)
        return list(write_split(source, target.plan, request))
    except EditRefused as refusal:
        if type(edit) not in REWRITES:
            raise
        try:
            return _rewritten(source, step, edits, stage, target, refusal.received)
        except EditRefused as other:
            raise (other if stage is None else refusal) from None


def _rewritten(
    source: ScriptTree,
    step: PlanStep,
    edits: tuple[Any, ...],
    stage: Stage | None,
    target: _Target,
    reason: str,
) -> list[Change | Insertion]:
    found = write_rewrite(
        source, target.plan, edits, stage, is_for_validation=target.is_for_validation
    )
    why = reason or "no method of tf.data does the same"
    target.notes.append(
        f"{step.name}: the patched script calls uncork.rewrite, so it needs Uncork to run ({why})"
    )
    return list(found)
