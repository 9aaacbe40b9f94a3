"""The checkpoints of a ``fit`` under examination: what they take, as written and beside it."""

from __future__ import annotations

import math
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from uncork.core.documents.plan import Proof
from uncork.core.edits.step import StepsPerExecution
from uncork.core.evidence.callbacks import CheckpointCost
from uncork.engine.fit.primed_runner import PrimedRunner
from uncork.engine.process.scratch_folders import temporary_folder_at
from uncork.measure.benchmark.interleave import Block
from uncork.measure.benchmark.quiesce import wait_until_idle
from uncork.pycode.frames.value_origin import find_only_call
from uncork.training.callbacks.async_checkpoint import (
    BackgroundWriter,
    find_async_checkpoints,
    has_own_save,
    keras_saver,
    waiting_callback_name,
)
from uncork.training.callbacks.checkpoint_copy import CheckpointCopy, CopyBuffers
from uncork.training.callbacks.checkpoint_diff import checkpoint_difference
from uncork.training.state.snapshot import read_weights
from uncork.training.variant import VariantRunner

# Saves that are timed after the first, which finds code and memory cold; none after a long one.
_SAVES: Final = 3
_LOOK_S: Final = 1.0
# Of a save, what a trial's steps behind it last at least: time for a busy machine to write.
_ROOM: Final = 1.5
# A save and its steps are run a dozen times in a trial; what takes longer is not tried.
_LONGEST_S: Final = 8.0
# Times what is saved, that the disk must have room for: two files, and one that is not whole yet.
_FREE: Final = 4
# Steps before the first save, and saves that are compared; the second overwrites the first.
_WARM: Final = 2
_PROVED: Final = 2


