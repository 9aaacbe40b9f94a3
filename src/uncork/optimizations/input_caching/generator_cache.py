"""Run a Python generator once, and keep what it yields in memory.

Legal as ``exact`` only where it was seen to yield the same each time: to change nothing that it can
get at, to draw nothing, to print and write nothing. In force, all that it can get at is digested
when a pass begins; where anything of it has changed, the generator is run anew.

Where that makes epochs very short, the autotuner goes with it, as with ``cache``.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.cache_candidates import is_generator_exhausted
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import GeneratorCache
from uncork.optimizations.base.preconditions import pipeline_refusal, single_pass_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)
from uncork.optimizations.input_parallelism.autotune_off import (
    autotune_off_edits,
    can_stop_autotuner,
)

_NOT_ALIKE: Final = "no generator that was seen to yield the same in every epoch"
_NOT_READ: Final = "the training was not seen to read its generator to the end"
_SOURCE: Final = "tf.data.Dataset.from_generator(...).cache()  # before shuffle and augmentation"


@final
class GeneratorCacheOptimization(Optimization):
    """Keep what a Python generator yields."""

    name = "generator_cache"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """All elements, where they fit the memory budget; as many as do, where nobody counted."""
        missing = pipeline_refusal(diagnosis)
        if missing:
            return missing
        once = single_pass_refusal(diagnosis)
        if once:
            return once
        alike = [s for s in diagnosis.stages if s.kind == "from_generator" and s.memoization]
        kept = [stage for stage in alike if is_generator_exhausted(diagnosis, stage)]
        if not kept:
            return Skipped(reason=_NOT_READ if alike else _NOT_ALIKE)
        costs = attribute_costs(diagnosis, machine.cpus)
        best = max(kept, key=lambda s: predict_gain(costs, costs.with_memoized_stage(s.index)))
        assert best.memoization is not None
        room = policy.memory_share * diagnosis.memory_available_bytes
        needed = best.memoization.total_bytes or int(room)
        if needed > room:
            return Skipped(
                reason=f"needs {needed / 1e9:.1f} GB of memory, the budget is {room / 1e9:.1f} GB"
            )
        predicted = predict_gain(costs, costs.with_memoized_stage(best.index))
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        keep = GeneratorCache(
            stage=best.index,
            expected_digest=diagnosis.workload.pipeline_digest,
            size_bytes=needed,
            code_digest=best.memoization.code_digest,
        )
        quiet = can_stop_autotuner(diagnosis, costs.with_memoized_stage(best.index))
        most = "" if best.memoization.total_bytes else "at most "
        return Proposal(
            edits=(keep, *(autotune_off_edits(diagnosis, expects="") if quiet else ())),
            predicted=predicted,
            at=best.at,
            rationale=f"what the generator yields is kept in {most}{needed / 1e9:.3g} GB of memory",
            source_edit=_SOURCE,
        )
