"""Run a training step that runs op by op as a ``tf.function``.

Legal because the graph holds the very ops that the step ran, in an order that keeps every effect on
variables; TensorFlow may fuse some of them, and then the last bits differ: kept as ``rounding`` or
not at all, whichever the proof says. What Python does beside those ops happens only while the graph
is made. So the step is watched: one that prints, writes, draws or changes anything in Python, or
returns what is no tensor, is left alone. What it reads in Python is compared before each call, and
where that has changed, it runs op by op once, is watched, and traced anew.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.documents.workload import Workload
from uncork.core.edits.step import TfFunction
from uncork.optimizations.base.preconditions import ends_unknown
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

_SOURCES: Final = {
    "fit": "model.compile(...)  # without run_eagerly=True",
    "custom_loop": "@tf.function\ndef train_step(...):",
}
# Of what is lost between ops, the least part that a prediction leaves: a graph has a price too.
_LEAST_LEFT: Final = 0.01


@final
class GraphStep(Optimization):
    """Trace the step once, and let TensorFlow run its ops."""

    name = "tf_function"
    stage = "host"
    guarantee = "exact"
    at_worst = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """A graph, where Python between the ops takes a part of the step."""
        work = diagnosis.workload
        forbidden = _forbidden(work) or ends_unknown(work)
        if forbidden:
            return forbidden
        lost = diagnosis.breakdown.get("host", 0.0)
        predicted = 1 / max(_LEAST_LEFT, 1 - lost)
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        return Proposal(
            edits=(TfFunction(code=work.step_code, numbers=work.numbers),),
            predicted=predicted,
            at=work.step_at or work.at,
            why="Python runs the step once, and TensorFlow runs its ops from then on",
            source_edit=_SOURCES[work.kind],
        )


def _forbidden(work: Workload) -> Skipped | None:
    if not work.eager_step:
        return Skipped(reason="the step is compiled already")
    if work.called_in_loop:
        return Skipped(reason="fit is called for a few steps at a time, and traces anew each time")
    if work.distributed:
        return Skipped(reason="not tried under a tf.distribute strategy yet")
    if work.not_traceable:
        return Skipped(reason=f"the step cannot become a graph: {work.not_traceable}")
    return None
