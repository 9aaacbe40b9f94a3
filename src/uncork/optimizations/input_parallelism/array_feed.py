"""Cut the batches of arrays in the thread that reads them, without tf.data's autotuner.

For ``fit(x, y)`` Keras makes a tf.data pipeline whose last map gathers the rows of a batch, on
several threads, as many as the autotuner finds. A gather of a batch takes microseconds, and handing
it over takes longer; so it is left to the one thread that prepares batches ahead of the training.

Legal because the pipeline is Keras's own, with its draws: of it, one map that draws nothing runs in
another thread, and an option is off that decides how many threads there are.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.edit import ArrayFeed
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

# Of what the steps of ten small trainings waited for, a third to all was spared.
_SPARED: Final = 0.5
_SOURCE: Final = """options = tf.data.Options()
options.autotune.enabled = False
dataset = (
    tf.data.Dataset.range(len(x)).shuffle(len(x)).batch(batch_size)
    .map(lambda rows: (tf.gather(x, rows), tf.gather(y, rows)), synchronous=True)
    .prefetch(2).with_options(options)
)"""


def _refusal(context: Context) -> str:
    work = context.workload
    if work.kind != "fit" or work.data_kind != "numpy":
        return f"fed by {work.data_kind}, not by arrays that fit is given"
    if work.is_fit_in_loop:
        return "fit is called for a few steps at a time: see reuse_iterator"
    if work.is_distributed:
        return "a tf.distribute strategy makes another pipeline of the arrays"
    return ""


@final
class ArrayFeedOptimization(Optimization):
    """Keras's own pipeline of arrays, on fewer threads."""

    name = "array_feed"
    stage = "input"
    guarantee = "exact"
    preconditions = (_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Where a ``fit`` of many steps is given arrays, and waits for them."""
        return Proposal(
            edits=(ArrayFeed(),),
            predicted=context.diagnosis.speedup_without_input_wait(_SPARED),
            at=context.workload.at,
            rationale="batches of the arrays are cut without handing them from thread to thread",
            source_edit=_SOURCE,
            prerequisite=_first(context),
        )


def _first(context: Context) -> str:
    """Where Python between the steps takes longer than their wait, it hides what is gained."""
    shares = context.diagnosis.breakdown
    return "steps_per_execution" if shares.get("host", 0.0) > shares.get("input", 0.0) else ""
