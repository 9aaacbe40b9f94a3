"""Run ``tf.map_fn`` on all examples in one call.

``tf.map_fn`` is a loop of the graph: a round of tiny kernels for each example, and another one in
its gradient. ``tf.vectorized_map`` traces the same function once, and replaces each op by one for
all examples. Legal because the function is the user's own, takes one element and does not depend on
others. Where it uses random numbers, writes, checks, branches, loops or has a gradient of its own,
or where an op has no such form, the loop stays. Sums are computed in another order, so it is
``rounding``.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.step import VectorizedMapFn
from uncork.optimizations.base.preconditions import any_step_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

_SOURCE: Final = "tf.vectorized_map(fn, elems)"


@final
class VectorizedMapOptimization(Optimization):
    """Replace ``tf.map_fn`` by ``tf.vectorized_map`` while TensorFlow traces the step."""

    name = "vectorized_map"
    stage = "compile"
    guarantee = "rounding"
    preconditions = (any_step_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it where kernels run in loops of ``tf.map_fn``: one round of many remains."""
        work = context.workload
        parts = [
            part
            for part in context.diagnosis.kernels
            if part.is_map_fn_loop and part.loop_iterations > 1
        ]
        if not parts:
            return Skipped(reason="no kernels run in a loop of tf.map_fn")
        share = sum(p.share * (1 - 1 / p.loop_iterations) for p in parts)
        rounds = max(part.loop_iterations for part in parts)
        at = next((part.at for part in parts if part.phase == "forward" and part.at), None)
        return Proposal(
            edits=(VectorizedMapFn(code_digest=work.step_code_digest),),
            predicted=context.diagnosis.speedup_without_kernels(share),
            at=at or work.step_setup_at or work.step_call_at or work.at,
            rationale=f"the same kernels run once, not in {rounds} rounds of tf.map_fn",
            source_edit=_SOURCE,
        )
