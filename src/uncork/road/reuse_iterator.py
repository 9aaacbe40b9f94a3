"""Keep what ``fit``, ``evaluate`` and ``predict`` read arrays through, from call to call.

Legal because the model's own functions get the same batches, cut from the arrays as Keras cuts
them, in the order in which it shuffles them; callbacks, metrics and histories stay Keras's. What is
left out is the pipeline that each of these calls makes and throws away. Only arrays, and only calls
of a few batches: a longer one is read ahead of its steps by the pipeline that it makes.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.edit import ReuseIterator
from uncork.core.machine import Machine
from uncork.core.plan import Policy
from uncork.road.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    no_step_edit,
    not_worth,
)

# Of what a call takes beyond its steps, the part that is the pipeline's making.
_SPARED: Final = 0.95


@final
class KeepIterator(Optimization):
    """One iterator for many calls."""

    name = "reuse_iterator"
    stage = "host"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Where ``fit`` is called for a few steps at a time, on arrays."""
        del machine, policy
        work = diagnosis.workload
        if not work.called_in_loop:
            return Skipped(reason="fit is not called for a few steps at a time")
        forbidden = no_step_edit(diagnosis)
        if forbidden:
            return forbidden
        if work.data != "numpy":
            return Skipped(reason=f"fit is given a {work.data}, not arrays")
        if work.steps_given:
            return Skipped(reason="fit is given steps_per_epoch: its epochs share an iterator")
        predicted = diagnosis.without_host(_SPARED)
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        return Proposal(
            edits=(ReuseIterator(),),
            predicted=predicted,
            at=work.at,
            why="no pipeline is made for each call of fit",
            source_edit="train_on_batch, test_on_batch and predict_on_batch, in a loop of your own",
        )
