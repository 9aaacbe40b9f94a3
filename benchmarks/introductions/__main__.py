"""What does ``uncork tune`` do for scripts that others wrote?

    python -m benchmarks.introductions CHECKOUTS [NAME ...] [--store DIR] [--record]

CHECKOUTS is a folder with one of each repository in ``catalog.py`` (``CHECKOUTS/tensorflow/docs``
and so on). The scripts import matplotlib, pandas and IPython, too. The first training that does
real work is tuned, as a user would have it, nothing else running.
"""

from __future__ import annotations

import argparse
import datetime
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.introductions.catalog import INTRODUCTIONS, Introduction, text_of
from benchmarks.introductions.stand_ins import FOLDERS, STORE, made
from benchmarks.machine import machine
from uncork.core.base.machine import Machine
from uncork.core.base.record import Record, to_json, write_atomically
from uncork.core.documents.plan import Plan
from uncork.core.documents.plan_file import parse_plan

_ROOT: Final = Path(__file__).parents[2]
_RECORDS: Final = _ROOT / "benchmarks" / "records"
# Seconds after which a tuning is interrupted, beside its budget: fresh processes may take long.
_PATIENCE_S: Final = 480.0


class Tuned(Record, frozen=True, kw_only=True):
    """What came of one script.

    Attributes:
        script: Its name.
        trains: What, in a few words.
        found: The cause that was named first; ``""`` for none.
        before: Samples a second as written, in fresh processes where these were asked.
        after: With the plan.
        ratio: The gain, of pairs of processes.
        low: End of its interval.
        high: Likewise.
        verdict: Of fresh processes; ``left`` where nothing was kept.
        kept: Steps, in order.
        guarantee: What the plan promises.
        seconds: Of the tuning.
        error: Its last words, where it failed; ``""`` where it did not.
    """

    script: str
    trains: str
    found: str = ""
    before: float = 0.0
    after: float = 0.0
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    verdict: str = "left"
    kept: tuple[str, ...] = ()
    guarantee: str = ""
    seconds: float
    error: str = ""


class Introductions(Record, frozen=True, kw_only=True):
    """The dated record."""

    date: str
    machine: Machine
    budget_s: float
    found: tuple[Tuned, ...]


def main() -> int:
    """Exit code 0 when each of them was tuned."""
    options = _options()
    found = []
    for each in INTRODUCTIONS:
        if not options.names or each.name in options.names:
            with tempfile.TemporaryDirectory(prefix="uncork-introductions-") as work:
                found.append(_tuned(each, Path(work), options))
            print(_row(found[-1]), file=sys.stderr, flush=True)
    today = datetime.date.today().isoformat()
    record = Introductions(
        date=today, machine=machine(), budget_s=options.budget, found=tuple(found)
    )
    text = "\n".join(_page(record))
    print(text)
    if options.record:
        write_atomically(_RECORDS / f"introductions-{today}.json", to_json(record))
        write_atomically(_RECORDS / f"introductions-{today}.md", f"{text}\n".encode())
    return 1 if any(each.error for each in found) else 0


def _tuned(each: Introduction, work: Path, options: argparse.Namespace) -> Tuned:
    text = text_of(options.checkouts / each.repository, each.path)
    (work / "script.py").write_text(_with_stand_ins(text))
    for name in each.data:
        (work / name).symlink_to(made(name, FOLDERS, options.store))
    environment = {
        **os.environ,
        "HOME": str(work),
        "MPLBACKEND": "agg",
        "PYTHONPATH": os.pathsep.join(
            [str(_ROOT), str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        ),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        STORE: str(options.store),
    }
    command = [sys.executable, "-m", "uncork", "tune", "--budget", str(options.budget)]
    begin = time.monotonic()
    with (work / "said").open("w") as said:
        process = subprocess.Popen(
            [*command, "--plan", "plan.json", "script.py"],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        try:
            code = process.wait(options.budget + _PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            code = process.wait()
    seconds = time.monotonic() - begin
    if code != 0:
        last = ((work / "said").read_text().strip().splitlines() or [""])[-1]
        return Tuned(
            script=each.name, trains=each.trains, seconds=seconds, error=f"code {code}: {last}"
        )
    return _of_plan(each, parse_plan((work / "plan.json").read_bytes()), seconds)


def _of_plan(each: Introduction, plan: Plan, seconds: float) -> Tuned:
    causes = [finding.cause for finding in plan.before.findings]
    kept = [step.name for step in plan.accepted_steps]
    return Tuned(
        script=each.name,
        trains=each.trains,
        found=causes[0] if causes else "",
        before=plan.baseline.samples_per_s,
        after=plan.tuned.samples_per_s,
        ratio=plan.speedup.ratio,
        low=plan.speedup.low,
        high=plan.speedup.high,
        verdict=plan.speedup.verdict if kept else "left",
        kept=tuple(kept),
        guarantee=plan.guarantee if kept else "",
        seconds=seconds,
    )


def _with_stand_ins(text: str) -> str:
    """The script, which imports them first; what it takes from the future stays first."""
    future = [line for line in text.splitlines() if line.startswith("from __future__")]
    rest = [line for line in text.splitlines() if not line.startswith("from __future__")]
    return "\n".join([*future, "import benchmarks.introductions.stand_ins", *rest, ""])


def _page(record: Introductions) -> list[str]:
    kept = [each for each in record.found if each.verdict == "faster"]
    return [
        f"# Scripts of others, {record.date}",
        "",
        f"{record.machine.cpu_model}, {record.machine.cpus:g} cores; TensorFlow "
        f"{record.machine.tensorflow}, Keras {record.machine.keras}; {record.budget_s:.0f} s each.",
        f"Proved faster in fresh processes: {len(kept)} of {len(record.found)}.",
        "",
        "| script | trains | found first | samples/s | with the plan | gain | kept | promise | s |",
        "|---|---|---|---:|---:|---|---|---|---:|",
        *(_row(each) for each in record.found),
    ]


def _row(each: Tuned) -> str:
    if each.error:
        return f"| {each.script} | {each.trains} | {each.error} | | | | | | {each.seconds:.0f} |"
    gain = "left as it is"
    if each.kept:
        gain = f"{each.ratio:.1f}x ({each.low:.1f} to {each.high:.1f})"
        gain += "" if each.verdict == "faster" else f", {each.verdict.replace('_', ' ')}"
    return (
        f"| {each.script} | {each.trains} | {each.found} | {each.before:,.0f} | {each.after:,.0f} "
        f"| {gain} | {', '.join(each.kept)} | {each.guarantee} | {each.seconds:.0f} |"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("names", nargs="*", help="file names without ends; all when none is named")
    parser.add_argument("--budget", type=float, default=270.0, help="seconds of each tuning")
    parser.add_argument("--record", action="store_true", help="keep a dated record")
    cache = Path.home() / ".cache" / "uncork-introductions"
    parser.add_argument("--store", type=Path, default=cache, help="where made data are kept")
    options = parser.parse_args()
    options.checkouts, options.store = options.checkouts.absolute(), options.store.absolute()
    return options


if __name__ == "__main__":
    sys.exit(main())