class CheckpointTrial:
    """Saves the model of one ``fit`` as its callbacks would, into a folder that is removed.

    That folder lies where theirs do, so that it is the same disk. None of them is called.

    Args:
        callbacks: As given to ``fit``.
        model: Built and compiled.
        distributed: It runs under a ``tf.distribute`` strategy.
        scratch: Folder of this process's own.

    Attributes:
        steps_per_save: Steps behind each save that is tried; from :meth:`measure`.
    """

    def __init__(self, callbacks: Any, model: Any, *, distributed: bool, scratch: str) -> None:
        self.steps_per_save, self._scratch = 1, scratch
        self._model = model
        self._callbacks = find_async_checkpoints(callbacks)
        self._waits = waiting_callback_name(callbacks)
        self._distributed = distributed
        self._disk = _disk_of(self._callbacks)
        self._buffers = [CopyBuffers() for _ in self._callbacks]

    def measure(self, steps_per_epoch: int | None, step_s: float) -> CheckpointCost | None:
        """What a save takes; None where none is made, nobody knows when, or not to a disk here.

        Args:
            steps_per_epoch: None where that is not known.
            step_s: Of a step as it runs.

        Raises:
            OSError: The disk does not take it.
        """
        often = {callback.save_freq for callback in self._callbacks}
        every = min((steps_per_epoch if o == "epoch" else o) or 0 for o in often) if often else 0
        if not every or self._disk is None:
            return None
        copying_s, taken = self._copying()
        self.release_memory()
        if shutil.disk_usage(self._disk).free < _FREE * taken:
            return None
        wall_s, cpu_s = self._seconds()
        self.steps_per_save = min(every, math.ceil(_ROOM * wall_s / step_s))
        return CheckpointCost(
            name=" and ".join(type(callback).__name__ for callback in self._callbacks),
            save_s=wall_s,
            save_cpu_s=cpu_s,
            copy_s=copying_s,
            copy_bytes=taken,
            every_steps=every,
            trial_steps=self.steps_per_save,
            is_save_best_only=any(callback.save_best_only for callback in self._callbacks),
            refusal_reason=self._refused(len(often), wall_s + self.steps_per_save * step_s),
            at=find_only_call(type(self._callbacks[0]).__name__),
        )

    def runner(self, steps: PrimedRunner, *, is_async: bool) -> VariantRunner:
        """A save and :attr:`is_async` steps behind it, again and again.

        Args:
            steps: On the training's own input.
            is_async: A thread writes.
        """
        return _SavingRunner(self, steps, self._executions(steps), beside=is_async)

    def prove(self, steps: PrimedRunner) -> Proof:
        """Save both ways at one moment, and train on while a thread writes one of them.

        Args:
            steps: On batches from memory.
        """
        steps.prime()
        executions = self._executions(steps)
        as_written, _ = self._trained(steps, executions, None)
        with self.save_folder() as folder:
            beside, differs = self._trained(steps, executions, folder)
        what = f"{_PROVED * len(self._callbacks)} checkpoints, each with {executions} executions "
        if differs:
            return Proof(kind="exact", passed=False, detail=f"{what}asynchronously: {differs}")
        if _equal(as_written, beside):
            detail = (
                f"{what}asynchronously, contain what Keras writes; weights are equal bit for bit"
            )
            return Proof(kind="exact", passed=True, detail=detail)
        again, _ = self._trained(steps, executions, None)
        if _equal(as_written, again):
            return Proof(
                kind="exact", passed=False, detail="the training ends with different weights"
            )
        detail = (
            f"{what}asynchronously, contain what Keras writes; copying changes no weight, and two "
            "runs of the original training differ, too"
        )
        return Proof(kind="exact", passed=True, detail=detail)

    def release_memory(self) -> None:
        """The memory of copies is free again."""
        self._buffers = [CopyBuffers() for _ in self._callbacks]

    @contextmanager
    def save_folder(self) -> Iterator[Path]:
        """Where to save, on the disk of the checkpoints; removed at the end."""
        assert self._disk is not None
        with temporary_folder_at(self._disk, self._scratch) as found:
            yield found

    def save(self, folder: Path) -> None:
        """As Keras does, one after the other."""
        for number, callback in enumerate(self._callbacks):
            keras_saver(callback)(self._model, str(_file(folder, number, callback)))

    @contextmanager
    def async_saving(self, folder: Path) -> Iterator[Callable[[], None]]:
        """Let threads write to a folder; gives what begins that, and waits for it at the end."""
        writing = [BackgroundWriter() for _ in self._callbacks]

        def begin() -> None:
            for number, callback in enumerate(self._callbacks):
                writing[number].wait()
                copied = self._copied(callback, self._buffers[number])
                writing[number].start(copied, _file(folder, number, callback))

        try:
            yield begin
        finally:
            for each in writing:
                each.wait()

    def _copied(self, callback: Any, buffers: CopyBuffers) -> CheckpointCopy:
        only, save = callback.save_weights_only, keras_saver(callback)
        return CheckpointCopy(self._model, save, weights_only=only, buffers=buffers)

    def _copying(self) -> tuple[float, int]:
        """Seconds of it, where it was done before, and bytes."""
        for _ in range(2):
            begin = time.perf_counter()
            pairs = zip(self._callbacks, self._buffers, strict=True)
            taken = sum(self._copied(callback, buffers).size_bytes for callback, buffers in pairs)
            copying_s = time.perf_counter() - begin
        return copying_s, taken

    def _seconds(self) -> tuple[float, float]:
        """Of a save and the CPU in it, the median of some."""
        taken: list[tuple[float, float]] = []
        with self.save_folder() as folder:
            while len(taken) <= _SAVES and sum(wall_s for wall_s, _ in taken) < _LOOK_S:
                begin, cpu = time.perf_counter(), time.process_time()
                self.save(folder)
                taken.append((time.perf_counter() - begin, time.process_time() - cpu))
        warm = taken[1:] or taken
        return statistics.median(w for w, _ in warm), statistics.median(c for _, c in warm)

    def _refused(self, frequencies: int, part_s: float) -> str:
        if self._distributed:
            return "it runs under a tf.distribute strategy"
        if has_own_save(self._model):
            return "the model overrides save, which may read the file"
        if frequencies > 1:
            return "several callbacks save, each at different times"
        if self._waits:
            return (
                f"'{self._waits}' may read the file before it is complete; if it acts at "
                "the end of an epoch only, put it before the checkpoint in the list"
            )
        if part_s > _LONGEST_S:
            return f"a save and the steps to write it in take {part_s:.0f} s, too long for trials"
        return ""

    def _executions(self, steps: PrimedRunner) -> int:
        settings = steps.runner.settings
        chained = [edit.steps for edit in settings.edits if isinstance(edit, StepsPerExecution)]
        in_one = max(chained, default=int(settings.model.steps_per_execution))
        return max(1, math.ceil(self.steps_per_save / in_one))

    def _trained(
        self, steps: PrimedRunner, executions: int, folder: Path | None
    ) -> tuple[list[Any], str]:
        """Weights that some steps lead to, from the same start; and what differs in two files."""
        differs = ""
        with closing(steps.runner.execution_times(is_primed=False)) as times:
            _run(times, _WARM)
            for _ in range(_PROVED):
                if folder is None:
                    _run(times, executions)
                else:
                    differs = self._difference(folder, times, executions) or differs
            return read_weights(self._model), differs

    def _difference(self, folder: Path, times: Iterator[float], executions: int) -> str:
        """Between what Keras saves now, and what a thread writes of now while it trains on."""
        written, beside = folder / "original", folder / "beside"
        for place in (written, beside):
            place.mkdir(exist_ok=True)
        self.save(written)
        before = read_weights(self._model)
        with self.async_saving(beside) as begin:
            begin()
            changed = not _equal(before, read_weights(self._model))
            _run(times, executions)
        if changed:
            return "copying changes the weights"
        for number, callback in enumerate(self._callbacks):
            pair = [_file(place, number, callback) for place in (written, beside)]
            found = checkpoint_difference(*pair)
            if found:
                return f"the file differs in {found}"
        return ""


