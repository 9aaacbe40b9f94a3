"""Call the Python functions of a map once for each thing they are asked, and keep their answers.

Legal as ``exact`` only where every such function was seen to depend on what it is asked alone: to
change nothing that it can get at, to draw nothing, to print and write nothing. In force, all that
it can get at is digested before its answers are handed out again; where anything of it has changed,
they are made anew.

Where that makes epochs very short, the autotuner goes with it, as with ``cache``.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import PyFunctionCache
from uncork.core.evidence.stage import Stage
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

_SOURCE: Final = """\
@functools.cache
def function(path):      # py_function hands over tensors: unpack them before, path.numpy()
    ..."""


@final
class PyFunctionCacheOptimization(Optimization):
    """Keep what the Python functions of a map answer."""

    name = "py_function_cache"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The map that is predicted to win most, where all its answers fit the memory budget."""
        skipped = pipeline_refusal(diagnosis) or _skipped(diagnosis)
        if skipped:
            return skipped
        room = policy.memory_share * diagnosis.memory_available_bytes
        asked = [s for s in diagnosis.stages if s.kind == "map" and s.memoization is not None]
        fitting = [s for s in asked if _bytes(s) <= room]
        if not asked:
            return Skipped(
                reason="no map calls Python that was seen to answer the same in every epoch"
            )
        if not fitting:
            smallest = min(map(_bytes, asked))
            return Skipped(
                reason=f"needs {smallest / 1e9:.1f} GB of memory, the budget is {room / 1e9:.1f} GB"
            )
        costs = attribute_costs(diagnosis, machine.cpus)
        best = max(fitting, key=lambda s: predict_gain(costs, costs.with_memoized_stage(s.index)))
        predicted = predict_gain(costs, costs.with_memoized_stage(best.index))
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        assert best.memoization is not None
        keep = PyFunctionCache(
            stage=best.index,
            expected_digest=diagnosis.workload.pipeline_digest,
            size_bytes=best.memoization.total_bytes,
            code_digest=best.memoization.code_digest,
        )
        quiet = can_stop_autotuner(diagnosis, costs.with_memoized_stage(best.index))
        return Proposal(
            edits=(keep, *(autotune_off_edits(diagnosis, expects="") if quiet else ())),
            predicted=predicted,
            at=best.python_code_at or best.at,
            rationale=(
                f"what the Python code of {best.name or 'the map'} answers is kept in "
                f"{best.memoization.total_bytes / 1e9:.3g} GB of memory"
            ),
            source_edit=_SOURCE,
        )


def _skipped(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    if diagnosis.workload.has_explicit_steps:
        return Skipped(reason="with steps_per_epoch an epoch need not begin where the data does")
    return single_pass_refusal(diagnosis)


def _bytes(stage: Stage) -> int:
    return stage.memoization.total_bytes if stage.memoization else 0
