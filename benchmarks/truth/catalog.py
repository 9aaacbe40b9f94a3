"""The scripts of ``tests/workloads``: their place says what is wrong with them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, get_args

from uncork.core.base.record import Record
from uncork.core.documents.diagnosis import Cause

ROOT: Final = Path(__file__).parents[2] / "tests" / "workloads"
LAYERS: Final = ("machine", "input", "host", "device", "scale", "any", "healthy")
CAUSES: Final[tuple[str, ...]] = tuple(get_args(Cause))
MARK: Final = "# bottleneck"
_FIXED: Final = "_fixed"

# These spoil a training; being faster is not what their fix is for.
CORRECTNESS: Final = ("random_under_cache", "repeated_draws", "keras_defect", "wasted_work")
# Names of those whose epochs differ: what is compiled once, or grows, weighs otherwise in a short
# training.
UNEVEN: Final = ("machine/slow_start/", "host/recompiling/fit", "host/growing_state/")

# Causes that the road has an answer to, and in which style that is tried unless all are to be
# tuned. A workload of another cause is diagnosed, not tuned.
CURES: Final[dict[str, str]] = {
    "page_faults": "fit",
    "serial_map": "fit",
    "stateful_serial_map": "loop",
    "cache_missing": "fit",
    "cache_misplaced": "fit",
    "python_loader": "rows",
    "no_prefetch": "loop",
    "per_element_work": "fit",
    "shuffle_of_decoded": "loop",
    "small_steps": "fit",
    "retracing": "loop",
    "recompiling": "fit",
    "eager_step": "loop",
    "fit_in_loop": "chunks",
    "validation_setup": "loop",
    "optimizer_kernels": "fit",
    "dense_embedding_update": "fit",
    "per_example_loop": "mapped_fit",
    "wasted_work": "fit",
    "storage_bound": "file_cache",
    "transfer": "standin_fit",
    "array_copies": "loop",
    "augmentation_in_model": "fit",
    "autotune_memory": "loop",
    "low_precision_unused": "fit",
    "low_precision_harmful": "fit",
}
# Of these the ones that are tuned unless more are asked for: each is cured by another optimization.
FEW: Final = ("cache_missing", "serial_map", "no_prefetch", "small_steps", "eager_step")


class Workload(Record, frozen=True, kw_only=True):
    """One script.

    Attributes:
        layer: Of the house; ``healthy`` for those with nothing to gain.
        cause: What slows it down.
        style: How it trains, or for a healthy one its name.
        script: Its path.
        fixed: The expert's version; None for a healthy one.
    """

    layer: str
    cause: str
    style: str
    script: Path
    fixed: Path | None

    @property
    def name(self) -> str:
        """``layer/cause/style``; what a user types to choose it."""
        return "/".join(dict.fromkeys((self.layer, self.cause, self.style)))

    @property
    def bottleneck_lines(self) -> tuple[int, ...]:
        """Numbers of the lines to blame, from 1: of the marked ones, or of the calls they end."""
        text = self.script.read_text()
        marked = [n for n, line in enumerate(text.splitlines(), 1) if line.endswith(MARK)]
        calls = [span for node in ast.walk(ast.parse(text)) if (span := _own_lines(node))]
        return tuple(sorted({line for n in marked for line in _around(n, calls)}))

    @property
    def epochs(self) -> int:
        """What the script trains when it is not told: its default of ``--epochs``."""
        for node in ast.walk(ast.parse(self.script.read_text())):
            if isinstance(node, ast.Call) and "--epochs" in (_constant(a) for a in node.args):
                given = [_constant(k.value) for k in node.keywords if k.arg == "default"]
                return int(str(given[0]))
        raise ValueError(f"{self.script} has no --epochs")

    @property
    def needs_accelerator(self) -> bool:
        """It shows its bottleneck on an accelerator only."""
        return self.style.startswith("gpu_")


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _own_lines(node: ast.AST) -> range | None:
    """Of a call: from its function's name to its closing bracket, not what the name hangs on."""
    if not isinstance(node, ast.Call) or node.func.end_lineno is None or node.end_lineno is None:
        return None
    return range(node.func.end_lineno, node.end_lineno + 1)


def _around(line: int, calls: Sequence[range]) -> Sequence[int]:
    """The shortest call that a line belongs to: a tool may blame its first line."""
    return min((c for c in calls if line in c), key=len, default=(line,))


def find(patterns: Sequence[str] = (), root: Path = ROOT) -> tuple[Workload, ...]:
    """All workloads, or those whose name matches one of the patterns or begins with it."""
    found = (_workload(path, root) for path in sorted(root.glob("*/**/*.py")))
    every = [w for w in found if w is not None]
    if not patterns:
        return tuple(every)
    return tuple(w for w in every if any(_matches(w.name, pattern) for pattern in patterns))


def _workload(path: Path, root: Path) -> Workload | None:
    if path.stem.endswith(_FIXED) or path.name.startswith(("_", "conftest")):
        return None
    layer, *cause = path.parent.relative_to(root).parts
    if layer not in LAYERS:
        return None
    fixed = path.with_name(f"{path.stem}{_FIXED}.py")
    return Workload(
        layer=layer,
        cause=cause[0] if cause else layer,
        style=path.stem,
        script=path,
        fixed=fixed if fixed.exists() else None,
    )


def _matches(name: str, pattern: str) -> bool:
    return fnmatch(name, pattern) or f"{name}/".startswith(f"{pattern.rstrip('/')}/")
