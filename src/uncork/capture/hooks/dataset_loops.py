"""Custom training loops: ``for x, y in dataset:`` around a step that the user wrote.

The loop's iterator is handed out as a twin that shares the iterator's resource and looks, between
two elements, whether a training step was made. Once that is settled the twin changes its class
back and costs nothing, or is fed by the listener.

Loops that read several datasets at once, a distributed one or none at all are left to
:mod:`uncork.capture.hooks.step_loops`, and so are whole epochs inside a ``tf.function`` that is
given the dataset. Steps that take their elements inside one (the iterator as its argument) are
refused there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final
from weakref import WeakSet, ref

from uncork.capture.base.listener import CallSites, Listener, LoopCall, LoopEvidence
from uncork.capture.base.stop import ScriptStopper
from uncork.capture.hooks.training_evidence import TrainingCounts, TrainingEvidence, has_trained
from uncork.core.evidence.loop import StartupLine

# Elements after which a loop that has not trained is taken for an evaluation. Leaves room for
# gradient accumulation, where only every n-th step moves the optimizer.
_PATIENCE: Final = 64
# Where TensorFlow's iterator keeps what reads ahead for it; gone with the last who holds it.
_RESOURCE: Final = "_iterator_resource"


class DatasetLoops:
    """All loops of the user's over datasets."""

    def __init__(
        self, listener: Listener, stops: ScriptStopper, sites: CallSites, evidence: TrainingEvidence
    ) -> None:
        self.listener = listener
        self.stops = stops
        self.evidence = evidence
        self._sites = sites
        self._open: WeakSet[LoopMonitor] = WeakSet()
        # Called when the training turned out to be such a loop.
        self.on_recognised: Callable[[], None] = lambda: None

    def watch_loop(
        self, dataset: Any, at: str, iterate: Callable[[Any], Any], is_eager: Callable[[], bool]
    ) -> Any:
        """What ``iter(dataset)`` gives to the user's code.

        Args:
            dataset: The user's.
            at: Where its loop is.
            iterate: TensorFlow's own ``DatasetV2.__iter__``.
            is_eager: Tells whether Python runs op by op; False while a function is traced.
        """
        dataset = self.stops.run_guarded(lambda: self.listener.dataset(dataset, at))

        def original() -> Any:
            return self.stops.run_guarded(lambda: self.listener.iterator(dataset, iterate))

        first = original()
        if not self.listener.wants_loops:
            return first
        watch = LoopMonitor(self, first, dataset, at, original, is_eager)
        self._open.add(watch)
        self.evidence.restart_code_lookup()
        return _twin(first, watch)

    def hand_to_listener(self, watch: LoopMonitor, evidence: LoopEvidence) -> Iterator[Any]:
        """A watched loop trains: hand it to the listener."""
        # Loops around this one (over tasks, domains, epochs) saw the same step, and others advance
        # beside it (a second iterator in the same step). The first to notice is the training loop.
        beside = self._beside(watch)
        self.close()
        if beside:
            return watch.first
        self.on_recognised()
        self.evidence.startup_times.stop()
        call = LoopCall(
            *(self._sites.index(watch.at), watch.at, watch.dataset, watch.original, evidence),
            run_guarded=self.stops.run_guarded,
            layers=self.evidence.layers,
            policy_at=self.evidence.policy_at,
            startup_lines=watch.startup_lines,
        )
        return self.listener.loop(call, watch.first)

    def _beside(self, watch: LoopMonitor) -> bool:
        """Whether a statement reads several datasets at once, as ``zip`` does; or the loop's body.

        Feeding one of them for ever would part it from the others.
        """
        others = [w for w in list(self._open) if w is not watch]
        abreast = any(w.at == watch.at and w.element_count >= watch.element_count for w in others)
        return abreast or any(
            w.element_count > watch.other_element_counts.get(id(w), w.element_count) for w in others
        )

    def has_concurrent_loop(self, watch: LoopMonitor) -> bool:
        """Whether another loop has got as far: one around it, or one that is read in its body."""
        return any(
            w.element_count >= watch.element_count for w in list(self._open) if w is not watch
        )

    def element_counts(self) -> dict[int, int]:
        """How many elements each loop has taken that is still watched."""
        return {id(watch): watch.element_count for watch in list(self._open)}

    def remove(self, watch: LoopMonitor) -> None:
        """Whether this loop trains has been decided."""
        self._open.discard(watch)

    def close(self) -> None:
        """Stop watching all loops."""
        for watch in list(self._open):
            watch.stop()


