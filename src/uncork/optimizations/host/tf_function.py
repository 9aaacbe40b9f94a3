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

from uncork.core.edits.step import TfFunction
from uncork.optimizations.base.preconditions import unknown_length_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

_SOURCES: Final = {
    "fit": "model.compile(...)  # without run_eagerly=True",
    "custom_loop": "@tf.function\ndef train_step(...):",
}
# Of what is lost between ops, the least part that a prediction leaves: a graph has a price too.
_LEAST_LEFT: Final = 0.01


def _refusal(context: Context) -> str:
    work = context.workload
    if not work.is_eager_step:
        return "the step is compiled already"
    if work.is_fit_in_loop:
        return "fit is called for a few steps at a time, and traces anew each time"
    if work.is_distributed:
        return "not tried under a tf.distribute strategy yet"
    if work.tf_function_refusal:
        return f"the step cannot become a graph: {work.tf_function_refusal}"
    return ""


@final
class TfFunctionOptimization(Optimization):
    """Trace the step once, and let TensorFlow run its ops."""

    name = "tf_function"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (_refusal, unknown_length_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """A graph, where Python between the ops takes a part of the step."""
        work = context.workload
        lost = context.diagnosis.breakdown.get("host", 0.0)
        return Proposal(
            edits=(
                TfFunction(
                    code_digest=work.step_code_digest, number_arguments=work.number_arguments
                ),
            ),
            predicted=1 / max(_LEAST_LEFT, 1 - lost),
            at=work.step_setup_at or work.at,
            rationale="Python runs the step once, and TensorFlow runs its ops from then on",
            source_edit=_SOURCES[work.kind],
        )
