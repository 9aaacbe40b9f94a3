"""Does the patch of a plan gain what the plan gains, and train the same?

    python -m benchmarks.patches [--rounds N] [--json FILE] PLAN ARGS

PLAN was written by ``uncork tune``, in this working directory; ARGS are those of its script. The
script as it is, the script with the plan, and the patched script run in turn, each in a folder of
its own. ``uncork diff --check`` writes the patch. Compared are the seconds of the training, where
the script prints them (``trained N samples in S s``), else those of the whole process; and the
weights, where the script saves ``trained.weights.h5``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import h5py
import numpy as np

from benchmarks.machine import machine
from uncork.core.base.machine import Machine
from uncork.core.base.record import Record, to_json, write_atomically
from uncork.core.documents.plan_file import load_plan

_TRAINED: Final = re.compile(r"trained \d+ samples in ([\d.]+) s")
_WEIGHTS: Final = "trained.weights.h5"
# A patch that keeps less of the gain is no form of the plan.
_LEAST: Final = 0.9


class PatchRun(Record, frozen=True, kw_only=True):
    """One plan, and what its patch came to.

    Attributes:
        plan: Path of the plan.
        included: Steps in the patch.
        said: What ``uncork diff --check`` said beside it.
        seconds: Of the script as it is, with the plan, and patched: a list for each.
        plan_gain: As it is over with the plan, medians.
        patch_gain: As it is over patched.
        has_equal_weights: The patched script ends with the weights that the plan leads to;
            None where nothing can be compared.
    """

    plan: str
    machine: Machine
    included: tuple[str, ...]
    said: str
    seconds: dict[str, tuple[float, ...]]
    plan_gain: float
    patch_gain: float
    has_equal_weights: bool | None

    @property
    def kept_share(self) -> float:
        """Of the gain of the plan, in the patch."""
        return self.patch_gain / self.plan_gain


def main() -> int:
    """Patch, run, compare, print; 1 where too little of the gain is kept."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plan", type=Path)
    parser.add_argument("args", nargs=argparse.REMAINDER)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = compare_patch(options.plan, options.args, options.rounds)
    print(
        f"plan {found.plan_gain:.2f}x, patch {found.patch_gain:.2f}x: {found.kept_share:.2f} kept"
    )
    print(f"in the patch: {', '.join(found.included)}; equal weights: {found.has_equal_weights}")
    if options.json:
        write_atomically(options.json, to_json(found))
    return int(found.kept_share < _LEAST or found.has_equal_weights is False)


def compare_patch(path: Path, args: list[str], rounds: int) -> PatchRun:
    """Run one plan, its patch, and the script as it is, in turn."""
    plan = load_plan(path)
    args = args or list(plan.arguments)
    script = Path(plan.script)
    with tempfile.TemporaryDirectory(prefix="patches-") as folder:
        diff = Path(folder, "plan.diff")
        made = _uncork("diff", "--check", "--output", str(diff), str(path), *args)
        if made.returncode:
            raise SystemExit(made.stderr)
        patched = Path(folder, script.name)
        shutil.copy(script, patched)
        subprocess.run(["patch", "-s", str(patched), str(diff)], check=True)
        python, plain = sys.executable, str(script.resolve())
        versions = {
            "original": [python, plain],
            # Partial: paths among the arguments are absolute here.
            "plan": [
                *(python, "-m", "uncork", "run", "--allow-partial"),
                *("--plan", str(path.resolve()), plain),
            ],
            "patch": [python, str(patched)],
        }
        runs = [
            (name, _run([*command, *args], Path(folder, f"{name}{n}")))
            for n in range(rounds)
            for name, command in versions.items()
        ]
    seconds = {name: tuple(s for each, (s, _) in runs if each == name) for name in versions}
    results = {name: result for name, (_, result) in runs}
    whole, planned, ours = (statistics.median(seconds[name]) for name in versions)
    said = [line for line in made.stderr.splitlines() if line.startswith("uncork: ")]
    included = next((line for line in said if "uncork: in the patch: " in line), "")
    return PatchRun(
        plan=str(path),
        machine=machine(),
        included=tuple(included.partition("in the patch: ")[2].split(", ")),
        said="\n".join(said),
        seconds=seconds,
        plan_gain=whole / planned,
        patch_gain=whole / ours,
        has_equal_weights=_are_equal(results["plan"], results["patch"]),
    )


def _uncork(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "uncork", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _run(command: list[str], folder: Path) -> tuple[float, dict[str, np.ndarray]]:
    """Seconds of one run, and its weights; the arguments are relative to where this was started."""
    folder.mkdir()
    arguments = [os.path.abspath(a) if Path(a).exists() else a for a in command[1:]]  # noqa: PTH100
    begin = time.perf_counter()
    done = subprocess.run(
        [command[0], *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    whole_s = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    trained = _TRAINED.search(done.stdout)
    return float(trained.group(1)) if trained else whole_s, _weights(folder / _WEIGHTS)


def _weights(path: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    if path.exists():
        with h5py.File(path) as file:
            file.visititems(
                lambda name, item: (
                    found.update({name: np.asarray(item)})
                    if isinstance(item, h5py.Dataset)
                    else None
                )
            )
    return found


def _are_equal(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> bool | None:
    if not ours or not theirs:
        return None
    return ours.keys() == theirs.keys() and all(
        np.array_equal(ours[name], theirs[name]) for name in ours
    )


if __name__ == "__main__":
    sys.exit(main())
