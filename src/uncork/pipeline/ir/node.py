"""One dataset object in the tree of a pipeline."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_fields import int_parameter, parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.structured_function import python_function_of
from uncork.pipeline.functions.function_graph import ConcreteFunction
from uncork.pipeline.ir.cache_files import CacheFiles
from uncork.pycode.frames.dataset_lines import source_line

# Where a cache of Uncork's own in files remembers them, and the name of one that has none.
CACHE_FILES_ATTRIBUTE: Final = "_uncork_files"
PLACEHOLDER_PATH: Final = "/dev/null/uncork"
# What a map of Uncork's own has that gathers rows by their numbers.
ROW_GATHER_ATTRIBUTE: Final = "_uncork_gathers"

# These can run on several elements at once, and run on one at a time unless told.
_SERIAL_UNLESS_TOLD: Final = frozenset({"map", "batch", "interleave"})


@dataclass(frozen=True, eq=False)
class Node:
    """One dataset object with what lies below it.

    Attributes:
        kind: The ``tf.data`` method that makes it (``map``, ``shuffle``, ...); ``opaque`` for a
            class that Uncork does not know.
        dataset: The object itself, still the user's own.
        inputs: Nodes it reads from; none for a source.
    """

    kind: str
    dataset: Dataset
    inputs: tuple[Node, ...]

    def __str__(self) -> str:
        """What it is called in messages: ``map(load) at train.py:20``."""
        name, at = self.name, self.at
        return f"{self.kind}{f'({name})' if name else ''}{f' at {at}' if at else ''}"

    @property
    def at(self) -> str | None:
        """``file.py:line`` that made it, when lines were recorded."""
        return source_line(self.dataset)

    @property
    def parallelism(self) -> int | None:
        """Elements worked on at once: 1, a number, ``AUTOTUNE``, or None where there is no such."""
        given = parameter(self.dataset, "num_parallel_calls", None)
        if given is not None:
            return int(np.asarray(given))
        if type(self.dataset).__name__ == "ParallelInterleaveDataset":
            return int_parameter(self.dataset, "cycle_length")
        return 1 if self.kind in _SERIAL_UNLESS_TOLD else None

    @property
    def functions(self) -> tuple[ConcreteFunction, ...]:
        """Traced functions that it calls."""
        return tuple(
            parameter(self.dataset, name).function for name in kind_of(self.dataset).functions
        )

    @property
    def name(self) -> str:
        """Name of the user's function, else the name given to the dataset, else nothing."""
        names = kind_of(self.dataset).functions
        function = python_function_of(parameter(self.dataset, names[0], None)) if names else None
        return str(getattr(function, "__name__", "") or parameter(self.dataset, "name", "") or "")

    @property
    def is_row_gather(self) -> bool:
        """A map of Uncork's own that gathers rows of arrays by their numbers."""
        return hasattr(self.dataset, ROW_GATHER_ATTRIBUTE)

    @property
    def is_memory_cache(self) -> bool:
        """A cache without a file."""
        return self.kind == "cache" and not self._file

    @property
    def is_complete_file_cache(self) -> bool:
        """A cache that is only read: TensorFlow writes its index last."""
        return self.kind == "cache" and bool(self._file) and self._index.exists()

    @property
    def uncork_cache_files(self) -> CacheFiles | None:
        """Of a cache in files that Uncork has put there."""
        files: CacheFiles | None = self.dataset.__dict__.get(CACHE_FILES_ATTRIBUTE)
        return files

    @property
    def is_cache_placeholder(self) -> bool:
        """A cache in files that has none: it must not be read."""
        return CACHE_FILES_ATTRIBUTE in self.dataset.__dict__ and self.uncork_cache_files is None

    @property
    def _index(self) -> Path:
        return Path(os.fsdecode(self._file + b".index"))

    @property
    def _file(self) -> bytes:
        return bytes(np.asarray(parameter(self.dataset, "filename")).item())
