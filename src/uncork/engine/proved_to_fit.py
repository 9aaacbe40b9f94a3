"""A training that fits into memory in another way: proved against few examples as written."""

from __future__ import annotations

from uncork.core.batch_facts import TooLarge
from uncork.core.edit import loosest
from uncork.core.errors import EditRefused
from uncork.core.journal import Journal
from uncork.core.plan import Policy, Step
from uncork.core.record import replace
from uncork.core.step_edit import StepEdit
from uncork.engine.fit_subject import FitSubject
from uncork.engine.outcomes import record
from uncork.engine.room import given_up
from uncork.road import Proposal
from uncork.road.micro_batches import TrainInParts
from uncork.road.recompute_activations import RunSegmentsAgain


def proved_to_fit(
    subject: FitSubject,
    way: TrainInParts | RunSegmentsAgain,
    found: TooLarge,
    policy: Policy,
    journal: Journal,
) -> Step:
    """Let that be a subject's original, once it is proved to be the same training.

    Args:
        subject: Runs out of memory as written.
        way: In which it does not.
        found: How it fits.
        policy: What may be done.
        journal: Told what is proved.

    Returns:
        The step of the plan that came of it.

    Raises:
        OutOfMemory: It is another training, or one that the policy does not allow.
    """
    proposal = way.of(found, subject.workload)
    assert isinstance(proposal, Proposal)
    subject.needing(tuple(edit for edit in proposal.edits if isinstance(edit, StepEdit)))
    journal.write("phase", f"proving {way.name}: {found.how}, against {found.rows} rows")
    try:
        proof = subject.prove_on_rows(found.rows)
    except EditRefused as refusal:
        raise given_up(found.said, refusal.received) from None
    finally:
        subject.restore()
    if not proof.passed:
        why = f"it is not proved to be the same training {found.how}: {proof.detail}"
        raise given_up(found.said, why)
    if loosest(proof.kind, policy.loosest) != policy.loosest:
        why = f"{found.how} it is {proof.kind}, the policy allows {policy.loosest}"
        raise given_up(found.said, why)
    step = record(way, "kept", proposal.why, proposal, proof)
    return replace(step, guarantee=proof.kind, edits=proposal.edits)
