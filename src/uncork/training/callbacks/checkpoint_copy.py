"""What Keras saves of a model, copied at one moment, to be written whenever there is time.

Keras's own saver runs: it asks each layer, metric and optimizer for what it keeps. Only where it
would put an array into its HDF5 file, a copy is laid aside. Whoever writes the copies later needs
nothing of the model, which may have trained on by then. So all that belongs to the user's code has
happened when the saver returns, and a file made of the copies holds what one made on the spot
would: the same groups, names, dtypes and bytes, of seed generators and lookup tables, too.
"""

from __future__ import annotations

import io
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from uncork.compat.keras3.saving import H5Store, other_store

# The class that Keras's functions look up is exchanged for as long as they copy.
_COPYING: Final = threading.Lock()


class CheckpointCopy:
    """One checkpoint in memory.

    Args:
        model: As it is now.
        save: Keras's function that saves it: ``save_model`` or ``save_weights_only``.
        weights_only: The latter.
        buffers: Of an earlier copy of the same model, which is written by now.

    Attributes:
        size_bytes: Of all copies.

    Raises:
        Exception: What saving it raises. Where ``save_own_variables`` of a layer wants more of
            Keras's store than a dictionary has, saving on the spot may succeed nevertheless.

    Example:
        >>> import tempfile
        >>> from uncork.compat.keras3.saving import saver
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> found = CheckpointCopy(model, saver(weights_only=True), weights_only=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found.write(Path(folder, "w.weights.h5"))
        ...     model.load_weights(Path(folder, "w.weights.h5"))
        >>> found.size_bytes
        12
    """

    def __init__(
        self,
        model: Any,
        save: Callable[..., Any],
        *,
        weights_only: bool,
        buffers: CopyBuffers | None = None,
    ) -> None:
        buffers = buffers or CopyBuffers()
        buffers.start()
        self._around = None if weights_only else io.BytesIO()
        made: list[_Store] = []
        with _COPYING, other_store(_making(made, buffers)):
            save(model, "all.weights.h5" if self._around is None else self._around)
        (self._store,) = made
        self.size_bytes = self._store.bytes

    def write(self, path: Path) -> None:
        """Write it as Keras does.

        Args:
            path: Of the file, which is overwritten.

        Raises:
            OSError: It cannot be written; what h5py and zipfile raise, as when Keras writes.
        """
        if self._around is None:
            self._store.into(H5Store(path, mode="w"))
            return
        with path.open("wb") as file:
            file.write(self._around.getbuffer())
        with zipfile.ZipFile(path, "a") as archive:
            self._store.into(H5Store(self._store.name, archive=archive, mode="w"))


class _OfOneThread(type):
    """A class of stores for the thread that copies: others save into Keras's own meanwhile."""

    owner: int

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != cls.owner:
            return H5Store(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, H5Store) or super().__instancecheck__(instance)


def _making(made: list[_Store], buffers: CopyBuffers) -> Callable[..., _Store]:
    """A class of stores, as Keras's functions call it and compare with it."""

    class Store(_Store, metaclass=_OfOneThread):
        owner = threading.get_ident()

        def __init__(self, name: Any, archive: Any = None, mode: str = "r") -> None:
            super().__init__(name, buffers)
            self.archive = archive
            made.append(self)

    return Store


class CopyBuffers:
    """Memory for copies, used again by the next save of the same model.

    New memory costs as much as copying into it: the system clears each page that is first written.
    """

    def __init__(self) -> None:
        self._free: dict[Any, list[Any]] = {}
        self._taken: dict[Any, list[Any]] = {}

    def start(self) -> None:
        """Let the next copies be made where those before the last save are; others are let go."""
        self._free, self._taken = self._taken, {}

    def copy_value(self, value: Any) -> Any:
        """An array of its own with what Keras would write for a value."""
        # What is no variable or tensor, Keras turns into an array in ways of its own.
        plain = isinstance(value, keras.Variable | tf.Tensor | np.ndarray)
        found = np.asarray(value) if plain else ops.convert_to_numpy(value)
        kind = found.shape, found.dtype
        free = self._free.get(kind)
        copy = free.pop() if free else np.empty_like(found, order="C")
        np.copyto(copy, found)
        self._taken.setdefault(kind, []).append(copy)
        return copy


class _Entry(dict[str, Any]):
    """What one layer, metric or optimizer keeps."""

    def __init__(self, buffers: CopyBuffers) -> None:
        super().__init__()
        self._buffers = buffers

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, self._buffers.copy_value(value))


class _Store:
    """Stands for Keras's ``H5IOStore`` while it is written to."""

    def __init__(self, name: Any, buffers: CopyBuffers) -> None:
        self.name = name
        self._buffers = buffers
        self._entries: list[tuple[str, dict[str, Any], _Entry]] = []

    def make(self, path: str, **about: Any) -> _Entry:
        entry = _Entry(self._buffers)
        self._entries.append((path, about, entry))
        return entry

    def close(self) -> None:
        """It is complete."""

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for *_, entry in self._entries for array in entry.values())

    def into(self, store: Any) -> None:
        """Put everything into a store of Keras's, in the same order, and close that."""
        try:
            for path, about, entry in self._entries:
                place = store.make(path, **about)
                for key, array in entry.items():
                    place[key] = array
        except BaseException:
            store.archive = None  # as Keras does: what is not complete is not put there
            raise
        finally:
            store.close()
