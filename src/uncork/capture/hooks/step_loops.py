"""Training steps called from a loop of the user's own: ``train_step(x[rows], y[rows])``.

Where batches come from arrays, a generator, several datasets at once or a distributed one, there is
no iterator to stand in for. So the step is watched: a ``tf.function``, or ``train_on_batch``, that
the user's code calls again and again and that moves an optimizer each time. Of a step that runs
eagerly, the optimizer's update is taken for the call. A function that is given a dataset, and lets
an optimizer update, is a whole epoch of steps.

Not seen: loops that call several training steps in turn.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

from uncork.capture.base.listener import CallSites, Listener, StepCall
from uncork.capture.base.stop import ScriptStopper
from uncork.capture.hooks.dataset_arguments import find_datasets
from uncork.capture.hooks.dataset_loops import DatasetLoops
from uncork.capture.hooks.training_evidence import TrainingEvidence, has_trained
from uncork.core.evidence.loop import StartupLine
from uncork.pycode.frames.training_line import stepping_line

# Training steps after which a loop is one; the first of them compiles.
_CERTAIN: Final = 2
# Calls after which a function that is no such step is no longer looked at, which takes time.
_PATIENCE: Final = 64


@dataclass
class _Seen:
    """What is known of a function.

    Attributes:
        calls: How often it was called.
        steps: How many of them trained; not all need to where gradients are accumulated.
        others: Other training steps since its last call.
        start: Lines of the script that took long before its first call.
    """

    calls: int = 0
    steps: int = 0
    others: bool = False
    start: tuple[StartupLine, ...] = ()

    @property
    def promising(self) -> bool:
        """It may still turn out to be a training step."""
        return self.calls < _PATIENCE

    @property
    def is_loop(self) -> bool:
        """It did turn out to be the step of a loop, and the only one."""
        return self.steps >= _CERTAIN and not self.others

    def give_up(self) -> None:
        """It is none, or none that is wanted."""
        self.steps, self.calls = 0, _PATIENCE


class StepLoops:
    """All functions that may be the training step of a loop.

    Args:
        listener: Is told when one is.
        stops: Guards what the listener does.
        sites: Numbers the call sites.
        evidence: Tells whether something was trained.
        loops: Those over datasets, which come first.
    """

    def __init__(
        self,
        listener: Listener,
        stops: ScriptStopper,
        sites: CallSites,
        evidence: TrainingEvidence,
        loops: DatasetLoops,
    ) -> None:
        self._listener = listener
        self._stops = stops
        self._sites = sites
        self._evidence = evidence
        self._loops = loops
        self._open = listener.wants_loops
        self._seen: WeakKeyDictionary[Any, _Seen] = WeakKeyDictionary()
        self._taken: dict[int, int] = {}
        self._inside = threading.local()
        self._step: Any = None
        self._instead: Callable[[StepCall], Any] | None = None

    def discard_candidates(self) -> None:
        """What was called so far belongs to a loop over a dataset."""
        for seen in self._seen.values():
            seen.give_up()

    def is_candidate(self, step: Any) -> bool:
        """Whether a call of this function is of interest; asked before each, so it is quick."""
        if getattr(self._inside, "step", False):
            return False
        if step is self._step:
            return True
        if not self._open:
            return False
        seen = self._seen.get(step)
        return seen is None or seen.promising

    def run_call(
        self,
        step: Any,
        frame: FrameType,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        is_eager: bool = False,
    ) -> Any:
        """In the place of a call: look at what it does, or hand it over.

        Args:
            step: The function, the model whose ``train_on_batch`` it is, or the optimizer.
            frame: That calls it.
            original: The step itself.
            args: Of the call.
            kwargs: Of the call, by name.
            is_eager: It is the update of an optimizer, called op by op.
        """
        at = stepping_line(frame)
        if at is None:
            return original(*args, **kwargs)
        with self._within():
            if step is not self._step:
                seen = self._seen.get(step)
                if seen is None:
                    seen = self._seen[step] = _Seen(
                        start=self._evidence.startup_times.current_lines()
                    )
                    self._evidence.restart_code_lookup()
                given = seen.calls == 0 and find_datasets(args, kwargs)
                if given and not self._runs_python() and self._traces(step, args, kwargs):
                    seen.steps = _CERTAIN  # no epoch need pass before it is looked at
                if not seen.is_loop:
                    return self._looked_at(step, seen, functools.partial(original, *args, **kwargs))
            evidence, guarded = self._evidence, self._stops.run_guarded
            call = StepCall(
                *(self._sites.index(at), at, args, kwargs, original),
                step=step,
                is_eager=is_eager,
                eager_at=evidence.eager_at if is_eager else None,
                run_guarded=guarded,
                layers=evidence.layers,
                policy_at=evidence.policy_at,
                startup_lines=self._seen[step].start if step in self._seen else (),
            )
            return guarded(lambda: self._handed_over(step, call))

    @staticmethod
    def _runs_python() -> bool:
        """The script has functions run op by op: tracing one would run its Python once more."""
        from tensorflow import config  # noqa: PLC0415 - long imported by now

        return bool(config.functions_run_eagerly())

    def _traces(self, step: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether an optimizer is told to update in a function that is given a dataset."""
        before = self._evidence.traced_updates
        with suppress(Exception):  # what it raises, its call will raise
            step.get_concrete_function(*args, **kwargs)
        return self._evidence.traced_updates > before

    @contextmanager
    def _within(self) -> Iterator[None]:
        """What a step calls is part of it."""
        self._inside.step = True
        try:
            yield
        finally:
            self._inside.step = False

    def _handed_over(self, step: Any, call: StepCall) -> Any:
        if self._instead is None:
            self._seen[step].give_up()
            self._evidence.startup_times.stop()
            self._instead = self._listener.step_loop(call)
            if self._instead is None:
                return call.original(*call.args, **call.kwargs)
            self._step, self._open = step, False
            self._loops.close()
        return self._instead(call)

    def _looked_at(self, step: Any, seen: _Seen, run: Callable[[], Any]) -> Any:
        seen.calls += 1
        taken, self._taken = self._taken, self._loops.element_counts()
        fed_by = sum(count > taken.get(watch, 0) for watch, count in self._taken.items())
        before = self._evidence.counts()
        found = run()
        is_step = has_trained(before, self._evidence.counts())
        if is_step:
            for other, its in list(self._seen.items()):
                its.others = its.others or other is not step
        if fed_by == 1:  # a dataset advances with the step: its loop will be recognised as such
            seen.steps = 0
        elif is_step:
            seen.steps += 1
        seen.others = False
        return found
