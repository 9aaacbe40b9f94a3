"""``uncork diff``: a patch to the script, and whether it does what the plan does."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from uncork.compat.versions import require_tensorflow
from uncork.core.base.errors import OutOfMemory, PatchRefused, PlanRefused, WrongUse
from uncork.core.base.journal import Event
from uncork.core.base.record import Record, digest, replace
from uncork.core.documents.job import CheckJob, JobResult
from uncork.core.documents.plan import Plan
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Edit
from uncork.core.edits.pipeline import AutotuneOff, Prefetch, SplitMap
from uncork.core.edits.step import (
    DtypePolicy,
    JitCompile,
    JitCompileOff,
    ReduceRetracing,
    StepsPerExecution,
    TfFunction,
)
from uncork.engine.process.job_folder import convert_os_errors, temporary_folder, write_plan
from uncork.engine.process.worker_failure import WorkerFailed
from uncork.engine.process.worker_process import EventHandler, Script, run_quiet_worker

if TYPE_CHECKING:
    from uncork.codemod.syntax.patch import Patch


# Of a pass, at most: those of a cache have to be read again to be seen.
_MAX_BATCHES: Final = 100_000
_PASSES: Final = 2
# Fewer say little of what is drawn.
MIN_ELEMENTS: Final = 4
# Of a workload, what tells that the same is trained in the same way; lines move under a patch.
_COMPARED: Final = {
    "kind": "kind of loop",
    "data_kind": "data_kind",
    "element_spec": "batch",
    "steps_per_epoch": "steps of an epoch",
    "pipeline_digest": "input pipeline (its structure and functions)",
    "loader_digest": "code of the loader",
    "model": "model",
    "step_code_digest": "code of the step",
    "is_eager_step": "eager execution",
    "jit_compile": "jit_compile",
    "steps_per_execution": "steps_per_execution",
    "intra_op_threads": "threads within a kernel",
}


class PatchCheck(Record, frozen=True, kw_only=True):
    """What a check of a patch has compared.

    Attributes:
        unseen: Names of the steps of which no more was seen than that the script trains with them.
        batch_count: Batches whose digests are equal, where the pipelines are not the same ops; 0
            where they are.
    """

    unseen: tuple[str, ...] = ()
    batch_count: int = 0


def patch_from_plan(plan: Plan, *, calls_uncork: bool = False) -> Patch:
    """The script of a plan with what of it can be written there.

    Args:
        plan: As ``uncork tune`` wrote it.
        calls_uncork: No function of the script's is cut in two in its source.

    Raises:
        PlanRefused: The script was changed since, or is none.
        WrongUse: It is not there, or LibCST is missing.
    """
    _require_libcst()
    from uncork.codemod.plan.plan_patch import build_plan_patch  # noqa: PLC0415

    if not plan.script_digest:
        raise PlanRefused(
            "the plan was made in a notebook or at a prompt, without a script",
            "a plan that 'uncork tune SCRIPT' wrote",
            "uncork.fit(model, data, plan=plan) applies it",
        )
    text = _read(Path(plan.script), "run the command in the folder where you ran 'uncork tune'")
    if digest(text) != plan.script_digest:
        raise PlanRefused(
            f"{plan.script} has changed since the tuning",
            "the script as it was tuned: the plan refers to its lines",
            f"{shlex.join(['uncork', 'tune', *plan.script_words])} makes a plan for the changed "
            "script",
        )
    return build_plan_patch(plan, text, plan.script, calls_uncork=calls_uncork)


def patch_from_script(path: Path) -> Patch:
    """A script with what takes the place of what Keras 3 no longer has.

    Raises:
        WrongUse: It is not there, is no Python, or LibCST is missing.
    """
    _require_libcst()
    from uncork.codemod.keras3.migration import build_keras3_patch  # noqa: PLC0415

    return build_keras3_patch(_read(path, "check the path"), str(path))


def check_patch(patch: Patch, plan: Plan, script: Script, on_event: EventHandler) -> PatchCheck:
    """Run the script as the plan has it, then the patched one, each in a process of its own.

    Compared is what they train: the pipeline op for op, the model, the settings of the step. Where
    a function was cut between two other ops, the batches are compared instead, with equal seeds.
    Where all of it is equal, and the patch has all steps, what was proved and measured of the plan
    holds for it. Nothing is timed here. The user's file is not touched: the child runs the patched
    text in its place.

    Args:
        patch: Of the plan.
        plan: Of which only the steps that the patch has are put in force.
        script: With its arguments.
        on_event: Called with each event as it happens.

    Raises:
        PatchRefused: Something differs.
        ChildFailed: One of them does not reach its training.
    """
    require_tensorflow()
    said = _only(plan, patch.included)
    work = plan.before.workload
    base = CheckJob(
        training_index=work.index,
        is_fit_in_loop=work.is_fit_in_loop,
        batch_count=_MAX_BATCHES if any(isinstance(e, SplitMap) for e in said.edits) else 0,
    )
    with temporary_folder() as folder:
        planned = write_plan(said, Path(folder, "plan.json"))
        text = Path(folder, "patched.py")
        with convert_os_errors(f"write {text.name}"):
            text.write_bytes(patch.after)
        on_event(Event(kind="phase", text="running the script with the plan, then the patched one"))
        under_plan = replace(base, plan_path=planned, environment=said.environment)
        expected = _trained(under_plan, script, "with the plan active")
        found = _trained(replace(base, source_path=str(text)), script, "with the patch")
    batches = _equal_batches(expected, found)
    differing = tuple(_differences(expected, found, said.edits, has_equal_batches=batches > 0))
    if differing:
        raise PatchRefused(
            "the patched script does not train as the plan does:"
            + "".join(f"\n    {each}" for each in differing),
            "the same pipeline, model and settings",
            "uncork run --plan, which needs no patch; please report this: "
            f"{', '.join(patch.included)}",
        )
    unseen = tuple(
        step.name
        for step in said.accepted_steps
        if any(isinstance(e, ReduceRetracing) for e in step.edits)
    )
    return PatchCheck(unseen=unseen, batch_count=batches)


def _equal_batches(expected: JobResult, found: JobResult) -> int:
    """Batches whose digests are equal; 0 where any differ, where there are none, or no need."""
    ours, theirs = _work(expected), _work(found)
    if ours.pipeline_digest == theirs.pipeline_digest:
        return 0
    digests = expected.batch_digests
    # Either pass may have been cut short, after another number of batches.
    is_equal = digests == found.batch_digests and len(set(digests)) > MIN_ELEMENTS
    return len(digests) - _PASSES if is_equal else 0


def _work(result: JobResult) -> Workload:
    assert result.trained_workload is not None
    return result.trained_workload


def _require_libcst() -> None:
    if importlib.util.find_spec("libcst") is None:
        raise WrongUse(
            f"LibCST is missing in this environment ({sys.prefix}): it rewrites a script and "
            "keeps its "
            "formatting",
            "libcst 1.4 or later",
            "pip install 'uncork[diff]'",
        )


def _read(path: Path, remedy: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WrongUse(
            f"cannot read {path}: {error.strerror}", "a script that exists", remedy
        ) from None


def _only(plan: Plan, names: tuple[str, ...]) -> Plan:
    """The plan with these steps alone; what stands at the end does so whatever is before it."""

    def anywhere(edit: Edit) -> Edit:
        return (
            replace(edit, expected_digest="") if isinstance(edit, Prefetch | AutotuneOff) else edit
        )

    steps = (step for step in plan.accepted_steps if step.name in names)
    return replace(
        plan, steps=tuple(replace(s, edits=tuple(map(anywhere, s.edits))) for s in steps)
    )


def _trained(job: CheckJob, script: Script, how: str) -> JobResult:
    try:
        return run_quiet_worker(job, script)
    except (WorkerFailed, OutOfMemory) as failure:
        raise PatchRefused(
            f"the script did not reach its training {how}: {failure.received}",
            "a script that trains with these arguments",
            f"uncork diff --check plan.json ARGS, with other arguments for {script.path}",
        ) from failure


def _with(work: Workload, edits: tuple[Edit, ...]) -> Workload:
    """What the script's workload is under edits of its step; the pipeline has its own in it."""
    for edit in edits:
        match edit:
            case StepsPerExecution():
                work = replace(work, steps_per_execution=edit.steps)
            case JitCompile():
                work = replace(work, jit_compile=True)
            case JitCompileOff():
                work = replace(work, jit_compile=False)
            case TfFunction():
                work = replace(work, is_eager_step=False)
            case DtypePolicy() if work.model is not None:
                work = replace(work, model=replace(work.model, dtype_policies=(edit.policy,)))
    return work


def _differences(
    expected: JobResult, found: JobResult, edits: tuple[Edit, ...], *, has_equal_batches: bool
) -> Iterator[str]:
    with_plan, with_patch = _with(_work(expected), edits), _work(found)
    if expected.draw_seeds != found.draw_seeds:
        yield "seeds of random ops: others with the patch, so they would draw other numbers"
    for field, words in _COMPARED.items():
        ours, theirs = getattr(with_plan, field), getattr(with_patch, field)
        if field == "pipeline_digest" and has_equal_batches:
            continue
        if field == "model" and ours is not None and ours.dtype_policies == ("mixed_float16",):
            # Keras itself wraps the optimizer of a model that is compiled under this policy.
            ours, theirs = replace(ours, optimizer=""), theirs and replace(theirs, optimizer="")
        if ours != theirs:
            yield f"{words}: {ours} with the plan, {theirs} with the patch"
