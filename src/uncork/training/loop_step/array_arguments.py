"""NumPy arrays among the arguments of a step: TensorFlow copies them into a tensor at each call."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.training.loop_step.number_arguments import positional_parameter_names

# Arrays that are smaller cost less than the call itself.
MIN_ARRAY_BYTES: Final = 1 << 20
_MOST_THREADS: Final = 8
# Kinds of NumPy's dtypes that are numbers, byte for byte.
_NUMBERS: Final = "biufc"


def large_array_arguments(
    python: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call that are large arrays themselves, by name.

    Args:
        python: What is called; None where nobody knows.
        args: By position.
        kwargs: By name.

    Example:
        >>> table = np.zeros((1 << 18, 2), "float32")
        >>> list(large_array_arguments(lambda table, rows: None, (table, np.arange(3)), {}))
        ['table']
    """
    names = positional_parameter_names(python) if python else ()
    named = (*zip(names, args, strict=False), *kwargs.items())
    return {name: value for name, value in named if is_large_array(value)}


def is_large_array(value: Any) -> bool:
    """Whether copying it takes longer than a call."""
    return isinstance(value, np.ndarray) and value.nbytes >= MIN_ARRAY_BYTES


def is_comparable_array(value: Any) -> bool:
    """Whether it is a large array of numbers, in one piece, as this machine writes them.

    Example:
        >>> is_comparable_array(np.zeros(1 << 20)), is_comparable_array(np.zeros(1 << 20)[::2])
        (True, False)
    """
    if not is_large_array(value) or not value.flags.c_contiguous:
        return False
    return value.dtype.kind in _NUMBERS and bool(value.dtype.isnative)


class TensorCache:
    """Tensors of large arrays, made anew where an array holds other bytes than at its last call.

    Comparing reads both and writes nothing, on as many threads as there are cores; copying fills
    memory that the system has to give first, and on an accelerator sends it as well.

    Example:
        >>> table, kept = np.zeros((1 << 18, 2), "float32"), TensorCache()
        >>> first = kept.tensor_of("table", table)
        >>> kept.tensor_of("table", table) is first
        True
        >>> table[-1, -1] = 7
        >>> float(kept.tensor_of("table", table)[-1, -1])
        7.0
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Any, Any]] = {}

    def tensor_of(self, name: str, array: Any) -> Any:
        """A tensor that holds what the array holds now.

        Args:
            name: Under which it is kept.
            array: Any; what is no large array in one piece is made a tensor each time.
        """
        if not is_comparable_array(array):
            return tf.convert_to_tensor(array)
        tensor, copy = self._kept.get(name, (None, None))
        if tensor is not None and copy.dtype == array.dtype and has_same_bytes(copy, array):
            return tensor
        self._kept.pop(name, None)  # not both of them at a time
        tensor = tf.convert_to_tensor(array)
        self._kept[name] = (tensor, _bytes_of(tensor).view(array.dtype).reshape(array.shape))
        return tensor


class CachedArrayFunction:
    """A ``tf.function`` that is given kept tensors where its caller hands over arrays.

    Args:
        function: Traced by TensorFlow, or in other ways.
        python: Whose arguments it has.
        names: Of the arguments.
        tensor_cache: Tensors of theirs.

    Example:
        >>> total = tf.function(lambda table: tf.reduce_sum(table))
        >>> step = CachedArrayFunction(total, total.python_function, ("table",), TensorCache())
        >>> float(step(np.ones((1 << 18, 2), "float32")))
        524288.0
    """

    def __init__(
        self,
        function: Any,
        python: Callable[..., Any],
        names: tuple[str, ...],
        tensor_cache: TensorCache,
    ) -> None:
        self._function = function
        self._parameters = positional_parameter_names(python)
        self._names = frozenset(names)
        self._kept = tensor_cache

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        args, kwargs = self._replaced(args, kwargs)
        return self._function(*args, **kwargs)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> Any:
        """The trace that serves such a call; one that casts arrays may take no such tensor."""
        args, kwargs = self._replaced(args, kwargs)
        return self._function.get_concrete_function(*args, **kwargs)

    def experimental_get_tracing_count(self) -> int:
        """How often it was traced."""
        return int(self._function.experimental_get_tracing_count())

    def _replaced(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        names = (*self._parameters, *[""] * (len(args) - len(self._parameters)))
        by_position = (self._other(name, arg) for name, arg in zip(names, args, strict=False))
        return tuple(by_position), {name: self._other(name, arg) for name, arg in kwargs.items()}

    def _other(self, name: str, value: Any) -> Any:
        is_kept = name in self._names and isinstance(value, np.ndarray)
        return self._kept.tensor_of(name, value) if is_kept else value


def has_same_bytes(one: Any, other: Any) -> bool:
    """Whether two arrays, each in one piece, are of one shape and hold the same, byte for byte.

    Example:
        >>> nothing = np.array([np.nan, 0.0])
        >>> (
        ...     has_same_bytes(nothing, nothing.copy()),
        ...     has_same_bytes(nothing, np.array([np.nan, -0.0])),
        ... )
        (True, False)
    """
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    threads = _threads() if is_large_array(one) else 1
    part = -(-one.nbytes // threads)

    def same(begin: int) -> bool:
        size = min(part, one.nbytes - begin)
        return _memcmp()(one.ctypes.data + begin, other.ctypes.data + begin, size) == 0

    begins = range(0, one.nbytes, max(1, part))
    return all(_pool().map(same, begins) if len(begins) > 1 else map(same, begins))


def _bytes_of(tensor: Any) -> Any:
    """Of a tensor: its own memory, or a copy where that is a device's."""
    if tf.DeviceSpec.from_string(tensor.device).device_type == "CPU":
        return np.frombuffer(memoryview(tensor), np.uint8)
    return np.frombuffer(tensor.numpy(), np.uint8)


@cache
def _memcmp() -> Callable[[int, int, int], int]:
    """The C library's, which other threads run beside: nothing of NumPy's reads memory as fast."""
    function = ctypes.CDLL(None).memcmp
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    found: Callable[[int, int, int], int] = function
    return found


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(), thread_name_prefix="uncork-same-bytes")


if hasattr(os, "register_at_fork"):  # the threads stay behind
    os.register_at_fork(after_in_child=_pool.cache_clear)


@cache
def _threads() -> int:
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    return min(_MOST_THREADS, cores)
