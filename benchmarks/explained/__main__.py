"""``python -m benchmarks.explained DATA [PATTERN ...]``: what has no name in a diagnosis?

DATA is the folder that ``tests/workloads/data.py`` wrote. A pattern selects workloads as in
``make truth``; ``--every N`` takes each N-th of them. ``--script "PATH ARGS"`` adds any other
script. ``--record NAME`` writes the rows to ``benchmarks/records``.
"""

from __future__ import annotations

import argparse
import datetime
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.machine import machine
from benchmarks.truth.catalog import find
from benchmarks.truth.fitted import fast_bfloat16, fitted
from benchmarks.truth.processes import run
from uncork.core.base.record import Record, from_json
from uncork.core.costmodel.run_breakdown import GROUPS, break_down_run
from uncork.core.documents.diagnosis import MIN_PART_SHARE, Diagnosis
from uncork.rules.base.claims import unclaimed_shares

_RECORDS: Final = Path(__file__).parents[1] / "records"
_LIMIT_S: Final = 240.0


class Row(Record, frozen=True, kw_only=True):
    """One diagnosis.

    Attributes:
        name: Of the workload, or the script.
        error: Why there is none; ``""`` otherwise.
        scope: What was broken down.
        explained: Part of it that has a name, 0 to 1.
        unclaimed: Groups above 15 % of it that no finding is about, with their shares.
        causes: Of the findings, in order.
        diagnosis_s: Seconds of the whole diagnosis, start of the script included.
    """

    name: str
    error: str = ""
    scope: str = ""
    explained: float = 0.0
    unclaimed: dict[str, float] = msgspec.field(default_factory=dict)
    causes: tuple[str, ...] = ()
    diagnosis_s: float = 0.0


def main() -> int:
    """Diagnose one after the other; returns 1 if any has a part without a name or a finding."""
    options = _options()
    rows = []
    with tempfile.TemporaryDirectory(prefix="explained-") as folder:
        for name, command in _commands(options, Path(folder)):
            rows.append(_diagnosed(name, command, Path(folder)))
            print(_line(rows[-1]), flush=True)
    print(_summary(rows))
    if options.record:
        date = datetime.datetime.now(datetime.UTC).date().isoformat()
        record = {"date": date, "machine": machine(), "rows": rows}
        text = msgspec.json.format(msgspec.json.encode(record), indent=1)
        (_RECORDS / f"explained-{options.record}-{date}.json").write_bytes(text)
    return int(any(row.error or row.unclaimed or row.explained < 0.9 for row in rows))


def _commands(options: argparse.Namespace, folder: Path) -> Iterator[tuple[str, list[str]]]:
    is_fast = fast_bfloat16()
    for workload in find(options.patterns)[:: options.every]:
        made = None if workload.needs_accelerator else fitted(workload, folder, fast=is_fast)
        if made is not None:
            yield workload.name, [str(made.script), str(options.data)]
    for line in options.script:
        words = shlex.split(line)
        yield Path(words[0]).stem, words


def _diagnosed(name: str, command: list[str], folder: Path) -> Row:
    begin, found = time.perf_counter(), folder / "found.json"
    found.unlink(missing_ok=True)
    options = ("--quiet", "--json", found, "--report", folder / "found.html")
    done = run([sys.executable, "-m", "uncork", "diagnose", *options, *command], folder, _LIMIT_S)
    seconds = time.perf_counter() - begin
    if done.exit_code != 0 or not found.exists():
        return Row(name=name, error=done.errors or "no result", diagnosis_s=seconds)
    diagnosis = from_json(found.read_bytes(), Diagnosis).workloads[0]
    breakdown = break_down_run(diagnosis)
    shares = unclaimed_shares(diagnosis.findings, breakdown)
    return Row(
        name=name,
        scope=breakdown.scope,
        explained=1 - breakdown.unexplained_share,
        unclaimed={
            group: shares[group]
            for group in GROUPS
            if group not in ("step", "unexplained") and shares[group] > MIN_PART_SHARE
        },
        causes=tuple(finding.cause for finding in diagnosis.findings),
        diagnosis_s=seconds,
    )


def _line(row: Row) -> str:
    told = row.error or f"{row.explained:.0%} explained of {row.scope}: {', '.join(row.causes)}"
    unclaimed = "".join(f"; NO FINDING: {g} {share:.0%}" for g, share in row.unclaimed.items())
    return f"{row.name:44} {row.diagnosis_s:4.0f} s  {told}{unclaimed}"


def _summary(rows: list[Row]) -> str:
    known = [row for row in rows if not row.error]
    if not known:
        return "no diagnosis"
    explained = sum(row.explained >= 0.9 for row in known)
    covered = sum(not row.unclaimed for row in known)
    middle = statistics.median(row.diagnosis_s for row in known)
    longest = max(row.diagnosis_s for row in known)
    return (
        f"{len(known)} of {len(rows)} diagnosed; at least 90 % explained in {explained}; nothing "
        f"above 15 % without a finding in {covered}; {middle:.0f} s in the median, {longest:.0f} s "
        "at most"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--script", action="append", default=[], metavar="'PATH ARGS'")
    parser.add_argument("--record", metavar="NAME")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
