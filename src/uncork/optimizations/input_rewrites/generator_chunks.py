"""Take the elements of a Python generator over into TensorFlow many at a time.

``Dataset.from_generator`` calls into the interpreter for every element, some 100 us each. Legal as
``exact`` because the generator yields what it did, in its order, and is asked by the same code; it
is only asked further ahead, so what reads it must read on to its end, or ahead of the training.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.pipeline import GeneratorChunks
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped, best_gain

_SOURCE: Final = (
    "tf.data.Dataset.from_generator(chunks, ...).unbatch()  # chunks: many elements, stacked"
)


@final
class GeneratorChunksOptimization(Optimization):
    """Hand many elements of a Python generator over at once."""

    name = "generator_chunks"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """The generator that is predicted to win most."""
        brief = [s for s in context.stages if s.chunked_cost]
        if not brief:
            return Skipped(reason="no brief generator whose elements could come many at a time")
        costs = context.costs
        best, predicted = best_gain(costs, brief, lambda s: costs.with_chunked_stage(s.index))
        assert best.chunked_cost is not None
        count = best.chunked_cost.max_elements
        return Proposal(
            edits=(
                GeneratorChunks(
                    stage=best.index, expected_digest=context.pipeline_digest, max_elements=count
                ),
            ),
            predicted=predicted,
            at=best.at,
            rationale=(
                f"the interpreter is asked once for {count} elements of the generator, not for each"
            ),
            source_edit=_SOURCE,
        )
