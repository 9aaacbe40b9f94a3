"""Pass elements of a Python generator to TensorFlow in chunks.

``Dataset.from_generator`` calls the interpreter for every element, about 100 us each. Legal as
``exact`` because the same code reads the same elements from the generator in the same order. It
only reads further ahead, so the pipeline must read the generator to its end, or ahead of the
training.
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
    """Read many elements of a Python generator in one call."""

    name = "generator_chunks"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the generator with the largest predicted gain."""
        generators = [s for s in context.stages if s.chunked_cost]
        if not generators:
            return Skipped(reason="no short generator whose elements could be read in chunks")
        costs = context.costs
        best, predicted = best_gain(costs, generators, lambda s: costs.with_chunked_stage(s.index))
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
                f"TensorFlow calls the interpreter once for {count} elements of the generator, "
                "not for each"
            ),
            source_edit=_SOURCE,
        )
