"""Sums over what was examined. Pure: records in, figures out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from benchmarks.truth.catalog import CORRECTNESS, CURES
from benchmarks.truth.examine import Examined, Named, Tried
from uncork.core.base.record import Record

# A script whose fix wins less does not show the bottleneck that it claims.
LEAST_FIX: Final = 1.2
# Errors of a script itself; where only Uncork failed on it, its cause was not named.
_SCRIPTS: Final = ("plain", "fixed")
# True of most scripts that imitate an accelerator, and not what they are there for.
STAND_IN: Final = "cpu_quota"


class Share(Record, frozen=True):
    """So many of so many."""

    count: int
    of: int

    def __str__(self) -> str:
        """``8 of 10``; ``-`` where there is nothing to count."""
        return f"{self.count} of {self.of}" if self.of else "-"

    @property
    def ratio(self) -> float:
        """0 where there is nothing to count."""
        return self.count / self.of if self.of else 0.0


class Spot(Record, frozen=True):
    """Median and 90th percentile of some figures; None where there are none."""

    median: float | None
    p90: float | None
    n: int

    def __str__(self) -> str:
        """In per cent."""
        if self.median is None or self.p90 is None:
            return "-"
        return f"{self.median:.0%}, 90th percentile {self.p90:.0%} (n = {self.n})"


class Scores(Record, frozen=True, kw_only=True):
    """What a set of workloads says of Uncork.

    Attributes:
        examined: The script and its fix ran, and Uncork did not fail on it.
        slow_as_claimed: The expert's fix wins at least 20 %.
        top1: The cause was named first; where Uncork failed, it was not.
        top3: It was among the first three findings.
        line: Where it was among them, the marked line was blamed.
        alarms: Healthy scripts in which something was found.
        captured: Under an empty plan, exit code, output and weights are those of plain Python; of
            those scripts that repeat themselves in plain Python.
        bound_error: Promise of the right finding, where it makes one, against the fix, whole
            measured gain.
        prediction_error: Predicted against measured gain of the steps that were tried.
        unexplained: Share of a step that the diagnosis has no name for, healthy scripts too.
        reached: Share of the expert's gain that ``tune`` reached by itself, one figure a script.
        proofs: Passed, of those that were asked for.
        wall_s: Median seconds of one examination.
    """

    examined: Share
    slow_as_claimed: Share
    top1: Share
    top3: Share
    line: Share
    alarms: Share
    captured: Share
    bound_error: Spot
    prediction_error: Spot
    unexplained: Spot
    reached: Spot
    proofs: Share
    wall_s: float


def score(found: Sequence[Examined]) -> Scores:
    """All figures over some workloads."""
    good = [e for e in found if not e.errors]
    ran = [e for e in found if not any(error.startswith(_SCRIPTS) for error in e.errors)]
    planted = [e for e in ran if e.layer != "healthy"]
    healthy = [e for e in ran if e.layer == "healthy"]
    timed = [e for e in planted if e.fix is not None and e.cause not in CORRECTNESS]
    steps = [step for e in good if e.tuned for step in e.tuned.steps]
    named = [(e, right) for e in planted if (right := _right(e)) is not None]
    return Scores(
        examined=Share(len(good), len(found)),
        slow_as_claimed=_count(timed, lambda e: (e.fix or 0.0) >= LEAST_FIX),
        top1=_count(planted, lambda e: [f.cause for f in _found(e)[:1]] == [e.cause]),
        top3=_count(planted, lambda e: _right(e) is not None),
        line=_count(named, lambda pair: pair[1].line in pair[0].bottleneck_lines),
        alarms=_count(healthy, lambda e: [f.cause for f in e.findings] != ["healthy"]),
        captured=_count([e for e in good if e.captured is not None], lambda e: e.captured == ""),
        bound_error=_spot(_bound_errors(named)),
        prediction_error=_spot(_prediction_errors(steps)),
        unexplained=_spot([e.unexplained for e in good if e.unexplained is not None]),
        reached=_spot(_reached(planted)),
        proofs=_count([s for s in steps if s.proved is not None], lambda s: s.proved is True),
        wall_s=statistics.median(e.wall_s for e in found) if found else 0.0,
    )


def curable(found: Iterable[Examined]) -> list[Examined]:
    """Those whose cause the road has an answer to."""
    return [e for e in found if e.cause in CURES]


def _right(examined: Examined) -> Named | None:
    return next((f for f in _found(examined)[:3] if f.cause == examined.cause), None)


def _found(examined: Examined) -> Sequence[Named]:
    """Of a stand-in, without the cores that it leaves idle to imitate an accelerator."""
    _, _, style = examined.name.rpartition("/")
    stood_in = style.startswith("standin_") and examined.cause != STAND_IN
    return [f for f in examined.findings if not (stood_in and f.cause == STAND_IN)]


def _bound_errors(named: Sequence[tuple[Examined, Named]]) -> list[float]:
    pairs = [(right.gain, e.fix_steady or e.fix) for e, right in named if right.gain > 1.0]
    return [abs(promised / gained - 1) for promised, gained in pairs if gained]


def _prediction_errors(steps: Sequence[Tried]) -> list[float]:
    return [abs(s.predicted / s.measured - 1) for s in steps if s.predicted and s.measured]


def _reached(planted: Sequence[Examined]) -> list[float]:
    """Of the time that the fix saves: (1 - 1 / tuned) / (1 - 1 / fixed), between 0 and 1."""
    shares = []
    for e in planted:
        gained = e.fix_steady or e.fix
        if e.tuned is not None and gained is not None and gained >= LEAST_FIX:
            shares.append(min(1.0, max(0.0, (1 - 1 / e.tuned.gain) / (1 - 1 / gained))))
    return shares


def _spot(values: Sequence[float]) -> Spot:
    if not values:
        return Spot(None, None, 0)
    p90 = statistics.quantiles(values, n=10)[-1] if len(values) > 1 else values[0]
    return Spot(statistics.median(values), p90, len(values))


def _count(items: Sequence[object], holds: Callable[..., bool]) -> Share:
    return Share(sum(1 for item in items if holds(item)), len(items))
