"""Run ``tf.map_fn`` over all examples at once.

``tf.map_fn`` is a loop of the graph: a round of tiny kernels for each example, and another one in
its gradient. ``tf.vectorized_map`` traces the same function once, and puts one op for all examples
in the place of each. Legal because the function is the user's own, takes one element and knows of
no other: where it draws, writes, checks, branches, loops or has a gradient of its own, or where an
op has no such form, the loop stays. Sums are made in another order, so it is ``rounding``.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import MapsAtOnce
from uncork.optimizations.base.preconditions import no_function_edit, no_step_edit
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

_SOURCE: Final = "tf.vectorized_map(fn, elems)"


@final
class MapAtOnce(Optimization):
    """Answer ``tf.map_fn`` by ``tf.vectorized_map``, while the step is traced."""

    name = "vectorized_map"
    stage = "compile"
    guarantee = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Where kernels stand in loops of ``tf.map_fn``: of their rounds, one is left."""
        work = diagnosis.workload
        in_loop = work.kind == "custom_loop"
        forbidden = no_function_edit(diagnosis) if in_loop else no_step_edit(diagnosis)
        if forbidden:
            return forbidden
        parts = [part for part in diagnosis.kernels if part.of_map and part.rounds > 1]
        if not parts:
            return Skipped(reason="no kernels were seen in a loop of tf.map_fn")
        possible = diagnosis.without_kernels(sum(p.share * (1 - 1 / p.rounds) for p in parts))
        if possible < WORTH_TRYING:
            return not_worth(possible)
        rounds = max(part.rounds for part in parts)
        at = next((part.at for part in parts if part.phase == "forward" and part.at), None)
        return Proposal(
            edits=(MapsAtOnce(code=work.step_code),),
            predicted=possible,
            at=at or work.step_at or work.called_at or work.at,
            why=f"the same kernels once, not in {rounds} rounds of tf.map_fn",
            source_edit=_SOURCE,
        )
