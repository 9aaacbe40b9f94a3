"""Run all kinds, each as it is, as Uncork rewrites it and as an expert would.

    python -m benchmarks.input.kinds DATA [--rounds 3] [--record]

Each is a process of its own; every other round runs backwards. Ratios are within rounds.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from uncork.core.base.record import to_json
from uncork.measure.machine.probe import probe_host

_KINDS: Final = ("records", "csv", "text", "audio")
# The expert's sound draws other numbers than the naive one: so may this one.
_VERSIONS: Final = ("naive", "uncorked", "uncorked_resampled", "hand_tuned")
_NAMES: Final = tuple(
    f"{kind} {version}"
    for kind in _KINDS
    for version in _VERSIONS
    if kind == "audio" or version != "uncorked_resampled"
)
_RECORDS: Final = Path(__file__).parents[2] / "records"

Run = dict[str, Any]


def main() -> int:
    """Exit code 0 when each of them ran."""
    options = _options()
    if options.one:
        print(json.dumps(_one(*options.one, options)))
        return 0
    runs: dict[str, list[Run]] = {name: [] for name in _NAMES}
    for number in range(options.rounds):
        for name in runs if number % 2 == 0 else reversed(runs):
            runs[name].append(_process(name, options))
            first, *later = runs[name][-1]["elements_per_s"]
            speeds = f"{first:,.0f} elements/s, then {statistics.median(later):,.0f}"
            print(f"round {number + 1}, {name}: {speeds}", flush=True)
    table = _table(runs)
    print(table)
    if options.record:
        _record(runs, table, options)
    return 0


def _process(name: str, options: argparse.Namespace) -> Run:
    command = [sys.executable, "-m", "benchmarks.input.kinds", str(options.data)]
    command += ["--epochs", str(options.epochs), "--one", *name.split()]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=quiet, text=True)
    found: Run = json.loads(done.stdout.splitlines()[-1])
    return found


def _one(kind: str, version: str, options: argparse.Namespace) -> Run:
    """Time the epochs of one version, in this process."""
    import tensorflow as tf  # noqa: PLC0415 - the process that asks for others does without

    import uncork  # noqa: PLC0415

    module = importlib.import_module(f"benchmarks.input.kinds.{kind}")
    begin = time.perf_counter()
    if version.startswith("uncorked"):
        dataset = uncork.optimize(
            module.naive(options.data),
            epochs=options.epochs,
            budget=90,
            quiet=True,
            strict="resampled" if version.endswith("resampled") else "exact",
        )
    else:
        dataset = getattr(module, version)(options.data)
    prepared_s = time.perf_counter() - begin
    rates = []
    for _ in range(options.epochs):
        begin = time.perf_counter()
        count = sum(int(tf.nest.flatten(batch)[0].shape[0]) for batch in dataset)
        rates.append(count / (time.perf_counter() - begin))
    return {"elements_per_s": rates, "prepared_s": prepared_s}


def _table(runs: dict[str, list[Run]]) -> str:
    lines = [
        "| pipeline | first epoch, elements/s | later epochs | first, of hand-tuned | later |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, found in runs.items():
        base = runs[f"{name.split()[0]} hand_tuned"]
        speeds = [f"{statistics.median(_speeds(found, part)):,.0f}" for part in (0, 1)]
        ratios = []
        for part in (0, 1):
            pairs = zip(_speeds(found, part), _speeds(base, part), strict=True)
            each = [ours / theirs for ours, theirs in pairs]
            ratios.append(f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})")
        lines.append(f"| {name.replace('_', '-')} | {' | '.join(speeds + ratios)} |")
    return "\n".join(lines)


def _speeds(runs: list[Run], part: int) -> list[float]:
    """Of the first epochs (0), or of the later ones (1)."""
    every = [run["elements_per_s"] for run in runs]
    return [statistics.median(rates[1:]) if part else rates[0] for rates in every]


def _record(runs: dict[str, list[Run]], table: str, options: argparse.Namespace) -> None:
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    path = _RECORDS / f"input-kinds-{date}.json"
    kept = {"date": date, "machine": json.loads(to_json(probe_host())), "epochs": options.epochs}
    path.write_text(json.dumps({**kept, "runs": runs}, indent=1) + "\n")
    path.with_suffix(".md").write_text(f"# Records, tables, words and sound, {date}\n\n{table}\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.input.kinds", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", action="store_true", help="keep a dated record")
    parser.add_argument("--one", nargs=2, metavar=("KIND", "VERSION"), help="this one, in here")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
