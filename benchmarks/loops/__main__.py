"""Are custom loops of ten styles diagnosed rightly, and do they print the same losses when tuned?

    python -m benchmarks.loops DATA [NAME ...] [--record]

Each script of ``tests/loops`` is tuned, which begins with a diagnosis; then it trains a few epochs
in plain Python, again in plain Python, and under its plan. DATA is what
``tests/workloads/data.py`` writes.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.loops.examine import Examined, examine
from benchmarks.loops.scripts import find
from benchmarks.machine import machine
from uncork.core.base.machine import Machine
from uncork.core.base.record import Record, to_json, write_atomically

_RECORDS: Final = Path(__file__).parents[1] / "records"


class Loops(Record, frozen=True, kw_only=True):
    """The dated record."""

    date: str
    machine: Machine
    found: tuple[Examined, ...]


def main() -> int:
    """Exit code 0 when every script ran, was tuned, and ran under its plan."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("names", nargs="*", help="styles; all when none is named")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds of each tuning")
    parser.add_argument("--record", action="store_true", help="keep a dated record")
    options = parser.parse_args()
    found = []
    for loop in find(options.names):
        with tempfile.TemporaryDirectory(prefix="uncork-loops-") as work:
            data, budget_s = options.data.absolute(), options.budget
            found.append(examine(loop, data, Path(work), budget_s=budget_s))
        print(_row(found[-1]), file=sys.stderr, flush=True)
    today = datetime.date.today().isoformat()
    loops = Loops(date=today, machine=machine(), found=tuple(found))
    text = "\n".join(_page(loops))
    print(text)
    if options.record:
        write_atomically(_RECORDS / f"loops-{today}.json", to_json(loops))
        write_atomically(_RECORDS / f"loops-{today}.md", f"{text}\n".encode())
    return 1 if any(each.errors for each in found) else 0


def _page(loops: Loops) -> Iterator[str]:
    machine = loops.machine
    yield f"# Custom loops, {loops.date}"
    yield ""
    yield (
        f"{machine.cpu_model}, {machine.cpus:g} cores; TensorFlow {machine.tensorflow}, "
        f"Keras {machine.keras}, Python {machine.python}. The cause and its line named first: "
        f"{sum(each.is_right for each in loops.found)} of {len(loops.found)}."
    )
    yield ""
    yield "| loop | bottleneck | named | kept | gain | losses, plain again | losses with the plan |"
    yield "|---|---|---|---|---|---|---|"
    yield from (_row(each) for each in loops.found)


def _row(each: Examined) -> str:
    named, kept = ", ".join(each.named[:3]), ", ".join(each.kept) or "-"
    bottleneck, losses = f"{each.cause}:{each.line}", (_apart(each.repeats), _apart(each.planned))
    cells: Sequence[str] = (
        each.name,
        bottleneck,
        named,
        kept,
        _gain(each),
        *losses,
        *each.errors[:1],
    )
    return f"| {' | '.join(cells)} |".replace("\n", " ")


def _gain(each: Examined) -> str:
    if (speedup := each.speedup) is None:
        return "-"
    high = "" if speedup.high is None else f"{speedup.high:.2f}"
    return f"{speedup.ratio:.2f}x ({speedup.low:.2f} to {high})"


def _apart(difference: float | None) -> str:
    if difference is None:
        return "-"
    return "equal" if difference == 0 else f"{difference:.1%} apart"


if __name__ == "__main__":
    sys.exit(main())
