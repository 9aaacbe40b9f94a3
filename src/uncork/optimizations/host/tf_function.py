"""Run a training step that runs eagerly as a ``tf.function``.

Legal because the graph holds the same ops as the step, in an order that keeps every effect on
variables. TensorFlow may fuse some of them, and then the last bits differ: Uncork accepts it as
``rounding`` or not at all, as the proof decides. Python code besides these ops runs only while
TensorFlow traces the graph. So Uncork observes the step: it does not change one that prints,
writes, uses random numbers or changes anything in Python, or returns anything but tensors. Before
each call it compares what the step reads in Python. If that has changed, the step runs eagerly
once, under observation, and is traced again.
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
# Smallest share of a step that a prediction leaves: a graph has costs, too.
_MIN_REMAINING_SHARE: Final = 0.01


def _refusal(context: Context) -> str:
    work = context.workload
    if not work.is_eager_step:
        return "the step is compiled already"
    if work.is_fit_in_loop:
        return "each call of fit runs a few steps only, and would trace again"
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
        """Propose a graph where Python between the ops takes a part of the step."""
        work = context.workload
        host_share = context.diagnosis.breakdown.get("host", 0.0)
        return Proposal(
            edits=(
                TfFunction(
                    code_digest=work.step_code_digest, number_arguments=work.number_arguments
                ),
            ),
            predicted=1 / max(_MIN_REMAINING_SHARE, 1 - host_share),
            at=work.step_setup_at or work.at,
            rationale="Python runs the step once, and then TensorFlow runs its ops",
            source_edit=_SOURCES[work.kind],
        )
