"""A training in a process that was started otherwise: is it the same training, and how fast?"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.documents.job import MAX_FIRST_EPOCH_S, JobResult, ProcessJob, ProcessTrial
from uncork.core.documents.plan import Plan
from uncork.core.edits.edit import KeepFreedMemory
from uncork.engine.subject.subject import Subject
from uncork.engine.worker.confirm_job import VersionListener
from uncork.measure.benchmark.interleave import measure_blocks_interleaved, summarize
from uncork.measure.benchmark.peak_memory import measure_peak_memory
from uncork.pipeline.analysis.reductions import has_threaded_reductions
from uncork.verify.provers.handover import Handover

_BLOCK_S: Final = 1.0
_BLOCKS: Final = 4
_OTHER_SUMS: Final = "the input pipeline sums numbers, and one thread sums them in another order"


class ProcessListener(VersionListener):
    """Acts on the training that a plan was made for, in a process that was started as it says."""

    job: ProcessJob

    def run_on(self, subject: Subject, machine: Machine) -> JobResult:
        """Prove first, from the state that was handed over; then time the plan, its caches full."""
        version = self.version_of(subject)
        assert self.plan is not None
        handed = Handover.read(Path(self.job.handover_path))
        proved = subject.original if _is_beneath_all(self.plan) else version
        with measure_peak_memory() as peak:
            proof = subject.prove_in_other_process(proved, handed)
            data = subject.original.pipeline
            if self.plan.intra_op_threads and data is not None and has_threaded_reductions(data):
                proof = replace(proof, passed=False, detail=_OTHER_SUMS)
            runner = subject.runner(version)
            runner.first_epoch(MAX_FIRST_EPOCH_S)
            runner.prime()
            (blocks,) = measure_blocks_interleaved([runner], block_s=_BLOCK_S, rounds=_BLOCKS)
        found = summarize(blocks)
        trial = ProcessTrial(measurement=found, proof=proof, peak_memory_bytes=peak.total_bytes)
        return JobResult(machine=machine, process_trial=trial)


def _is_beneath_all(plan: Plan) -> bool:
    """What is tried is the same for each kernel, and is asked of the training as it is written.

    What the plan makes of that, in another precision say, was proved without it.
    """
    return any(isinstance(edit, KeepFreedMemory) for edit in plan.accepted_steps[-1].edits)
