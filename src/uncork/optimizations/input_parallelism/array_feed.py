"""Form the batches of arrays in the thread that prefetches them, without tf.data's autotuner.

For ``fit(x, y)`` Keras creates a tf.data pipeline whose last map gathers the rows of a batch, on as
many threads as the autotuner sets. Gathering a batch takes microseconds, and passing it to another
thread takes longer. So the one thread that prefetches batches for the training gathers them, too.

Legal because the pipeline is Keras's own, with its random numbers: one map without random numbers
runs in another thread, and an option is off that sets the number of threads.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.edit import ArrayFeed
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

# Share of the input wait. In ten small trainings a third to all of it was saved.
_SAVED_SHARE: Final = 0.5
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
        return f"the training is fed by {work.data_kind}, not by arrays passed to fit"
    if work.is_fit_in_loop:
        return "each call of fit runs a few steps only: see reuse_iterator"
    if work.is_distributed:
        return "a tf.distribute strategy builds another pipeline from the arrays"
    return ""


@final
class ArrayFeedOptimization(Optimization):
    """Run Keras's own pipeline of arrays on fewer threads."""

    name = "array_feed"
    stage = "input"
    guarantee = "exact"
    preconditions = (_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it for a ``fit`` that reads arrays in many steps, and waits for them."""
        return Proposal(
            edits=(ArrayFeed(),),
            predicted=context.diagnosis.speedup_without_input_wait(_SAVED_SHARE),
            at=context.workload.at,
            rationale="one thread gathers and prefetches the batches of the arrays",
            source_edit=_SOURCE,
            prerequisite=_prerequisite(context),
        )


def _prerequisite(context: Context) -> str:
    """Python between the steps, if it takes longer than the input wait, hides the gain."""
    shares = context.diagnosis.breakdown
    return "steps_per_execution" if shares.get("host", 0.0) > shares.get("input", 0.0) else ""
