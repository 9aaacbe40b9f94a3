"""A listener that names all training calls: ``uncork diagnose --list``."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from uncork.capture.base.listener import FitCall, LoopCall, StepCall
from uncork.capture.base.stop import StopScript
from uncork.capture.hooks.dataset_arguments import replace_datasets
from uncork.core.base.machine import Machine
from uncork.core.documents.job import JobResult
from uncork.engine.subject.subject import Subject
from uncork.engine.subject.workload_summary import (
    summarize_fit,
    summarize_loop,
    summarize_step_loop,
)
from uncork.engine.worker.job_listener import JobListener
from uncork.measure.machine.devices import detect_machine as this_machine

# A loop whose steps are skipped has little else to do.
_LONGEST_S: Final = 20.0
_ONE_STEP: Final = {
    "epochs": 1,
    "initial_epoch": 0,
    "steps_per_epoch": 1,
    "validation_steps": 1,
    "validation_freq": 1,
    "callbacks": None,
    "verbose": 0,
}


class ListListener(JobListener):
    """Cut every training call short, name them all."""

    def run_on(self, subject: Subject, machine: Machine) -> JobResult:
        """Never reached: no call is meant."""
        raise NotImplementedError

    def finish(self, *, interrupted: bool = False) -> None:
        """What was reached is the result."""
        del interrupted
        self.result = JobResult(
            machine=this_machine(), reached_workloads=tuple(self.reached_workloads)
        )

    def fit(self, call: FitCall) -> Any:
        """One step of it, so that what follows finds a trained model and its history."""
        self._is_target(summarize_fit(call))
        return call.original(**{**call.arguments, **_ONE_STEP})

    def loop(self, call: LoopCall, first: Iterator[Any]) -> Iterator[Any]:
        """No further step of it."""
        del first
        self._is_target(summarize_loop(call, epochs=1))
        return iter(())

    def step_loop(self, call: StepCall) -> Callable[[StepCall], Any] | None:
        """No further step of it; of a whole epoch, the first step."""
        self._is_target(summarize_step_loop(call, epochs=1))
        return SkippedStep()


class SkippedStep:
    """Stands in for a step that is not to run: the loop gets the last result again and again.

    One that waits for its loss to fall would do so for ever: after a while the script is stopped.
    """

    def __init__(self) -> None:
        self._results: list[Any] = []  # one, which may well be None
        self._until = math.inf

    def __call__(self, call: StepCall) -> Any:
        """The first call is made."""
        if time.monotonic() > self._until:
            raise StopScript
        if not self._results:
            args, kwargs = replace_datasets(call.args, call.kwargs, lambda data: data.take(1))
            self._results.append(call.original(*args, **kwargs))
            self._until = time.monotonic() + _LONGEST_S
        return self._results[0]
