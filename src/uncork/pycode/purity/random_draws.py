"""Random numbers that a Python loader samples, from generators that its code can reach."""

from __future__ import annotations

import copy
import pickle
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

import numpy as np

from uncork.compat.random_state import random_state, set_random_state
from uncork.pycode.purity.reachability import find_reachable

_SEED: Final = 20261
_SEED_BITS: Final = 256


class RandomStates:
    """Random states: the global ones, and those of some generators.

    Args:
        generators: Python's and NumPy's.
    """

    def __init__(self, generators: Sequence[Any]) -> None:
        self.generators = generators
        self._global, self._own = random_state(), self._states()

    def restore(self) -> None:
        """To all the state that they had."""
        set_random_state(self._global)
        for generator, state in zip(self.generators, self._own, strict=True):
            _set(generator, state)

    def reseed(self) -> None:
        """Other states than those of any moment of the training."""
        random.seed(_SEED)
        np.random.seed(_SEED)
        for generator in self.generators:
            if isinstance(generator, random.Random | np.random.RandomState):
                generator.seed(_SEED)
            else:
                _bits(generator).state = type(_bits(generator))(_SEED).state

    def current_states(self) -> list[bytes]:
        """Each of the states that may be shared, as it is at this moment."""
        return _each(random_state(), self._states())

    def all_current_states(self) -> list[bytes]:
        """Likewise, with those of TensorFlow and Keras, as far as they can be seen."""
        everywhere = random_state()
        *_, ops, _, seed = everywhere
        return [*_each(everywhere, self._states()), pickle.dumps((ops, seed))]

    def has_changed(self) -> bool:
        """Whether any random state has changed.

        Raises:
            ValueError: A state of TensorFlow or Keras has changed.
        """
        *_, ops, _, seed = self._global
        *_, ops_now, _, seed_now = random_state()
        if pickle.dumps((ops, seed)) != pickle.dumps((ops_now, seed_now)):
            raise ValueError("it samples random numbers with TensorFlow or Keras")
        return _each(self._global, self._own) != self.current_states()

    def _states(self) -> list[Any]:
        return [_state(generator) for generator in self.generators]


class PythonRandomStates:
    """Random states of Python and NumPy alone, which another process can go on from.

    Args:
        generators: Beside the global ones.
    """

    def __init__(self, generators: Sequence[Any]) -> None:
        self._generators = generators

    def current_states(self) -> tuple[Any, ...]:
        """The states, as they are at this moment."""
        own = map(_state, self._generators)
        return random.getstate(), np.random.get_state(legacy=False), *own

    @contextmanager
    def hold_locks(self) -> Iterator[None]:
        """Nobody draws from NumPy's generators inside the block: their locks are held by it.

        What is forked inside has them held, too, and is to :meth:`release_locks` of them.
        """
        locks = self._locks()
        with ExitStack() as held:
            for lock in locks:
                held.enter_context(lock)
            yield

    def release_locks(self) -> None:
        """Of the locks that were held in the process that this one was forked from."""
        for lock in self._locks():
            with suppress(RuntimeError):  # forked later, when nobody held it
                lock.release()

    def _locks(self) -> list[Any]:
        older = (np.random.mtrand._rand, *self._generators)
        found = (_bits(each).lock for each in older if not isinstance(each, random.Random))
        return list({id(lock): lock for lock in found}.values())

    def set_states(self, states: tuple[Any, ...]) -> None:
        """Continue from :meth:`current_states` of these generators, or of their originals."""
        python, numpy, *own = states
        random.setstate(python)
        np.random.set_state(numpy)
        for generator, state in zip(self._generators, own, strict=True):
            _set(generator, state)

    def advance_states(self) -> None:
        """To other states, each drawn from its own generator; whoever has the old goes apart.

        Example:
            >>> draws = PythonRandomStates([np.random.default_rng(1)])
            >>> before = draws.current_states()
            >>> draws.advance_states()
            >>> [
            ...     old == new
            ...     for old, new in zip(before[2:], draws.current_states()[2:], strict=True)
            ... ]
            [False]
        """
        random.seed(random.getrandbits(_SEED_BITS))
        np.random.seed(_words(np.random.randint))
        for generator in self._generators:
            if isinstance(generator, random.Random):
                generator.seed(generator.getrandbits(_SEED_BITS))
            elif isinstance(generator, np.random.RandomState):
                generator.seed(_words(generator.randint))
            else:
                bits = _bits(generator)
                bits.state = type(bits)(_words(generator.integers)).state


def _each(everywhere: tuple[Any, ...], own: Sequence[Any]) -> list[bytes]:
    python, numpy, *_ = everywhere
    return [pickle.dumps(state) for state in (python, numpy, *own)]


def _words(draw: Any) -> Any:
    """A seed, drawn."""
    return draw(0, 1 << 32, _SEED_BITS // 32, dtype=np.uint32)


def _state(generator: Any) -> Any:
    """All of it: the older kind of NumPy's draws two normal numbers at once, and keeps one."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return _bits(generator).state


def _set(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        _bits(generator).state = state


def _bits(generator: Any) -> Any:
    """What a generator of NumPy's draws from."""
    return getattr(generator, "_bit_generator", None) or generator.bit_generator


def loader_random_states(dataset: Any) -> RandomStates:
    """The random states that a loader may draw from, as they are now."""
    return RandomStates(find_reachable(dataset).generators)


@contextmanager
def preserve_random_states(dataset: Any) -> Iterator[None]:
    """Give all generators that a loader can get at their state back."""
    draws = loader_random_states(dataset)
    try:
        yield
    finally:
        draws.restore()


def copy_with_fixed_random_state(dataset: Any) -> Any:
    """A copy whose batches are made one at a time, all from the random states of this moment.

    Which thread makes a batch, and when, no longer tells what it draws.
    """
    class_, draws, lock = (
        type(dataset),
        RandomStates(find_reachable(dataset).generators),
        threading.Lock(),
    )

    def __getitem__(self: Any, index: Any) -> Any:  # noqa: N807 - of the class made here
        with lock:
            draws.restore()
            try:
                return class_.__getitem__(self, index)
            finally:  # an order is drawn from them, too, whoever has made the last batch
                draws.restore()

    return with_methods(_copied(dataset), {"__getitem__": __getitem__})


def copy_noting_random_batches(dataset: Any, random_indices: list[int]) -> Any:
    """A copy that notes the indices of the batches that drew something; for one thread."""
    class_, generators = type(dataset), find_reachable(dataset).generators

    def __getitem__(self: Any, index: Any) -> Any:  # noqa: N807 - of the class made here
        before = RandomStates(generators).current_states()
        made = class_.__getitem__(self, index)
        if RandomStates(generators).current_states() != before:
            random_indices.append(index)
        return made

    return with_methods(_copied(dataset), {"__getitem__": __getitem__})


def _copied(dataset: Any) -> Any:
    """What an edit has made of its class stays, which copies of the user's do without."""
    other = copy.copy(dataset)
    other.__class__ = type(dataset)
    return other


def with_methods(dataset: Any, methods: dict[str, Any]) -> Any:
    """The dataset itself, of a class of the same name that does some things otherwise."""
    class_ = type(dataset)
    dataset.__class__ = type(class_.__name__, (class_,), methods)
    return dataset
