"""A plan in the words of the script, as far as they say the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from uncork.codemod.plan.compile_options import MODEL_SETTING_NOTE, write_steps_per_execution
from uncork.codemod.plan.dataset_end import write_autotune_off, write_prefetch
from uncork.codemod.plan.function_options import (
    write_jit_compile,
    write_jit_compile_off,
    write_reduce_retracing,
)
from uncork.codemod.plan.mixed_precision import write_mixed_precision
from uncork.codemod.plan.process_settings import write_intra_op_threads, write_keep_freed_memory
from uncork.codemod.plan.stage_calls import (
    write_cache,
    write_less_ahead,
    write_parallel_map,
    write_shuffle_first,
)
from uncork.codemod.syntax.changes import Change, Changes, Insertion, apply_changes
from uncork.codemod.syntax.patch import OmittedChange, Patch
from uncork.codemod.syntax.script_tree import ScriptTree
from uncork.core.base.errors import EditRefused
from uncork.core.documents.plan import Plan, PlanStep
from uncork.core.edits.edit import Edit, IntraOpThreads, KeepFreedMemory
from uncork.core.edits.pipeline import (
    AutotuneOff,
    Cache,
    LessAhead,
    ParallelMap,
    Prefetch,
    ShuffleFirst,
    StageEdit,
)
from uncork.core.edits.step import (
    DtypePolicy,
    JitCompile,
    JitCompileOff,
    ReduceRetracing,
    StepsPerExecution,
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
}
STAGE_WRITERS: Final[dict[type[Any], Callable[..., Changes]]] = {
    Cache: write_cache,
    LessAhead: write_less_ahead,
    ParallelMap: write_parallel_map,
    ShuffleFirst: write_shuffle_first,
}


@dataclass
class _Stages:
    """The stages as the edits so far have left them; what stands where in the script.

    Attributes:
        known: Those that the script makes, None for a new one, in the order of their numbers.
        lost_to: The step from which on nobody knows that order; ``""`` where all is known.
    """

    known: list[Stage | None]
    lost_to: str = ""

    def of(self, edit: StageEdit) -> Stage:
        """The stage that an edit is for.

        Raises:
            EditRefused: No line of the script's made it.
        """
        if self.lost_to:
            raise EditRefused(
                f"it changes a stage that {self.lost_to} creates, and no line of the script is "
                "known for that stage"
            )
        stage = self.known[edit.stage] if edit.stage < len(self.known) else None
        moves = isinstance(edit, ShuffleFirst)
        if stage is None or (moves and None in self.known):
            raise EditRefused("no line of the script creates the stage that it changes")
        return stage

    def after(self, edit: Edit, name: str) -> None:
        """What an edit that was written leaves."""
        if isinstance(edit, Cache):
            self.known.insert(edit.stage + 1, None)
        elif isinstance(edit, ShuffleFirst):
            self.lost_to = name


def build_plan_patch(plan: Plan, text: bytes, path: str) -> Patch:
    """The script with what of a plan can be written there.

    Args:
        plan: Made for exactly this text.
        text: Of the script.
        path: Where it lies.

    Raises:
        WrongUse: It is no Python that can be read.
    """
    source = ScriptTree(text, path)
    stages = _Stages(list(plan.before.stages))
    changes: list[Change | Insertion] = []
    said, unsaid, notes = [], [], []
    for step in plan.accepted_steps:
        try:
            changes += _written(source, plan, step, stages)
        except EditRefused as refusal:
            unsaid.append(OmittedChange(name=step.name, reason=refusal.received))
            if any(isinstance(edit, StageEdit) for edit in step.edits):
                stages.lost_to = stages.lost_to or step.name
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
        after=apply_changes(source, changes) if changes else text,
        included=tuple(said),
        omitted=tuple(unsaid),
        notes=tuple(notes),
    )


def _written(
    source: ScriptTree, plan: Plan, step: PlanStep, stages: _Stages
) -> list[Change | Insertion]:
    """All edits of a step, or none: half of one is another one, which nobody has proved."""
    found: list[Change | Insertion] = []
    trial = _Stages(list(stages.known), stages.lost_to)
    for edit in step.edits:
        if isinstance(edit, StageEdit) and type(edit) in STAGE_WRITERS:
            stage = trial.of(edit)
            found += STAGE_WRITERS[type(edit)](source, plan, edit, stage)
        elif type(edit) in WRITERS:
            found += WRITERS[type(edit)](source, plan, edit)
        else:
            raise EditRefused(_by_hand(step))
        trial.after(edit, step.name)
    stages.known, stages.lost_to = trial.known, trial.lost_to
    return found


def _by_hand(step: PlanStep) -> str:
    """What is not written may have words all the same."""
    if not step.source_edit:
        return "a script cannot express it"
    lines = " ".join(line.strip() for line in step.source_edit.splitlines())
    return f"Uncork does not write this one; by hand, for example: {lines}"
