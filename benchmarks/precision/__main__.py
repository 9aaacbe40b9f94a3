"""Is the proof of another precision right? The same training, bfloat16, and harm done on purpose.

    python -m benchmarks.precision [MODEL ...] [--seeds 4] [--record]

Five models with four seeds each, held against candidates of which is known whether they are the
same training. Nothing is timed. What was asked already is kept in the folder, by the digest of the
sources.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from pathlib import Path
from typing import Final

from uncork.core.base.record import digest, from_json, to_json, write_atomically

_HERE: Final = Path(__file__).parent
_RECORDS: Final = _HERE.parent / "records"
_SOURCES: Final = _HERE.parents[1] / "src" / "uncork"


def main() -> int:
    """Exit code 0 when every candidate was asked about."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from benchmarks.precision.ask import OF_PLANTED, ask_all  # noqa: PLC0415 - TensorFlow reads it
    from benchmarks.precision.models import MODELS, PLANTED  # noqa: PLC0415
    from benchmarks.precision.page import Answers, Precision, page  # noqa: PLC0415
    from uncork.measure.machine.probe import probe_host  # noqa: PLC0415

    options = _options()
    every = (*MODELS, *PLANTED)
    unknown = set(options.models) - set(every)
    if unknown:
        print(f"no model is called {', '.join(sorted(unknown))}: {', '.join(every)}")
        return 2
    sources = digest(*(p.read_bytes() for p in sorted(_SOURCES.rglob("*.py"))))
    own = digest(
        *(_HERE.joinpath(f"{name}.py").read_bytes() for name in ("ask", "harms", "models"))
    )
    found = []
    for name in options.models or every:
        for seed in range(1, options.seeds + 1):
            file = options.folder / f"{digest(name, str(seed), sources, own)}.json"
            if not file.exists():
                asked = ask_all(name, seed, OF_PLANTED) if name in PLANTED else ask_all(name, seed)
                write_atomically(file, to_json(Answers(asked=tuple(asked))))
                kept = ", ".join(each.candidate for each in asked if each.kept)
                print(f"{name}, seed {seed}: kept {kept}", file=sys.stderr, flush=True)
            found.extend(from_json(file.read_bytes(), Answers).asked)
    today = datetime.date.today().isoformat()
    record = Precision(date=today, sources=sources, machine=probe_host(), asked=tuple(found))
    text = page(record)
    print(text)
    if options.record:
        write_atomically(_RECORDS / f"precision-{today}.json", to_json(record))
        write_atomically(_RECORDS / f"precision-{today}.md", text.encode())
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.precision", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="all when none is named")
    parser.add_argument("--seeds", type=int, default=4, help="trainings of each model")
    parser.add_argument("--folder", type=Path, default=Path("truth/precision"))
    parser.add_argument("--record", action="store_true", help="keep a dated record")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
