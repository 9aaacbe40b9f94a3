"""Run all contenders in turn, several rounds, and print a table.

    python -m benchmarks.input PHOTOS --peers FOLDER [--rounds 3] [--record]

Every contender is a process of its own; a round runs all of them, every other one backwards, so
that the machine's drift meets all alike. Ratios are within rounds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.input.peers import PEERS, make, python_of
from uncork.core.base.record import to_json
from uncork.measure.machine.probe import probe_host

_HERE: Final = Path(__file__).parent
_CONTENDERS: Final = ("naive", "hand_tuned", "uncorked", *PEERS)
_BASE: Final = "hand_tuned"

Run = dict[str, Any]


def main() -> int:
    """Exit code 0 when every contender ran."""
    options = _options()
    if options.peers:
        make(options.peers)
    chosen = [c for c in _CONTENDERS if c not in PEERS or options.peers]
    runs: dict[str, list[Run]] = {contender: [] for contender in chosen}
    for number in range(options.rounds):
        for contender in chosen if number % 2 == 0 else reversed(chosen):
            runs[contender].append(_run(contender, options))
            print(f"round {number + 1}, {contender}: {_figures(runs[contender][-1])}", flush=True)
    table = _table(runs)
    print(table)
    if options.record:
        _record(runs, table, options)
    return 0


def _run(contender: str, options: argparse.Namespace) -> Run:
    command = [
        python_of(contender, options.peers) if options.peers else sys.executable,
        str(_HERE / "contenders" / f"{contender}.py"),
        str(options.photos),
        str(options.epochs),
    ]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=quiet, text=True)
    found: Run = json.loads(done.stdout.splitlines()[-1])
    return found


def _first(run: Run) -> float:
    return float(run["images_per_s"][0])


def _later(run: Run) -> float:
    return statistics.median(run["images_per_s"][1:])


def _figures(run: Run) -> str:
    return f"{_first(run):,.0f} images/s in the first epoch, {_later(run):,.0f} in later ones"


def _table(runs: dict[str, list[Run]]) -> str:
    lines = [
        "| contender | first epoch, images/s | later epochs | first, of hand-tuned | later |",
        "|---|---:|---:|---:|---:|",
    ]
    for contender, found in runs.items():
        cells = []
        for part in (_first, _later):
            ratios = [part(a) / part(b) for a, b in zip(found, runs[_BASE], strict=True)]
            low, high = min(ratios), max(ratios)
            cells.append(f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})")
        speeds = (f"{statistics.median(map(part, found)):,.0f}" for part in (_first, _later))
        lines.append(f"| {contender} | {' | '.join([*speeds, *cells])} |")
    return "\n".join(lines)


def _record(runs: dict[str, list[Run]], table: str, options: argparse.Namespace) -> None:
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    path = _HERE.parent / "records" / f"input-{date}.json"
    machine = json.loads(to_json(probe_host()))
    kept = {"date": date, "machine": machine, "epochs": options.epochs, "runs": runs}
    path.write_text(json.dumps(kept, indent=1) + "\n")
    path.with_suffix(".md").write_text(f"# Photographs to batches, {date}\n\n{table}\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.input", description=__doc__)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--peers", type=Path, help="where their virtual environments are, or go")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", action="store_true", help="keep a dated record")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
