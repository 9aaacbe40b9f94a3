"""What does Uncork cost a training that it changes nothing of?

    python -m benchmarks.overhead DATA [NAME ...] [--rounds 8] [--seconds 25] [--record]

Three healthy scripts: an array given to ``fit``, a pipeline given to ``fit``, and a loop of the
user's own. Each is a whole process, in three ways: by plain Python; watched, as ``uncork diagnose``
does before it measures (lines of datasets and layers, loops and steps looked for); by ``uncork
run`` under an empty plan. A B C C B A; ratios are within rounds. DATA is what
``tests/workloads/data.py`` writes. Nothing else may run meanwhile.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.machine import machine
from benchmarks.overhead.runs import Runs, cost_of, empty_plan, epochs_for, in_turn
from benchmarks.truth.catalog import Workload, find
from benchmarks.truth.fitted import fast_bfloat16, fitted
from uncork.core.base.machine import Machine
from uncork.core.base.measurement import Comparison
from uncork.core.base.record import Record, to_json, write_atomically

_RECORDS: Final = Path(__file__).parents[1] / "records"
_NAMES: Final = ("houses_fit", "reviews_transformer", "photos_loop")
_WATCHED: Final = "watched"
_EMPTY: Final = "under an empty plan"
_ASKED: Final = {
    "training, as the script tells it": lambda cost: cost.trained_s,
    "CPU time of the process": lambda cost: cost.cpu_s,
    "the whole process": lambda cost: cost.wall_s,
}


class Overhead(Record, frozen=True, kw_only=True):
    """A dated record.

    Attributes:
        date: Of the run.
        machine: Which it ran on.
        found: One for each script.
    """

    date: str
    machine: Machine
    found: tuple[Runs, ...]


def main() -> int:
    """Exit code 0 when every script ran to its end both ways."""
    options = _options()
    found = []
    with tempfile.TemporaryDirectory(prefix="uncork-overhead-") as folder:
        for workload in find([f"healthy/{name}" for name in options.names or _NAMES]):
            fits = fitted(workload, Path(folder) / "scripts", fast=fast_bfloat16())
            if fits is not None:
                found.append(_runs(fits, options, Path(folder) / workload.style))
                print("\n".join(_rows(found[-1:])), file=sys.stderr, flush=True)
    today = datetime.date.today().isoformat()
    record = Overhead(date=today, machine=machine(), found=tuple(found))
    text = "\n".join([*_page(record), ""])
    print(text)
    if options.record:
        write_atomically(_RECORDS / f"overhead-{today}.json", to_json(record))
        write_atomically(_RECORDS / f"overhead-{today}.md", text.encode())
    return 0


def _runs(workload: Workload, options: argparse.Namespace, work: Path) -> Runs:
    data = options.data.absolute()
    plan = empty_plan(workload, data, work)
    epochs = epochs_for((workload.script, data), work / "tried", options.seconds)
    script = (workload.script, data, "--epochs", epochs)
    commands = {
        "plain": (),
        _WATCHED: (Path(__file__).with_name("watched.py"),),
        _EMPTY: ("-m", "uncork", "run", "--allow-partial", "--plan", plan),
    }
    ways = [
        functools.partial(cost_of, (sys.executable, *command, *script), work / name)
        for name, command in commands.items()
    ]
    plain, *others = in_turn(ways, options.rounds)
    named = dict(zip(list(commands)[1:], others, strict=True))
    return Runs(name=workload.style, epochs=epochs, plain=plain, others=named)


def _page(record: Overhead) -> Iterator[str]:
    machine = record.machine
    yield f"# What it costs to be watched, and an empty plan, {record.date}"
    yield ""
    yield (
        f"{machine.cpu_model}, {machine.cpus:g} cores; TensorFlow {machine.tensorflow}, Keras "
        f"{machine.keras}, Python {machine.python}. Time that way over time by plain Python, "
        "paired, with 95 % intervals. Promised of a training: below 1.02 watched, below 1.01 under "
        "an empty plan."
    )
    yield ""
    yield f"| script | epochs | pairs | seconds | way | {' | '.join(_ASKED)} |"
    yield f"|---|---:|---:|---:|---|{'---|' * len(_ASKED)}"
    yield from _rows(record.found)


def _rows(found: Sequence[Runs]) -> Iterator[str]:
    for runs in found:
        seconds = sorted(cost.trained_s for cost in runs.plain)[len(runs.plain) // 2]
        head = (runs.name, str(runs.epochs), str(len(runs.plain)), f"{seconds:.1f}")
        for way in runs.others:
            cells = [_cell(runs.overhead(way, of)) for of in _ASKED.values()]
            yield f"| {' | '.join((*head, way, *cells))} |"


def _cell(found: Comparison) -> str:
    high = "" if found.high is None else f"{found.high:.3f}"
    return f"{found.ratio:.3f} ({found.low:.3f} to {high})"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("names", nargs="*", help=f"healthy scripts; {', '.join(_NAMES)} if none")
    parser.add_argument("--rounds", type=int, default=8, help="pairs of each script")
    parser.add_argument("--seconds", type=float, default=25.0, help="that each training takes")
    parser.add_argument("--record", action="store_true", help="keep a dated record")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
