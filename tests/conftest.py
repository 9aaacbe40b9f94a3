"""Settings that must be in place before TensorFlow is imported by any test."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest

from running import (
    Run,
    Write,
    run_uncork,
    start_fork_server,
    start_shared_fork_server,
)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Run as a user would run them, never imported.
collect_ignore_glob = ["loops/*.py", "quick_start/*.py"]

# Files of tests that take a minute and more.
LONGEST = (
    "tests/pipeline/test_properties",
    "tests/scripts/test_bad_input",
    "tests/engine/commands/test_diagnose",
    "tests/engine/loop/test_step_switch",
    "tests/scripts/test_disk_cache",
    "tests/verify/criteria/test_",
)

# What tests start inherits it. By hand, with this set, all starts and ends as with a user.
if "UNCORK_EXAMPLES" not in os.environ:
    begins = str(Path(__file__).with_name("quick_start"))
    paths = [begins, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, paths)))
    # Uncork's modules are compiled once, not in each of some hundred processes.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that ``make test-deep`` uses."""
    parser.addoption("--deep", action="store_true", help="run all tests and all cases")


def pytest_configure(config: pytest.Config) -> None:
    """While the workers of a whole run collect their tests, the fork server imports TensorFlow."""
    of_all = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if of_all and getattr(config.option, "numprocesses", None):
        start_shared_fork_server()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is marked ``deep`` and cases between every n-th to ``--deep``.

    The longest files come first, so that no worker waits for another at the end.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    if config.getoption("--deep"):
        return
    counts: Counter[str] = Counter()
    kept, left = [], []
    for item in items:
        function = item.nodeid.partition("[")[0]
        every = item.get_closest_marker("every")
        is_kept = not every or _is_nth(counts[function], *every.args, **every.kwargs)
        counts[function] += 1
        (kept if is_kept and not item.get_closest_marker("deep") else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def _is_nth(number: int, every: int, first: int = 0) -> bool:
    """Whether a case, counted from 0, is one of those from the first on."""
    return (number - first) % every == 0


def pytest_collection_finish() -> None:
    """All that is imported by now stays: looking through it for garbage again takes 0.3 s each.

    Tracing makes so many objects that all others would be looked through several times in each
    test: ten times as many may be made before.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10 * gc.get_threshold()[0], *gc.get_threshold()[1:])


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a script into an empty folder, the working directory of ``uncork``."""

    def write(text: str, name: str = "train.py") -> Path:
        path = tmp_path / name
        path.write_text(dedent(text))
        return path

    return write


@pytest.fixture
def uncork(tmp_path: Path) -> Run:
    """``uncork VERB ...``, with all temporary files in a folder of its own: ``tmp_path/temp``."""
    (tmp_path / "temp").mkdir()
    return lambda *args, **options: run_uncork(*args, cwd=tmp_path, **options)


@pytest.fixture
def forked_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a test starts without :mod:`running` need not import TensorFlow either."""
    for name, value in start_fork_server().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def no_quiesce(monkeypatch: pytest.MonkeyPatch) -> None:
    """No block waits until the machine is quiet: while tests run, it never is."""
    for name in ("training.run.fit_runner", "engine.loop.loop_runner", "engine.fit.checkpoints"):
        monkeypatch.setattr(f"uncork.{name}.wait_until_idle", lambda: 0.0)


@pytest.fixture(autouse=True)
def _no_global_seed() -> None:
    """A global seed, set by an earlier test, would seed every op of this one."""
    if (tensorflow := sys.modules.get("tensorflow")) is not None:
        tensorflow.random.set_seed(None)
