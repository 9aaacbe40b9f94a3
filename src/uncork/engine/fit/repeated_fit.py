"""A ``fit`` that the user calls again and again for a few steps: what is lost between calls."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from uncork.capture.base.listener import FitCall
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Guarantee
from uncork.engine.fit.fit_subject import FitSubject
from uncork.measure.benchmark.interleave import Block
from uncork.measure.benchmark.timed_block import time_block
from uncork.training.input.feed import Feed
from uncork.training.input.generator_stream import with_generator_reader
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot
from uncork.training.variant import Variant, VariantRunner
from uncork.verify.provers.keras_calls import RepeatedFit, changes_keras_calls, prove_repeated_fit

# Calls from one line on one model before they are taken for a loop: fitting many small models one
# after the other is none.
MIN_LOOP_CALLS: Final = 4
# Models from which on the calls of one line are trainings of their own.
_MANY_MODELS: Final = 3
# Steps of a call that, standing in a loop, is waited for to come again rather than looked at alone.
_FEW_STEPS: Final = 16
# A trial must not write what the user's callbacks write; validating is no training.
_BARE: Final = {"callbacks": None, "validation_data": None, "validation_split": 0.0, "verbose": 0}


def has_few_steps(workload: Workload) -> bool:
    """So few that it is worth waiting for more calls, where the call stands in a loop."""
    return (workload.steps_per_epoch or _FEW_STEPS + 1) * workload.epochs <= _FEW_STEPS


def has_array_data(call: FitCall) -> bool:
    """What it is given is cut into batches by Keras."""
    return Feed.from_arguments(call.arguments).kind == "numpy"


class FitCallCounter:
    """How often each small ``fit`` was called on each model."""

    def __init__(self) -> None:
        self._counts: dict[int, WeakKeyDictionary[Any, int]] = {}
        self._models: Counter[int] = Counter()

    def count_call(self, index: int, model: Any) -> bool:
        """Count one more call; whether there were enough of them."""
        counts = self._counts.setdefault(index, WeakKeyDictionary())
        self._models[index] += model not in counts
        counts[model] = counts.get(model, 0) + 1
        return counts[model] >= MIN_LOOP_CALLS

    def has_many_models(self, index: int) -> bool:
        """Each of the calls so far seems to be a training of its own, as of folds."""
        return self._models[index] >= _MANY_MODELS


class _CallRunner(VariantRunner):
    """Calls the user's ``fit`` over and over, on the data of one call."""

    def __init__(
        self,
        call: FitCall,
        settings: StepSettings,
        snapshot: Snapshot,
        workload: Workload,
        rows: Mapping[str, Any],
    ) -> None:
        self._original, self._arguments = call.original, {**call.arguments, **_BARE, **rows}
        self.layers = call.layers
        self._settings = settings
        self._snapshot = snapshot
        self._samples = float(workload.batch_size or 1)
        begun = int(call.arguments.get("initial_epoch") or 0)
        epochs = int(call.arguments.get("epochs") or 1) - begun
        self._steps = (workload.steps_per_epoch or 1) * max(1, epochs)

    def prime(self) -> float:
        begin = time.perf_counter()
        self.block(0.0)
        return time.perf_counter() - begin

    def first_epoch(self, limit_s: float) -> float | None:
        del limit_s
        return None

    def block(self, seconds: float) -> Block:
        self._snapshot.restore_values()
        with self._settings.active():
            return time_block(self._calls(), seconds, self._samples)

    def _calls(self) -> Iterator[int]:
        while True:
            self._original(**with_generator_reader(self._arguments))
            yield self._steps


class RepeatedFitSubject(FitSubject):
    """Many calls of ``fit`` with a few steps in each, seen as one training.

    What a step costs beyond the same step on a resident batch is not waiting for input here: it is
    what ``fit`` does at its start and its end.

    Args:
        call: One of the calls.
        scratch: Directory for files that a trial would otherwise write into the user's.
    """

    loses_time_between_calls = True

    def __init__(self, call: FitCall, scratch: str) -> None:
        arguments: Mapping[str, Any] = call.arguments
        super().__init__(
            call.model,
            arguments,
            call.index,
            call.at,
            scratch,
            step_at=call.step_setup_at,
            policy_at=call.policy_at,
        )
        self._call, self.layers = call, call.layers
        self.workload = replace(self.workload, is_fit_in_loop=True)

    def runner(self, variant: Variant) -> VariantRunner:
        """Calls of ``fit``, one after the other."""
        step = self._settings_for(variant.step_edits)
        return _CallRunner(self._call, step, self.snapshot, self.workload, self._rows())

    def prove_step(self, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """What comes before a step is compared in whole calls, the step itself as any other."""
        if not changes_keras_calls(variant.step_edits):
            return super().prove_step(variant, kind, budget_s)
        called = RepeatedFit(self._call.original, {**self._call.arguments, **_BARE, **self._rows()})
        original, edited = self._settings_for(()), self._settings_for(variant.step_edits)
        try:
            return prove_repeated_fit(called, original, edited, self.snapshot)
        finally:
            self.snapshot.restore()

    def _rows(self) -> dict[str, Any]:
        """Without what is set aside to validate on, which is not trained on."""
        if not self._call.arguments.get("validation_split"):
            return {}
        return {name: getattr(self.feed, name) for name in ("x", "y", "sample_weight")}

    def grouped_runner(self, variant: Variant, resident_s: float) -> VariantRunner | None:
        """There is nothing to group: the time is lost between calls, not between steps."""
        del variant, resident_s
        return None

    def python_s(self, resident_s: float) -> float | None:
        """Part of what is lost between calls."""
        del resident_s
        return None
