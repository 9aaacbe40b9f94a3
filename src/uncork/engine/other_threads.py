"""A training on other threads: is it the same training, and how fast is it?"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from uncork.core.job import ProcessTrial, Result
from uncork.core.machine import Machine
from uncork.engine.handed_over import HandedOver
from uncork.engine.subject import Subject
from uncork.engine.trials import FIRST_EPOCH_S, Confirming
from uncork.measure import in_turn, summarize

_BLOCK_S: Final = 1.0
_BLOCKS: Final = 4


class OnOtherThreads(Confirming):
    """Acts on the training that a plan was made for, in a process that was started with them."""

    def work(self, subject: Subject, machine: Machine) -> Result:
        """Prove first, from the state that was handed over; then time the plan, its caches full."""
        version = self._version(subject)
        assert self.job.hand_over is not None
        proof = subject.prove_elsewhere(version, HandedOver.read(Path(self.job.hand_over)))
        runner = subject.runner(version)
        runner.first_epoch(FIRST_EPOCH_S)
        runner.prime()
        (blocks,) = in_turn([runner], block_s=_BLOCK_S, rounds=_BLOCKS)
        trial = ProcessTrial(measurement=summarize(blocks), proof=proof)
        return Result(machine=machine, elsewhere=trial)