class LoopMonitor:
    """What is known about one loop.

    Attributes:
        first: The iterator that TensorFlow made, as long as the loop may be fed by it.
        dataset: What it iterates over.
        at: Where the loop is.
        original: Makes another such iterator.
        startup_lines: Lines of the script that took long before its first element was asked for.
        other_element_counts: Elements that other loops had taken when its first step was seen.
        user_iterator: Gives the iterator that the user's code holds.
    """

    def __init__(
        self,
        loops: DatasetLoops,
        first: Iterator[Any],
        dataset: Any,
        at: str,
        original: Callable[[], Iterator[Any]],
        eager: Callable[[], bool],
    ) -> None:
        self.first = first
        self.dataset = dataset
        self.at = at
        self.original = original
        self.startup_lines: tuple[StartupLine, ...] = ()
        self.other_element_counts: dict[int, int] = {}
        self.user_iterator: Callable[[], Any] = lambda: first
        self._loops = loops
        self._stops = loops.stops
        self._eager = eager
        self._feed = first
        self._open = True
        self._taken = 0
        self._before: TrainingCounts | None = None
        self._acts = 0
        self._given_at = 0.0
        self._first_step_s = 0.0

    @property
    def is_idle(self) -> bool:
        """Nothing is left to watch or to feed."""
        return not self._open and self._feed is self.first

    def advance(self) -> Any:
        """The next element, after a look at what happened since the one before."""
        if self._open:
            self._look()
        element = self._stops.run_guarded(self._feed.__next__)
        self._taken += 1
        self._given_at = time.perf_counter()
        return element

    @property
    def element_count(self) -> int:
        """Elements so far."""
        return self._taken

    def stop(self) -> None:
        """Stop watching."""
        self._open = False
        self._loops.remove(self)

    def _look(self) -> None:
        if self._taken == 1:
            self._first_step_s = time.perf_counter() - self._given_at
        if not self._eager():
            self.stop()
            return
        before, self._before = self._before, self._loops.evidence.counts()
        acts = self._loops.evidence.activity_counts.get(threading.get_ident(), 0)
        acted, self._acts = acts > self._acts, acts
        if before is None:
            self.startup_lines = self._loops.evidence.startup_times.current_lines()
            return  # before the first element nothing of this loop's can have happened
        if has_trained(before, self._before):
            if not acted and threading.current_thread() is not threading.main_thread():
                self.stop()  # it only feeds a loop of another thread, which is found there
                return
            if (
                self._taken == 1
                and not self.other_element_counts
                and self._loops.has_concurrent_loop(self)
            ):
                self.other_element_counts = (
                    self._loops.element_counts()
                )  # after one more it is plain whose step it was
                return
            self._hand_over(self._before.since(before))
        elif self._taken >= _PATIENCE:
            self.stop()

    def _hand_over(self, new: TrainingCounts) -> None:
        self.stop()
        evidence = LoopEvidence(
            has_eager_step=new.eager_gradients > 0,
            steps_seen=self._taken,
            tape_calls_per_step=new.gradients,
            eager_codes=self._loops.evidence.eager_codes if new.eager_gradients else (),
            first_step_s=self._first_step_s,
        )
        self._feed = self._stops.run_guarded(lambda: self._loops.hand_to_listener(self, evidence))
        if self._feed is not self.first:
            # Unless who took over reads it still, it would go on preparing what nobody takes.
            self.first = iter(())
            vars(self.user_iterator()).pop(_RESOURCE, None)


def _twin(iterator: Any, watch: LoopMonitor) -> Any:
    """Another iterator over the same resource that asks ``watch`` for its elements.

    It passes for TensorFlow's own everywhere: ``element_spec``, tracing types and checkpoints go
    through the shared resource.
    """
    kind = type(iterator)
    if kind not in _watched:
        # One base and no fields: only so can the class be changed back.
        fields = {
            "__next__": _next,
            "get_next": _get_next,
            "__getattr__": _renewed,
            "__module__": kind.__module__,
        }
        _watched[kind] = type(kind.__name__, (kind,), fields)
    twin: Any = object.__new__(_watched[kind])
    vars(twin).update(vars(iterator), _uncork_watch=watch)
    watch.user_iterator = ref(twin)
    return twin


_watched: dict[type, type] = {}


def _renewed(twin: Any, name: str) -> Any:
    """A loop that is fed may hand its iterator to a function all the same: it begins anew there."""
    if name != _RESOURCE or "_uncork_watch" not in vars(twin):
        raise AttributeError(name)
    watch = twin._uncork_watch
    # One that never had a resource, as its elements are made in Python, is given one and goes on.
    goes_on = isinstance(watch.first, type(twin).__mro__[1])
    resource = vars(twin)[name] = getattr(watch.first if goes_on else watch.original(), name)
    return resource


def _next(twin: Any) -> Any:
    watch = twin._uncork_watch
    if watch.is_idle:
        # From here on the twin is what TensorFlow made, to the last bit.
        twin.__class__ = type(watch.first)
        return next(watch.first)
    return watch.advance()


def _get_next(twin: Any) -> Any:
    """As TensorFlow's, which ends with an OutOfRangeError."""
    from tensorflow.errors import OutOfRangeError  # noqa: PLC0415 - long imported by now

    try:
        return next(twin)
    except StopIteration:
        raise OutOfRangeError(None, None, "End of sequence") from None
