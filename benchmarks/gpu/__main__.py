"""What does the road do for trainings on an accelerator?

    python -m benchmarks.gpu [NAMES] [--budget 90] [--out FILE.json]

Each is tuned by ``uncork.tune`` in this process, and its road is printed as a user sees it. Fresh
processes, which ``uncork tune`` confirms in, start too slowly for a short lease.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import uncork
from benchmarks.gpu.trainings import TRAININGS
from uncork.core.base.record import to_json, write_atomically
from uncork.core.documents.plan import Policy
from uncork.measure.machine.devices import accelerators


def main() -> int:
    """Exit code 2 without an accelerator."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TRAININGS)}")
    parser.add_argument("--budget", type=float, default=90.0, help="seconds for each")
    parser.add_argument("--out", type=Path, help="a folder for the plans")
    parser.add_argument("--anywhere", action="store_true", help="try it without an accelerator")
    options = parser.parse_args()
    if not accelerators() and not options.anywhere:
        print("TensorFlow sees no accelerator here; --anywhere goes on all the same")
        return 2
    for name in options.names or TRAININGS:
        training = TRAININGS[name]()
        policy = Policy(budget_s=options.budget)
        plan = uncork.tune(training.model, training.data, policy=policy, **training.arguments)
        print(f"\n{name}, {plan.record.machine.cpu_model}, {', '.join(accelerators())}\n{plan}\n")
        sys.stdout.flush()
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            write_atomically(options.out / f"{name}.json", to_json(plan.record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
