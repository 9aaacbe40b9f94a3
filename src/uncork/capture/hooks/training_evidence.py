"""Signs that something is being trained, counted as the script runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import CodeType
from typing import Any, Final, NamedTuple
from weakref import WeakSet

from uncork.compat.keras3.optimizer import step_counter
from uncork.measure.profile.startup_sampler import StartupSampler
from uncork.pycode.frames.layer_registry import LayerRegistry
from uncork.pycode.frames.stack import function_location

# Looks at who computes gradients eagerly, each of which takes time, for one training.
_LOOKS: Final = 64


class TrainingCounts(NamedTuple):
    """How often something happened so far.

    Attributes:
        eager_gradients: Calls of ``GradientTape.gradient`` that computed something.
        traced_gradients: The same while a function was being traced.
        train_on_batch_calls: Calls of ``train_on_batch``.
        fit_calls: Calls of ``fit``, which are training calls of their own.
        updates: Updates made by all of Keras's optimizers that are alive.
    """

    eager_gradients: int
    traced_gradients: int
    train_on_batch_calls: int
    fit_calls: int
    updates: int

    def since(self, before: TrainingCounts) -> TrainingCounts:
        """What happened in between."""
        return TrainingCounts(*(now - then for now, then in zip(self, before, strict=True)))

    @property
    def gradients(self) -> int:
        """All calls of ``GradientTape.gradient``."""
        return self.eager_gradients + self.traced_gradients


def has_trained(before: TrainingCounts, now: TrainingCounts) -> bool:
    """Whether a training step was made between two moments.

    Gradients alone do not make a training: saliency maps and adversarial examples need them too.
    They count as long as no optimizer has ever moved (the script updates its weights by hand, or
    accumulates first). An optimizer that has moved before, and rests now, says no.

    Example:
        >>> idle, step = (
        ...     TrainingCounts(0, 0, 0, 0, updates=5),
        ...     TrainingCounts(0, 0, 0, 0, updates=6),
        ... )
        >>> has_trained(idle, step), has_trained(step, step._replace(eager_gradients=1))
        (True, False)
    """
    new = now.since(before)
    if new.fit_calls:
        return False
    return bool(
        new.updates > 0 or new.train_on_batch_calls or (new.gradients and before.updates == 0)
    )


class TrainingEvidence:
    """The counters, and the optimizers that are asked for theirs.

    ``eager_codes`` is the user's code that was last seen to compute gradients eagerly: of the
    function that holds the tape, of its caller, and so on. It is looked for some more times when a
    loop begins, as the one before may have had another step. ``layers`` is what was seen of layers,
    ``startup_times`` what was seen before the training began, and ``policy_at`` the line that last
    set a dtype policy for new layers. ``traced_updates`` counts updates by optimizers in functions
    that were traced.

    ``activity_counts`` counts, for each thread, how often it did any of that, or called a compiled
    function.

    A step inside a traced function calls no Python that could be counted, except while it is
    traced; the optimizer's ``iterations`` variable moves nevertheless.
    """

    def __init__(self) -> None:
        self.eager_gradients = 0
        self.eager_codes: tuple[CodeType, ...] = ()
        self.traced_gradients = 0
        self.traced_updates = 0
        self.train_on_batch_calls = 0
        self.fit_calls = 0
        self._looks = _LOOKS
        self._optimizers: WeakSet[Any] = WeakSet()
        self._adding = threading.Lock()
        self.activity_counts: dict[int, int] = {}
        self.layers = LayerRegistry()
        self.startup_times = StartupSampler()
        self.policy_at: str | None = None

    @property
    def eager_at(self) -> str | None:
        """Where the function begins that computes gradients eagerly; None outside of any."""
        return function_location(self.eager_codes)

    def restart_code_lookup(self) -> None:
        """Another training may begin, whose step is another function."""
        self._looks = _LOOKS

    def note_eager_gradients(self, codes: Callable[[], tuple[CodeType, ...]]) -> None:
        """Gradients were computed eagerly, by this code: asked for while that is not well known."""
        self.eager_gradients += 1
        if self._looks > 0:
            self._looks -= 1
            self.eager_codes = codes()

    def add_optimizer(self, optimizer: Any) -> None:
        """One that updates, or is traced to; in whatever thread."""
        if optimizer not in self._optimizers:
            with self._adding:
                self._optimizers.add(optimizer)

    def note_activity(self) -> None:
        """Note that this thread does something of it."""
        thread = threading.get_ident()
        self.activity_counts[thread] = self.activity_counts.get(thread, 0) + 1

    def counts(self) -> TrainingCounts:
        """As of now; reading the optimizers takes some microseconds and waits for the device."""
        with self._adding:
            optimizers = list(self._optimizers)
        updates = sum(map(_updates, optimizers))
        return TrainingCounts(
            self.eager_gradients,
            self.traced_gradients,
            self.train_on_batch_calls,
            self.fit_calls,
            updates,
        )


def _updates(optimizer: Any) -> int:
    # The property divides by the accumulation steps, and a half-built optimizer has no counter.
    with suppress(Exception):
        return int(step_counter(optimizer).numpy())
    return 0
