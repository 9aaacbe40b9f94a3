"""Try another backend of Keras's in a process of its own, once the road has been walked."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from uncork.core.edit import StepEdit, loosest
from uncork.core.errors import UncorkError
from uncork.core.job import BackendTrial, Job
from uncork.core.journal import Event
from uncork.core.plan import NO_TIME, OutcomeName, Plan, Ratio, Step, dump
from uncork.core.record import replace
from uncork.engine.outcomes import sentence
from uncork.engine.processes import ChildFailed, Follow, Script, run_child
from uncork.road import Proposal, Skipped
from uncork.road.keras_backend import AnotherBackend

# Ratio. Two processes differ by themselves, and a backend is not changed for a trifle.
_WORTH: Final = 1.15
# Of TensorFlow's, what no other backend of Keras's has, or gives something else for.
_OF_TENSORFLOW: Final = frozenset({
    "GradientTape", "function", "Variable", "saved_model", "distribute", "train", "summary",
    "compat", "config", "lite", "profiler", "Module", "py_function",
})  # fmt: skip
_OPTIMIZATION: Final = AnotherBackend()


def with_backend(plan: Plan, handed_over: str | None, script: Script, follow: Follow) -> Plan:
    """The plan with what came of it, and in force if it is faster than all that is in force now.

    Args:
        plan: As the road was walked, not confirmed yet.
        handed_over: File that the tuning left for the trial; None where it left none.
        script: What to run.
        follow: Told of each outcome.

    Raises:
        KeyboardInterrupt: In the middle of it.
    """
    step = _tried(plan, handed_over, script, follow)
    follow(Event(kind="phase", text=sentence(step)))
    if step.outcome != "kept":
        return replace(plan, steps=(*plan.steps, step))
    return _in_force(plan, step)


def _tried(plan: Plan, handed_over: str | None, script: Script, follow: Follow) -> Step:
    proposal = _OPTIMIZATION.propose(plan.after or plan.before, plan.machine, plan.policy)
    if loosest(_OPTIMIZATION.guarantee, plan.policy.loosest) != plan.policy.loosest:
        allowed = f"promises {_OPTIMIZATION.guarantee}; the policy allows {plan.policy.loosest}"
        proposal = Skipped(reason=allowed)
    if isinstance(proposal, Skipped):
        return _step("skipped", proposal.reason)
    reason = written_for_tensorflow(Path(script.path))
    if reason or handed_over is None:
        return _step("skipped", reason or NO_TIME)
    follow(Event(kind="phase", text=f"trying {_OPTIMIZATION.name}: {proposal.why}"))
    made = _in_force(plan, _step("kept", proposal.why, proposal))
    with tempfile.TemporaryDirectory(prefix="uncork-") as folder:
        path = Path(folder, "plan.json")
        path.write_bytes(dump(made))
        job = Job(
            mode="backend",
            training=plan.before.workload.index,
            plan=str(path),
            environment=made.environment,
            hand_over=handed_over,
        )
        try:
            found = run_child(job, script, lambda event: None, quiet=True)
        except (ChildFailed, UncorkError) as error:
            return _step("rejected", f"it does not run there: {error.received}", proposal)
    if found.interrupted:
        raise KeyboardInterrupt
    assert found.backend is not None
    return _judged(plan, found.backend, proposal)


def _judged(plan: Plan, trial: BackendTrial, proposal: Proposal) -> Step:
    """Against what is in force so far, which was measured in another process."""
    ours, theirs = plan.tuned.blocks, trial.measurement.blocks
    ratio = Ratio(
        ratio=trial.measurement.samples_per_s / plan.tuned.samples_per_s,
        low=min(theirs) / max(ours),
        high=max(theirs) / min(ours),
    )
    if ratio.low < _WORTH:
        reason = f"not faster by {_WORTH}x or more: {ratio.ratio:.2f}x"
        return replace(_step("rejected", reason, proposal), measured=ratio)
    if not trial.proof.passed:
        reason = f"not proven: {trial.proof.detail}"
        failed = replace(_step("rejected", reason, proposal), measured=ratio)
        return replace(failed, proof=trial.proof)
    return replace(
        _step("kept", proposal.why, proposal),
        measured=ratio,
        proof=trial.proof,
        samples_per_s=trial.measurement.samples_per_s,
    )


def _in_force(plan: Plan, step: Step) -> Plan:
    """With the backend in force, and without the steps that are for TensorFlow's training step."""
    steps = tuple(_given_up(each) for each in plan.steps)
    tuned = plan.tuned
    if step.samples_per_s:
        tuned = replace(tuned, samples_per_s=step.samples_per_s)
    return replace(plan, steps=(*steps, step), tuned=tuned, after=None)


def _given_up(step: Step) -> Step:
    if not any(isinstance(edit, StepEdit) for edit in step.edits):
        return step
    reason = f"kept, until {_OPTIMIZATION.name} was faster: it is for TensorFlow's step"
    return replace(step, outcome="rejected", reason=reason, edits=(), samples_per_s=None)


def _step(outcome: OutcomeName, reason: str, proposal: Proposal | None = None) -> Step:
    return Step(
        name=_OPTIMIZATION.name,
        stage=_OPTIMIZATION.stage,
        outcome=outcome,
        reason=reason,
        guarantee=_OPTIMIZATION.guarantee,
        at=proposal.at if proposal else None,
        edits=proposal.edits if proposal and outcome == "kept" else (),
        source_edit=proposal.source_edit if proposal else "",
    )


def written_for_tensorflow(script: Path) -> str:
    """Why a script is left where it is: part of a sentence; empty where nothing speaks against it.

    Data may come from ``tf.data``, and ``tf.image`` may work on it. What comes after the training
    is not tried, so whatever may fail there is looked for here, in the script and in the modules
    beside it. And all that is trained would be trained elsewhere, not only what was looked at.
    """
    trainings = 0
    for path in dict.fromkeys(_files(script)):
        with suppress(OSError, SyntaxError, ValueError):
            for node in ast.walk(ast.parse(path.read_bytes())):
                found = _asked(node)
                if found:
                    return f"{path.name}:{node.lineno} uses {found}"  # type: ignore[attr-defined]
                trainings += _trains(node)
    if trainings <= 1:
        return ""
    return f"the script calls fit in {trainings} places, of which one was looked at"


def _trains(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="fit" | "train_on_batch")):
            return True
    return False


def _asked(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Attribute(attr="numpy"), args=[]):
            return ".numpy(), which another backend's arrays do not have"
        case ast.Call(func=ast.Attribute(attr="export")):
            return ".export(), which writes a graph of TensorFlow's"
        case ast.Attribute(value=ast.Name(id="tf" | "tensorflow"), attr=attr) if (
            attr in _OF_TENSORFLOW
        ):
            return f"tf.{attr}"
        case ast.Constant(value="KERAS_BACKEND" | "TF_USE_LEGACY_KERAS" as name):
            return f"{name}: it chooses for itself"
    return ""


def _files(script: Path) -> Iterator[Path]:
    """The script, and the modules beside it that it imports."""
    yield script
    with suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(script.read_bytes())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            for name in names:
                beside = script.parent / f"{name.partition('.')[0]}.py"
                if beside.exists():
                    yield beside
