"""Run a Python generator once, and keep what it yields in memory.

Legal as ``exact`` only where it was seen to yield the same each time: to change nothing that it can
get at, to draw nothing, to print and write nothing. In force, all that it can get at is digested
when a pass begins; where anything of it has changed, the generator is run anew.

Where that makes epochs very short, the autotuner goes with it, as with ``cache``.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.cache_candidates import ends
from uncork.core.costmodel.step_cost import gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import GeneratorCache
from uncork.optimizations.base.preconditions import no_pipeline, read_once
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)
from uncork.optimizations.input_parallelism.autotune_off import hushed, without_autotuner

_NOT_ALIKE: Final = "no generator that was seen to yield the same in every epoch"
_NOT_READ: Final = "the training was not seen to read its generator to the end"
_SOURCE: Final = "tf.data.Dataset.from_generator(...).cache()  # before shuffle and augmentation"


@final
class KeepElements(Optimization):
    """Keep what a Python generator yields."""

    name = "generator_cache"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """All elements, where they fit the memory budget; as many as do, where nobody counted."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        once = read_once(diagnosis)
        if once:
            return once
        alike = [s for s in diagnosis.stages if s.kind == "from_generator" and s.keepable]
        kept = [stage for stage in alike if ends(diagnosis, stage)]
        if not kept:
            return Skipped(reason=_NOT_READ if alike else _NOT_ALIKE)
        costs = costs_of(diagnosis, machine.cpus)
        best = max(kept, key=lambda s: gain(costs, costs.kept(s.index)))
        assert best.keepable is not None
        room = policy.memory_share * diagnosis.memory_available_bytes
        needed = best.keepable.bytes or int(room)
        if needed > room:
            return Skipped(
                reason=f"needs {needed / 1e9:.1f} GB of memory, the budget is {room / 1e9:.1f} GB"
            )
        predicted = gain(costs, costs.kept(best.index))
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        keep = GeneratorCache(
            stage=best.index,
            expects=diagnosis.workload.pipeline,
            bytes=needed,
            code=best.keepable.code,
        )
        quiet = hushed(diagnosis, costs.kept(best.index))
        most = "" if best.keepable.bytes else "at most "
        return Proposal(
            edits=(keep, *(without_autotuner(diagnosis, expects="") if quiet else ())),
            predicted=predicted,
            at=best.at,
            why=f"what the generator yields is kept in {most}{needed / 1e9:.3g} GB of memory",
            source_edit=_SOURCE,
        )
