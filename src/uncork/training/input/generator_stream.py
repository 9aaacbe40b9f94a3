"""A Python generator that feeds a training, shared by all readers that need a batch."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from types import CellType, CodeType, FunctionType, GeneratorType
from typing import Any, Final

from uncork.core.base.errors import NothingToMeasure
from uncork.pycode.frames.stack import code_location

_RAW: Final = inspect.CO_VARARGS, inspect.CO_VARKEYWORDS


class SharedGenerator:
    """Stands in for a generator: each of its batches goes to one reader, none of them twice.

    A generator cannot be read again, so what measures it moves it on: only for a process that ends
    with that. Where it ends, and had not begun before, its function is called again with the same
    arguments, as a second epoch would need it to be.

    Args:
        generator: The user's.

    Attributes:
        name: Of its function.
        code: What it runs.
        function: That made it, as far as the generator itself still knows.
        has_ended: Set once it has ended for good: a reader inside a pipeline gets that error in
            TensorFlow's words.

    Example:
        >>> def rows():
        ...     yield from ((row,) for row in range(2))
        >>> both = SharedGenerator(rows())
        >>> one, other = both.create_reader(), both.create_reader()
        >>> next(one), next(other), next(one)
        ((0,), (1,), (0,))
    """

    def __init__(self, generator: GeneratorType[Any, None, None]) -> None:
        self.name = generator.__name__
        self.code: CodeType = generator.gi_code
        self.function = _function_of(generator)
        self._generator = generator
        self._arguments = _arguments(generator)
        self._lock = threading.Lock()
        self._taken = 0
        self.has_ended: NothingToMeasure | None = None

    @property
    def location(self) -> str:
        """The source location of the generator function."""
        return code_location(self.code)

    def create_reader(self) -> Generator[Any, None, None]:
        """An endless generator, as Keras requires."""
        while True:
            yield self.next_batch()

    def next_batch(self) -> Any:
        """The next batch.

        Raises:
            NothingToMeasure: It has ended, and cannot be begun again.
        """
        with self._lock:
            with suppress(StopIteration):
                return self._next()
            if self._arguments is not None and self._taken:
                args, kwargs = self._arguments
                self._generator = self.function(*args, **kwargs)
                with suppress(StopIteration):
                    return self._next()
            self.has_ended = self._end()
            raise self.has_ended

    def _next(self) -> Any:
        made = next(self._generator)
        self._taken += 1
        return made

    def _end(self) -> NothingToMeasure:
        return NothingToMeasure(
            f"the generator '{self.name}' ended after {self._taken} batches, and Uncork "
            "cannot start it again",
            "data that Uncork can read several times",
            "make the generator endless ('while True:'), or pass tf.data, arrays or a PyDataset",
        )


def share_generator(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Arguments of a ``fit`` whose generator, if it is fed by one, can be read by many.

    Args:
        arguments: Bound, with defaults.
    """
    x = arguments.get("x")
    return {**arguments, "x": SharedGenerator(x)} if isinstance(x, GeneratorType) else arguments


def with_generator_reader(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same arguments as Keras takes them: with a generator of its own, where many read one."""
    x = arguments.get("x")
    return {**arguments, "x": x.create_reader()} if isinstance(x, SharedGenerator) else arguments


def _function_of(generator: GeneratorType[Any, None, None]) -> FunctionType:
    code, frame = generator.gi_code, generator.gi_frame
    names = frame.f_globals if frame is not None else {}
    seen = dict(frame.f_locals) if frame is not None else {}
    cells = tuple(CellType(seen[name]) if name in seen else CellType() for name in code.co_freevars)
    return FunctionType(code, names, generator.__name__, None, cells)


def _arguments(
    generator: GeneratorType[Any, None, None],
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of the generator function; None where it must not be called again."""
    frame = generator.gi_frame
    if frame is None or inspect.getgeneratorstate(generator) != inspect.GEN_CREATED:
        return None
    code, seen = generator.gi_code, dict(frame.f_locals)
    if any(isinstance(value, Iterator) for value in seen.values()):
        return None
    if any(name not in seen for name in code.co_freevars):
        return None  # it closes over what has no value yet, and will have one
    named = code.co_varnames
    only_named = code.co_argcount + code.co_kwonlyargcount
    args = [seen[name] for name in named[: code.co_argcount]]
    kwargs = {name: seen[name] for name in named[code.co_argcount : only_named]}
    rest = iter(named[only_named:])
    star, stars = (bool(code.co_flags & flag) for flag in _RAW)
    if star:
        args += seen[next(rest)]
    if stars:
        kwargs |= seen[next(rest)]
    return tuple(args), kwargs
