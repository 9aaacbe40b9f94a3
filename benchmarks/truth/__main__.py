"""``make truth``: examine what was not examined yet, then print the scores of all of it."""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from benchmarks.machine import machine
from benchmarks.truth.catalog import CURES, FEW, ROOT, Workload, find
from benchmarks.truth.examine import PENDING, Examined, capture, examine
from benchmarks.truth.fitted import fast_bfloat16, fitted
from benchmarks.truth.page import page
from benchmarks.truth.plain import Plain, train
from uncork import __version__
from uncork.core.base.record import Record, digest, from_json, replace, to_json, write_atomically
from uncork.core.documents.plan_file import serialize_plan

_HERE: Final = Path(__file__).parent
_SOURCES: Final = Path(__file__).parents[2] / "src" / "uncork"
_RECORDS: Final = _HERE.parent / "records"


class Truth(Record, frozen=True, kw_only=True):
    """A dated record.

    Attributes:
        date: Of its last figure.
        version: Of Uncork, with the digest of its sources.
        machine: In words.
        found: One record for each workload.
    """

    date: str
    version: str
    machine: str
    found: tuple[Examined, ...]


def main() -> int:
    """Exit code 0 when each chosen workload could be examined."""
    options = _options()
    chosen = _chosen(options)
    if not chosen:
        print(f"no workload is called {' or '.join(options.names)}; see {ROOT}", file=sys.stderr)
        return 2
    data, kept, plain = (options.folder / name for name in ("data", "examined", "plain"))
    subprocess.run([sys.executable, ROOT / "data.py", data], check=True)
    sources = digest(*(p.read_bytes() for p in sorted(_SOURCES.rglob("*.py"))))
    tune = {w: _is_tuned(w, options.tune) for w in chosen}
    files = {w: kept / f"{_key(w, sources, tune=tune[w])}.json" for w in chosen}
    todo = [w for w in chosen if not files[w].exists()]
    for number, workload in enumerate(todo, 1):
        # A healthy script has no fix to be held against: when it is run, nothing need be timed.
        trained = _trained(workload, plain, data) if workload.fixed else Plain()
        found = _examine(workload, trained, files[workload], data, tune=tune[workload])
        print(f"[{number}/{len(todo)}] {_sentence(found)}", flush=True)
    # Nothing of these is timed, so they may disturb each other.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        every = list(pool.map(lambda w: _capture(w, files[w], plain, data), chosen))
    _report(every, f"{__version__} ({sources})", options.record)
    return 1 if any(e.errors for e in every) else 0


def _chosen(options: argparse.Namespace) -> list[Workload]:
    named = [w for w in find(options.names) if options.gpu or not w.needs_accelerator]
    folder, fast = options.folder / "scripts", fast_bfloat16()
    found = [(w, fitted(w, folder, fast=fast)) for w in named]
    for workload, fits in found:
        if fits is None:
            print(f"{workload.name}: left out, bfloat16 is not fast here")
    return [fits for _, fits in found if fits is not None]


def _trained(workload: Workload, kept: Path, data: Path) -> Plain:
    """In plain Python: it depends on the scripts and on the machine, not on Uncork."""
    here = machine()
    versions = (here.tensorflow, here.keras, here.cpu_model, str(here.cpus))
    made_by = [file.read_bytes() for file in (ROOT / "data.py", _HERE / "plain.py")]
    key = digest(workload.name, *versions, *made_by, *_texts(workload))
    file = kept / f"{key}.json"
    if file.exists():
        return from_json(file.read_bytes(), Plain)
    with tempfile.TemporaryDirectory(prefix="uncork-truth-") as work:
        found = train(workload, data, Path(work))
    if not found.errors:
        write_atomically(file, to_json(found))
    return found


def _examine(workload: Workload, plain: Plain, file: Path, data: Path, *, tune: bool) -> Examined:
    with tempfile.TemporaryDirectory(prefix="uncork-truth-") as work:
        found, plan = examine(workload, plain, data, Path(work), tune=tune)
    if plan is not None:
        write_atomically(_plan(file), serialize_plan(plan))
    write_atomically(file, to_json(found))
    return found


def _capture(workload: Workload, file: Path, kept: Path, data: Path) -> Examined:
    found = from_json(file.read_bytes(), Examined)
    if found.captured != PENDING or not _plan(file).exists():
        return found
    if found.plain is None:
        trained = _trained(workload, kept, data)
        found = replace(found, plain=trained.effect, errors=(*found.errors, *trained.errors))
    with tempfile.TemporaryDirectory(prefix="uncork-truth-") as work:
        found = capture(workload, found, _plan(file), data, Path(work))
    write_atomically(file, to_json(found))
    if found.captured:
        print(f"{found.name}: an empty plan changes its {found.captured}", flush=True)
    return found


def _plan(file: Path) -> Path:
    return file.with_suffix(".plan")


def _key(workload: Workload, sources: str, *, tune: bool) -> str:
    return digest(workload.name, sources, str(tune), *_texts(workload))


def _texts(workload: Workload) -> list[bytes]:
    return [p.read_bytes() for p in (workload.script, workload.fixed) if p is not None]


def _is_tuned(workload: Workload, styles: str) -> bool:
    style = CURES.get(workload.cause)
    if style is None or styles == "none" or (styles == "few" and workload.cause not in FEW):
        return False
    return styles == "all" or workload.style == style


def _sentence(e: Examined) -> str:
    if e.errors:
        return f"{e.name}: {e.errors[0]}"
    named = ", ".join(f"{f.cause}:{f.line}" for f in e.findings[:3])
    fix = "" if e.fix is None else f", the fix wins {e.fix:.2f}x"
    tuned = "" if e.tuned is None else f", tuned {e.tuned.gain:.2f}x"
    return f"{e.name}: {named}{fix}{tuned}, {e.wall_s:.0f} s"


def _report(found: Sequence[Examined], version: str, name: str | None) -> None:
    date = datetime.date.today().isoformat()
    here = machine()
    text = page(found, date, here, version)
    print(text)
    if name is not None:
        truth = Truth(date=date, version=version, machine=here.cpu_model, found=tuple(found))
        write_atomically(_RECORDS / f"{name}-{date}.json", to_json(truth))
        write_atomically(_RECORDS / f"{name}-{date}.md", text.encode())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.truth", description=str(__doc__).strip()
    )
    parser.add_argument(
        "names", nargs="*", help="workloads, by name, beginning or pattern: input, host/callbacks"
    )
    parser.add_argument("--folder", type=Path, default=Path("truth"), help="data and results")
    parser.add_argument(
        "--tune",
        choices=("none", "few", "one", "all"),
        default="few",
        help="of causes that the road can cure: no script, one of a few causes, one of each, all",
    )
    parser.add_argument("--gpu", action="store_true", help="also those that need an accelerator")
    parser.add_argument(
        "--record", nargs="?", const="truth", metavar="NAME", help="keep a dated record"
    )
    options = parser.parse_args()
    options.folder = options.folder.absolute()
    return options


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.exit(main())
