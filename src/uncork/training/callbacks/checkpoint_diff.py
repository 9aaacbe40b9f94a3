"""Compares two Keras checkpoints: every name, dtype, shape and byte."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np

_METADATA: Final = "metadata.json"
# The moment of saving, in the former.
_WHEN: Final = "date_saved"


def checkpoint_difference(first: Path, second: Path) -> str:
    """The first difference between two checkpoints; ``""`` where there is none.

    Args:
        first: ``.keras`` or ``.weights.h5``.
        second: The same kind of file.

    Raises:
        OSError: One of them is no such file.
    """
    with ExitStack() as stack:
        pair = [stack.enter_context(_Opened(path)) for path in (first, second)]
        names = [sorted(opened.other_parts) for opened in pair]
        if names[0] != names[1]:
            return f"files in the archive: {names[0]} and {names[1]}"
        for name in names[0]:
            if pair[0].part(name) != pair[1].part(name):
                return name
        return _in_arrays(pair[0].arrays, pair[1].arrays)


class _Opened(ExitStack):
    """A checkpoint: its arrays, and what else lies in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.other_parts: list[str] = []
        self._archive: zipfile.ZipFile | None = None
        file: Any = path
        if path.suffix == ".keras":
            self._archive = self.enter_context(zipfile.ZipFile(path))
            for name in self._archive.namelist():
                if name.endswith(".h5"):
                    # Whole: from Python 3.12 on HDF5 does not find its way in an open member.
                    file = io.BytesIO(self._archive.read(name))
                else:
                    self.other_parts.append(name)
        self.arrays = self.enter_context(h5py.File(file, "r"))

    def part(self, name: str) -> Any:
        assert self._archive is not None
        text = self._archive.read(name)
        if name != _METADATA:
            return text
        return {key: value for key, value in json.loads(text).items() if key != _WHEN}


def _in_arrays(one: Any, other: Any) -> str:
    paths = list(_paths(one))
    if paths != list(_paths(other)):
        return "names of the arrays"
    differing = (path for path in paths if _content(one[path]) != _content(other[path]))
    return next(differing, "")


def _paths(file: Any) -> Iterator[str]:
    found: list[str] = []
    file.visit(found.append)
    yield from found


def _content(item: Any) -> tuple[Any, ...]:
    about = sorted((name, str(value)) for name, value in item.attrs.items())
    if not isinstance(item, h5py.Dataset):
        return (about,)
    array = np.asarray(item[()])
    return about, str(item.dtype), array.shape, array.tobytes()
