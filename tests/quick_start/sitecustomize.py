"""Processes that tests start import TensorFlow faster, or are forked where it is imported already.

Python runs this file first where its folder is in ``PYTHONPATH``. A process that needs TensorFlow
becomes a fork of :mod:`fork_server`, if it has the server's environment. Otherwise three things
are left out: importing JAX, which TensorFlow does where it is installed and only Keras's jax
backend needs; garbage collection during the import; and garbage collection at the end.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

# In scripts that set variables before they import TensorFlow, and edits in plans that do.
_SETS_VARIABLES = re.compile(
    rb"os\.environ|import environ|KERAS_BACKEND"
    rb'|"type": ?"(intra_op_threads|keep_freed_memory|keras_backend)"'
)
_IMPORTS = re.compile(rb"^(import|from) +(keras|tensorflow|uncork)\b", re.MULTILINE)
# Code on the command line: of workers, and of tests.
_IMPORTS_IN_CODE = re.compile(
    r"^(import|from) +(keras|tensorflow)\b|from uncork\.engine\.worker\.main import main"
    r"|^import short_worker$",
    re.MULTILINE,
)


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


def _may_be_forked(argv: list[str]) -> bool:
    """A worker process of Uncork, ``uncork run``, or what else needs TensorFlow.

    That is a script, code on the command line, or a test module. None of its files may set a
    variable before the import.

    Options of the interpreter come before these arguments, so with one it is started as usual.
    """
    is_code = argv[:1] == ["-c"] and _IMPORTS_IN_CODE.search(argv[1]) is not None
    is_script = argv[:1] != [] and argv[0].endswith(".py")
    is_test = argv[:1] == ["-m"] and argv[1].rpartition(".")[2].startswith("test_")
    if not (is_code or is_script or is_test or argv[:3] == ["-m", "uncork", "run"]):
        return False
    files = [Path(each) for each in argv if each.endswith((".py", ".json"))]
    texts = [file.read_bytes() for file in files if file.is_file()]
    if is_script and not (texts and _IMPORTS.search(texts[0])):
        return False
    return not any(map(_SETS_VARIABLES.search, texts))


def server_settings() -> str:
    """What TensorFlow and libraries below it read when they are imported, and what limits them."""
    import resource  # noqa: PLC0415 - where there is a server alone

    prefixes = (
        *("TF_", "XLA_", "KERAS_", "OMP_", "MKL_", "ONEDNN_", "OPENBLAS_", "CUDA_", "JAX_"),
        *("MALLOC_", "LD_", "GLIBC_", "PYTHON"),
    )
    variables = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith(prefixes) and name != "PYTHONPATH"  # a fork takes its sys.path over
    )
    names = "RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE"
    limits = [resource.getrlimit(getattr(resource, name)) for name in names]
    return repr((variables, limits, sorted(os.sched_getaffinity(0))))


_server = os.environ.get("UNCORK_TEST_FORK_SERVER", "")
if _server and _may_be_forked(sys.orig_argv[1:]):
    settings = Path(f"{_server}.settings")
    if settings.exists() and settings.read_text() == server_settings():
        from fork_server import request_fork

        request_fork(_server, sys.orig_argv[1:])

sys.meta_path.insert(0, QuickStart)  # type: ignore[arg-type]
atexit.register(gc.freeze)  # the first to be registered is the last to be called
