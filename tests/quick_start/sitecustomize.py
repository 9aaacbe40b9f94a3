"""What tests start imports TensorFlow and ends in two thirds of the time; between, all is as ever.

Python reads this first where its folder stands in ``PYTHONPATH``. Three things are left out: JAX,
which TensorFlow imports where it is installed, and which nobody but Keras's jax backend asks for;
looking for garbage in what is made by the import, which all stays; and, at the end, looking for it
in everything once more.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any


class QuickStart:
    """Finds TensorFlow, and hides JAX where Keras does not run on it."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name in ("jax", "jaxlib") and os.environ.get("KERAS_BACKEND") != "jax":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        spec = PathFinder.find_spec(name, path, target) if name == "tensorflow" else None
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def without_looking(module: Any) -> None:
            was_on = gc.isenabled()
            gc.disable()
            try:
                run(module)
            finally:
                if was_on:
                    gc.enable()

        spec.loader.exec_module = without_looking  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, QuickStart)  # type: ignore[arg-type]
atexit.register(gc.freeze)  # the first to be registered is the last to be called
