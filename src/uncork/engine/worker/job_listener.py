"""What acts on one training call of a script, and ends the script once something was found."""

from __future__ import annotations

import dataclasses
import functools
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

import tensorflow as tf

from uncork.capture.base.listener import FitCall, LoopCall, PassThroughListener, StepCall
from uncork.capture.base.stop import StopScript
from uncork.capture.hooks.dataset_arguments import find_datasets
from uncork.capture.sandbox.file_backup import FileBackup
from uncork.core.base.errors import NothingToMeasure
from uncork.core.base.journal import Journal
from uncork.core.base.machine import Machine
from uncork.core.base.record import replace, to_json, write_atomically
from uncork.core.documents.job import Job, JobResult
from uncork.core.documents.plan import Plan
from uncork.core.documents.workload import Workload
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.fit.repeated_fit import (
    MIN_LOOP_CALLS,
    FitCallCounter,
    RepeatedFitSubject,
    has_array_data,
    has_few_steps,
)
from uncork.engine.loop.dataset_loop_subject import DatasetLoopSubject
from uncork.engine.loop.epoch_function_subject import EpochFunctionSubject, single_dataset_of
from uncork.engine.loop.loop_driver import run_engine_thread
from uncork.engine.loop.step_arguments import arguments_of
from uncork.engine.loop.step_lookup import find_step_around, intercept_eager_step
from uncork.engine.loop.step_loop_subject import StepLoopSubject
from uncork.engine.process.cluster_guard import refuse_cluster
from uncork.engine.process.reached_trainings import does_real_work
from uncork.engine.subject.subject import Subject
from uncork.engine.subject.workload_summary import (
    summarize_fit,
    summarize_loop,
    summarize_step_loop,
)
from uncork.engine.tune.memory_model import is_out_of_memory, out_of_memory_message
from uncork.measure.machine.devices import cluster_process_count
from uncork.measure.machine.devices import detect_machine as this_machine
from uncork.pycode.frames.enclosing_loops import (
    LoopExitDetector,
    count_passes,
    is_recreated_each_pass,
)
from uncork.training.input.generator_stream import share_generator
from uncork.training.loop_step.eager_step import EagerStep

_ITERATORS: Final = (tf.data.Iterator, tf.distribute.DistributedIterator)


