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

from uncork.capture.base.listener import Listener, LoopCall, LoopEvidence, Sites
from uncork.capture.base.stop import Stops
from uncork.capture.hooks.training_evidence import Counts, Evidence, trained
from uncork.core.evidence.loop import StartLine

# Elements after which a loop that has not trained is taken for an evaluation. Leaves room for
# gradient accumulation, where only every n-th step moves the optimizer.
_PATIENCE: Final = 64
# Where TensorFlow's iterator keeps what reads ahead for it; gone with the last who holds it.
_RESOURCE: Final = "_iterator_resource"


class Loops:
    """All loops of the user's over datasets."""

    def __init__(self, listener: Listener, stops: Stops, sites: Sites, evidence: Evidence) -> None:
        self.listener = listener
        self.stops = stops
        self.evidence = evidence
        self._sites = sites
        self._open: WeakSet[Watch] = WeakSet()
        # Called when the training turned out to be such a loop.
        self.on_recognised: Callable[[], None] = lambda: None

    def start(
        self, dataset: Any, at: str, iterate: Callable[[Any], Any], eager: Callable[[], bool]
    ) -> Any:
        """What ``iter(dataset)`` gives to the user's code.

        Args:
            dataset: The user's.
            at: Where its loop is.
            iterate: TensorFlow's own ``DatasetV2.__iter__``.
            eager: Tells whether Python runs op by op; False while a function is traced.
        """
        dataset = self.stops.guarded(lambda: self.listener.dataset(dataset, at))

        def original() -> Any:
            return self.stops.guarded(lambda: self.listener.iterator(dataset, iterate))

        first = original()
        if not self.listener.wants_loops:
            return first
        watch = Watch(self, first, dataset, at, original, eager)
        self._open.add(watch)
        self.evidence.look_anew()
        return _twin(first, watch)

    def recognised(self, watch: Watch, evidence: LoopEvidence) -> Iterator[Any]:
        """A watched loop trains: hand it to the listener."""
        # Loops around this one (over tasks, domains, epochs) saw the same step, and others advance
        # beside it (a second iterator in the same step). The first to notice is the training loop.
        beside = self._beside(watch)
        self.close()
        if beside:
            return watch.first
        self.on_recognised()
        self.evidence.start.end()
        call = LoopCall(
            *(self._sites.index(watch.at), watch.at, watch.dataset, watch.original, evidence),
            guarded=self.stops.guarded,
            layers=self.evidence.layers,
            policy_at=self.evidence.policy_at,
            start=watch.start,
        )
        return self.listener.loop(call, watch.first)

    def _beside(self, watch: Watch) -> bool:
        """Whether a statement reads several datasets at once, as ``zip`` does; or the loop's body.

        Feeding one of them for ever would part it from the others.
        """
        others = [w for w in list(self._open) if w is not watch]
        abreast = any(w.at == watch.at and w.taken >= watch.taken for w in others)
        return abreast or any(w.taken > watch.others.get(id(w), w.taken) for w in others)

    def has_company(self, watch: Watch) -> bool:
        """Whether another loop has got as far: one around it, or one that is read in its body."""
        return any(w.taken >= watch.taken for w in list(self._open) if w is not watch)

    def taken(self) -> dict[int, int]:
        """How many elements each loop has taken that is still watched."""
        return {id(watch): watch.taken for watch in list(self._open)}

    def settled(self, watch: Watch) -> None:
        """Whether this loop trains has been decided."""
        self._open.discard(watch)

    def close(self) -> None:
        """Stop watching all loops."""
        for watch in list(self._open):
            watch.settle()


class Watch:
    """What is known about one loop.

    Attributes:
        first: The iterator that TensorFlow made, as long as the loop may be fed by it.
        dataset: What it iterates over.
        at: Where the loop is.
        original: Makes another such iterator.
        start: Lines of the script that took long before its first element was asked for.
        others: Elements that other loops had taken when its first step was seen.
        twin: Gives the iterator that the user's code holds.
    """

    def __init__(
        self,
        loops: Loops,
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
        self.start: tuple[StartLine, ...] = ()
        self.others: dict[int, int] = {}
        self.twin: Callable[[], Any] = lambda: first
        self._loops = loops
        self._stops = loops.stops
        self._eager = eager
        self._feed = first
        self._open = True
        self._taken = 0
        self._before: Counts | None = None
        self._acts = 0
        self._given_at = 0.0
        self._first_step_s = 0.0

    @property
    def idle(self) -> bool:
        """Nothing is left to watch or to feed."""
        return not self._open and self._feed is self.first

    def advance(self) -> Any:
        """The next element, after a look at what happened since the one before."""
        if self._open:
            self._look()
        element = self._stops.guarded(self._feed.__next__)
        self._taken += 1
        self._given_at = time.perf_counter()
        return element

    @property
    def taken(self) -> int:
        """Elements so far."""
        return self._taken

    def settle(self) -> None:
        """Stop watching."""
        self._open = False
        self._loops.settled(self)

    def _look(self) -> None:
        if self._taken == 1:
            self._first_step_s = time.perf_counter() - self._given_at
        if not self._eager():
            self.settle()
            return
        before, self._before = self._before, self._loops.evidence.counts()
        acts = self._loops.evidence.acts.get(threading.get_ident(), 0)
        acted, self._acts = acts > self._acts, acts
        if before is None:
            self.start = self._loops.evidence.start.so_far()
            return  # before the first element nothing of this loop's can have happened
        if trained(before, self._before):
            if not acted and threading.current_thread() is not threading.main_thread():
                self.settle()  # it only feeds a loop of another thread, which is found there
                return
            if self._taken == 1 and not self.others and self._loops.has_company(self):
                self.others = self._loops.taken()  # after one more it is plain whose step it was
                return
            self._hand_over(self._before.since(before))
        elif self._taken >= _PATIENCE:
            self.settle()

    def _hand_over(self, new: Counts) -> None:
        self.settle()
        evidence = LoopEvidence(
            eager_step=new.eager_gradients > 0,
            steps_seen=self._taken,
            tape_calls_per_step=new.gradients,
            eager_codes=self._loops.evidence.eager_codes if new.eager_gradients else (),
            first_step_s=self._first_step_s,
        )
        self._feed = self._stops.guarded(lambda: self._loops.recognised(self, evidence))
        if self._feed is not self.first:
            # Unless who took over reads it still, it would go on preparing what nobody takes.
            self.first = iter(())
            vars(self.twin()).pop(_RESOURCE, None)


def _twin(iterator: Any, watch: Watch) -> Any:
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
    watch.twin = ref(twin)
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
    if watch.idle:
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
