"""Does the comparison keep its promises? Two programs, identical or 5 % apart, many times over.

    python benchmarks/comparison.py --identical 200 --apart 100 --json record.json

Each run compares two real programs (matrix products on this machine, whatever else it does) by the
very function that judges the steps of the road. Identical ones must come out ``not_proven``; a true
difference must be found, and the time that took is stated.

A step that seemed to gain, and was not proven, gets a second look at the end of the road, of many
pairs that are judged once. ``--second`` makes that look alone.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import time
from collections import Counter
from pathlib import Path

import numpy as np

from uncork.measure.benchmark.interleave import Block, Trial, interleave, interleave_until_budget

# Shared: where in memory a program's data lies can make a difference of some per cent by itself.
_MATRIX = np.random.default_rng(0).random((160, 160), dtype=np.float32)
_PRODUCT = np.empty_like(_MATRIX)


class Program:
    """Multiplies matrices; one step is ``products`` of them.

    Args:
        products: Work of one step.
    """

    def __init__(self, products: int) -> None:
        self._products = products

    def block(self, seconds: float) -> Block:
        """As many steps as fit into the time."""
        steps, cpu, begin = 0, time.process_time(), time.perf_counter()
        while time.perf_counter() - begin < seconds:
            for _ in range(self._products):
                np.matmul(_MATRIX, _MATRIX, out=_PRODUCT)
            steps += 1
        wall_s, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
        return Block(steps=steps, samples=steps, wall_s=wall_s, cpu_s=cpu_s, warmup_s=0.0)


def compare_once(slow: int, fast: int, block_s: float, *, second: bool) -> tuple[Trial, float]:
    """One comparison, and the seconds it took."""
    compare = interleave_until_budget if second else interleave
    begin = time.perf_counter()
    trial = compare(Program(slow), Program(fast), block_s=block_s, budget_s=1e9)
    return trial, time.perf_counter() - begin


def campaign(runs: int, slow: int, fast: int, block_s: float, *, second: bool) -> dict[str, object]:
    """Many comparisons of the same two programs, summed up."""
    found = [compare_once(slow, fast, block_s, second=second) for _ in range(runs)]
    comparisons = [trial.comparison for trial, _ in found]
    return {
        "runs": runs,
        "true_ratio": slow / fast,
        "verdicts": dict(Counter(c.verdict for c in comparisons)),
        "ratio_median": statistics.median(c.ratio for c in comparisons),
        "covered": sum(c.low <= slow / fast <= (c.high or 0.0) for c in comparisons) / runs,
        "pairs_median": statistics.median(c.n for c in comparisons),
        "seconds_median": statistics.median(seconds for _, seconds in found),
        "detectable_median": statistics.median(c.min_detectable_ratio for c in comparisons),
    }


def main() -> None:
    """Both campaigns; prints the record, and writes it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--identical", type=int, default=200)
    parser.add_argument("--apart", type=int, default=100)
    parser.add_argument("--block", type=float, default=0.1, metavar="SECONDS")
    parser.add_argument("--second", action="store_true", help="the second look instead")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    record = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "block_s": options.block,
        "look": "second" if options.second else "first",
        "identical": campaign(options.identical, 40, 40, options.block, second=options.second),
        "five_percent": campaign(options.apart, 42, 40, options.block, second=options.second),
    }
    text = json.dumps(record, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