class JobListener(PassThroughListener):
    """Finds the training call that is meant, works on it, ends the script.

    Args:
        job: What to do.
        journal: Told of everything.
        scratch: Directory for files that a trial would otherwise write into the user's.
        plan: To put in force; None for the script as it is.

    Attributes:
        result: None until the work is done.
        own_files: Those of the script's own that it overwrites meanwhile.
        current_location: ``file.py:line`` of the training that is looked at; ``""`` before.
    """

    wants_source_lines = True
    # Of many small calls of ``fit`` on anything but arrays there is none to run otherwise.
    accepts_any_loop = False

    def __init__(self, job: Job, journal: Journal, scratch: str, plan: Plan | None = None) -> None:
        self.job = job
        self.journal = journal
        self.scratch = scratch
        self.plan = plan
        self.reached_workloads: list[Workload] = []
        self.result: JobResult | None = None
        self.own_files: FileBackup | None = None
        self.current_location = ""
        self._working = False
        self._loop: DatasetLoopSubject | StepLoopSubject | None = None
        # Where a loop is whose step will be taken over at its next call.
        self._claimed = ""
        self._lines: LoopExitDetector | None = None
        self._calls = FitCallCounter()
        self._notes: list[str] = []

    @abstractmethod
    def run_on(self, subject: Subject, machine: Machine) -> JobResult:
        """Act on the training call."""

    def fit(self, call: FitCall) -> Any:
        """Work on the ``fit`` that is meant; let earlier ones happen."""
        self._stop_behind(sys._getframe())
        if self._working and self._loop is None:  # a callback's own, which is tried by now
            return call.original(**call.arguments)
        subject, arguments = None, share_generator(call.arguments)
        source = arguments["x"] if arguments is not call.arguments else None
        try:
            brief, read = summarize_fit(call), dataclasses.replace(call, arguments=dict(arguments))
            subject = self._subject(read, brief) if self._loop is None else None
            if subject is None:
                return call.original(**call.arguments)
            self._work(subject)
        except tf.errors.OpError:
            if source is None or source.has_ended is None:
                raise
            raise source.has_ended from None
        finally:
            if subject is not None:
                subject.restore()
        raise StopScript

    def _subject(self, call: FitCall, brief: Workload) -> FitSubject | None:
        meant = self._is_target(brief)
        if self._may_be_a_loop(call) and has_few_steps(brief):
            if self._calls.count_call(call.index, call.model):
                return RepeatedFitSubject(call, self.scratch)
            comes = count_passes(sys._getframe(), own_loop_count=0)
            many = self._calls.has_many_models(call.index)
            if (comes is None or comes >= MIN_LOOP_CALLS) and not many:
                return None  # let it happen, and come again
        if meant:
            subject = FitSubject(
                call.model,
                call.arguments,
                call.index,
                call.at,
                self.scratch,
                step_at=call.step_setup_at,
                policy_at=call.policy_at,
            )
            subject.ends_process, subject.layers, subject.startup_lines = (
                True,
                call.layers,
                call.startup_lines,
            )
            return subject
        return None

    def _may_be_a_loop(self, call: FitCall) -> bool:
        """Many small calls of ``fit`` are one training, unless somebody asked for a single one."""
        if self.job.training_index is None:
            return self.accepts_any_loop or has_array_data(call)
        return self.job.is_fit_in_loop and call.index == self.job.training_index

    def loop(self, call: LoopCall, first: Iterator[Any]) -> Iterator[Any]:
        """Take over the custom loop that is meant; let others go on."""
        epochs = count_passes(sys._getframe())
        brief = summarize_loop(call, epochs)
        meant = self._is_target(brief)
        self._stop_behind(sys._getframe())
        if self._loop is not None:
            if call.index != self._loop.workload.index:
                return first
            # It was left and entered again: the work on it goes on.
            self._loop.driver.resume(call.evidence.steps_seen)
            return self._loop.driver
        if not meant:
            return first
        anew = is_recreated_each_pass(sys._getframe())
        subject = self._loop = DatasetLoopSubject(
            call, epochs=epochs, scratch=self.scratch, recreates_dataset=anew
        )
        self._ends_with_its_loop(call, sys._getframe())
        return run_engine_thread(lambda: self._work(subject), subject.driver, StopScript())

    def step_loop(self, call: StepCall) -> Callable[[StepCall], Any] | None:
        """Take over the loop that is meant at its step; let others go on."""
        epochs = count_passes(sys._getframe())
        brief = summarize_step_loop(call, epochs)
        self._stop_behind(sys._getframe())
        if self._loop is not None or self._claimed or not self._is_target(brief):
            return None
        if any(isinstance(each, _ITERATORS) for each in arguments_of(call)):
            raise NothingToMeasure(
                f"the function called at {call.at} receives an iterator, and reads from it itself",
                "a step that receives its batch, or a function that receives the dataset",
                "call it with next(iterator), or loop over the dataset in it",
            )
        if find_datasets(call.args, call.kwargs):
            if single_dataset_of(call) is None or tf.distribute.has_strategy():
                raise NothingToMeasure(
                    f"the datasets of the function called at {call.at} cannot be replaced",
                    "one dataset among its arguments, and no tf.distribute strategy",
                    "train on one dataset, and validate in another function; or choose another "
                    "training: uncork diagnose --list",
                )
            epochs = count_passes(sys._getframe(), own_loop_count=0)
            self._work(EpochFunctionSubject(call, epochs=epochs, scratch=self.scratch))
            raise StopScript
        step = intercept_eager_step(find_step_around(sys._getframe())) if call.is_eager else None
        if step is None:
            self._ends_with_its_loop(call, sys._getframe())
            return self._stepping(StepLoopSubject(call, epochs=epochs)).step
        self._claimed = call.at
        step.call_handler = functools.partial(self._begin, call, step, epochs)
        return None  # from its next call on, the step itself is what is called

    def _begin(
        self, call: StepCall, step: EagerStep, epochs: int | None, args: Any, kwargs: Any
    ) -> Any:
        """Take over a loop at a call of its eager step."""
        first = dataclasses.replace(call, args=args, kwargs=kwargs, original=step.run)

        def stepping() -> Any:
            self._ends_with_its_loop(call, sys._getframe())
            subject = self._stepping(StepLoopSubject(first, epochs=epochs, step=step))
            step.call_handler = functools.partial(_stepped, first, subject)
            return subject.step(first)

        return call.run_guarded(stepping)

    def _stepping(self, subject: StepLoopSubject) -> StepLoopSubject:
        self._loop = subject
        run_engine_thread(lambda: self._work(subject), subject.driver, StopScript())
        return subject

    def _ends_with_its_loop(self, call: LoopCall | StepCall, frame: FrameType) -> None:
        """Behind it, what the script writes would be made of weights that trials have moved."""
        self._lines = lines = LoopExitDetector(frame)

        def at_write() -> None:
            if self.result is None and lines.has_exited(sys._getframe()):
                self._stop_writing()
                call.run_guarded(_stop)

        if self.own_files is not None:
            self.own_files.on_write = at_write

    def _stop_behind(self, frame: FrameType) -> None:
        """Another training begins behind the loop: it would be waited for, and be one of trials."""
        lines = self._lines
        if (
            self.result is None
            and lines is not None
            and lines.is_entered_once
            and lines.has_exited(frame)
        ):
            self._stop_writing()
            raise StopScript

    def _stop_writing(self) -> None:
        """From here on: once a stop is on its way, ``finally`` blocks may write."""
        if self.own_files is not None:
            self.own_files.on_write = lambda: None

    def finish(self, *, interrupted: bool = False) -> None:
        """The script has ended; what was found until then counts.

        Args:
            interrupted: By the user; otherwise by itself.

        Raises:
            NothingToMeasure: Its loop ended by itself, too early.
        """
        self._stop_writing()  # what the script writes from now on, it writes by itself
        if self._loop is not None:
            self._loop.driver.abandon(StopScript())
        found = None if self.result else self.partial_result(interrupted=interrupted)
        if found is not None:
            self._finish_with(found)
        at = self._loop.workload.at if self._loop is not None else self._claimed
        if self.result is None and at:
            raise NothingToMeasure(
                f"the loop at {at} ended before it was measured",
                "a loop that reads batches as long as there are some, for a minute or two",
                "let it run longer: remove its 'break', or increase its number of steps or epochs",
            )

    def fail(self, **of_its_run: tuple[str, ...]) -> None:
        """The script has raised; what was found until then is not lost.

        Args:
            of_its_run: Fields of the result that tell of the script's own saves and files.
        """
        found = None if self.result else self.partial_result(interrupted=True)
        if found is not None:
            found = replace(found, is_interrupted=False, has_script_failed=True, **of_its_run)
            self._write(self._complete(found))

    def partial_result(self, *, interrupted: bool) -> JobResult | None:
        """What was found so far, if that is of any use.

        Args:
            interrupted: By the user; otherwise the script has ended by itself.
        """
        del interrupted
        return None

    def _work(self, subject: Subject) -> None:
        self._notes, self.current_location = subject.notes, subject.workload.at
        if self.own_files is not None:
            self.own_files.is_in_trials = True
        machine = this_machine()
        self._working = True
        try:
            found = self.run_on(subject, machine)
        except Exception as error:
            if not is_out_of_memory(error) or self.partial_result(interrupted=False) is not None:
                raise
            # In parts, too: there was less room than it seemed, and more of them may do.
            said = (
                f"the training at {subject.workload.at} runs out of memory: "
                f"{out_of_memory_message(error)}"
            )
            found = JobResult(machine=machine, out_of_memory_error=said)
        finally:
            self._working = False
        self.current_location = ""
        self._finish_with(found)

    def _finish_with(self, found: JobResult) -> None:
        """On disk before the script is stopped: one that will not be is ended from outside."""
        self.result = self._complete(found)
        self._write(self.result)
        self._stop_writing()

    def _write(self, found: JobResult) -> None:
        if self.job.result_path is not None:
            with suppress(OSError):
                write_atomically(Path(self.job.result_path), to_json(found))

    def _complete(self, found: JobResult) -> JobResult:
        return replace(
            found,
            reached_workloads=tuple(self.reached_workloads),
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def _is_target(self, brief: Workload) -> bool:
        known = [w.index for w in self.reached_workloads]
        if brief.index not in known:
            self.reached_workloads.append(brief)
        named = self.job.training_index
        meant = does_real_work(brief) if named is None else brief.index == named
        if meant:
            refuse_cluster(f"the training at {brief.at}", cluster_process_count())
        return meant


def _stepped(first: StepCall, subject: StepLoopSubject, args: Any, kwargs: Any) -> Any:
    call = dataclasses.replace(first, args=args, kwargs=kwargs)
    return first.run_guarded(lambda: subject.step(call))


def _stop() -> None:
    raise StopScript