class _SavingRunner(VariantRunner):
    """Saves with steps between them, one way or the other."""

    def __init__(
        self, saved: CheckpointTrial, steps: PrimedRunner, executions: int, *, beside: bool
    ) -> None:
        self._saved = saved
        self._steps = steps
        self._executions = executions
        self._beside = beside

    def prime(self) -> float:
        """Compile, and save once; seconds it took."""
        begin = time.perf_counter()
        self._steps.prime()
        self.block(0.0)
        return time.perf_counter() - begin

    def first_epoch(self, limit_s: float) -> float | None:
        """Not known: no whole one is run."""
        del limit_s
        return None

    def block(self, seconds: float) -> Block:
        """Time saves and their steps for about ``seconds``, until the last file is complete."""
        wait_until_idle()
        started = time.perf_counter()
        with (
            self._saved.save_folder() as folder,
            closing(self._steps.runner.execution_times(is_primed=False)) as times,
        ):
            _run(times, _WARM)
            cpu, begin, saves = time.process_time(), time.perf_counter(), 0
            while not saves or time.perf_counter() - begin < seconds:
                self._save_and_train(folder, times)
                saves += 1
            wall_s, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
        steps = saves * self._executions
        return Block(
            steps=steps,
            samples=steps * self._steps.runner.samples_per_step,
            wall_s=wall_s,
            cpu_s=cpu_s,
            warmup_s=begin - started,
        )

    def _save_and_train(self, folder: Path, times: Iterator[float]) -> None:
        if not self._beside:
            self._saved.save(folder)
            _run(times, self._executions)
            return
        with self._saved.async_saving(folder) as begin:
            begin()
            _run(times, self._executions)


def _run(times: Iterator[float], executions: int) -> None:
    for _ in range(executions):
        next(times)


def _file(folder: Path, number: int, callback: Any) -> Path:
    return folder / f"{number}{'.weights.h5' if callback.save_weights_only else '.keras'}"


def _disk_of(callbacks: Sequence[Any]) -> Path | None:
    """A folder that exists where these save; None where they do not save to one disk, here."""
    found = [_nearest(callback.filepath) for callback in callbacks]
    folders = [folder for folder in found if folder is not None]
    disks = {folder.stat().st_dev for folder in folders}
    return folders[0] if len(disks) == 1 and len(folders) == len(found) else None


def _nearest(path: str) -> Path | None:
    """The folder of a file as far as it exists; parts of its name may be filled in later."""
    if "://" in path:
        return None
    folder = Path.cwd().joinpath(path.partition("{")[0] + "_").parent
    while not folder.is_dir():
        folder = folder.parent
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def _equal(one: list[Any], other: list[Any]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
