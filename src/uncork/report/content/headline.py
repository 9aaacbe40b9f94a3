"""The headline figures of a plan: one record that terminal, HTML page and sentences share.

A plan is measured several times: in the tuning process, before and after each optimization, and
then in fresh processes. A report shows one speed before, one speed after, and one ratio, which
belong together: the speed after is the speed before times the ratio.

The ratio is ``speedup.ratio`` of the plan, the geometric mean over pairs of fresh processes, with
its interval. The speed before is ``baseline.samples_per_s``. The speed after is their product. In a
plan that fresh processes confirmed it is also ``tuned.samples_per_s``: both speeds are geometric
means there (``engine.commands.confirm``), for a ratio of medians is not the median of ratios. A
plan that was not confirmed has the speeds of the tuning process, and their ratio.

The training step has one speed, too: the ceiling. It is the speed after divided by its share of the
ceiling, which was measured in the same processes.
"""

from __future__ import annotations

from uncork.core.base.measurement import Verdict, is_open_interval
from uncork.core.base.record import Record
from uncork.core.documents.plan import Plan
from uncork.core.edits.edit import Guarantee
from uncork.report.content.edit_text import GUARANTEE_TEXTS
from uncork.report.content.figures import (
    finite_or_none,
    format_percent,
    format_rate,
    format_ratio,
)


class Headline(Record, frozen=True, kw_only=True):
    """What a plan is about, in figures.

    Attributes:
        before_samples_per_s: Speed of the training that the plan is compared with.
        after_samples_per_s: Speed with the plan: the speed before times the ratio.
        ratio: Speed after over speed before.
        low: Lower end of its interval; None where there is none.
        high: Upper end; None where there is none.
        verdict: What the interval says.
        n_processes: Processes that were compared; 0 where the figures are of the tuning process.
        ceiling_samples_per_s: Speed of the tuned training step alone; None if unknown.
        ceiling_share: Speed after over the ceiling, at most 1; None if unknown.
        guarantee: The loosest of the accepted optimizations.
        unproved: Names of accepted optimizations whose proof did not hold.
    """

    before_samples_per_s: float | None
    after_samples_per_s: float | None
    ratio: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    n_processes: int
    ceiling_samples_per_s: float | None
    ceiling_share: float | None
    guarantee: Guarantee
    unproved: tuple[str, ...]

    @property
    def before_text(self) -> str:
        """Speed before, e.g. ``606/s``."""
        return format_rate(self.before_samples_per_s)

    @property
    def after_text(self) -> str:
        """Speed after."""
        return format_rate(self.after_samples_per_s)

    @property
    def ratio_text(self) -> str:
        """The ratio, e.g. ``3.8x``."""
        return format_ratio(self.ratio)

    @property
    def interval_text(self) -> str:
        """Interval of the ratio, e.g. ``3.7x to 3.9x``."""
        return format_interval(self.low, self.high, self.ratio or 1.0)

    @property
    def ceiling_text(self) -> str:
        """Speed of the training step alone."""
        return format_rate(self.ceiling_samples_per_s)

    @property
    def ceiling_share_text(self) -> str:
        """Speed after as a share of the ceiling."""
        return format_percent(self.ceiling_share)

    @property
    def guarantee_text(self) -> str:
        """What the guarantee promises."""
        return GUARANTEE_TEXTS[self.guarantee]

    @property
    def processes_text(self) -> str:
        """Where the speeds were measured."""
        if not self.n_processes:
            return "the tuning process"
        return "one process" if self.n_processes == 1 else f"{self.n_processes} fresh processes"


def headline(plan: Plan) -> Headline:
    """The headline figures of a plan."""
    before, after, ratio = _speeds(plan)
    speedup = plan.speedup
    share = _ceiling_share(plan)
    return Headline(
        before_samples_per_s=before,
        after_samples_per_s=after,
        ratio=ratio,
        low=finite_or_none(speedup.low) if speedup.n_processes else None,
        high=finite_or_none(speedup.high) if speedup.n_processes else None,
        verdict=speedup.verdict,
        n_processes=speedup.n_processes,
        ceiling_samples_per_s=after / share if after and share else None,
        ceiling_share=share,
        guarantee=plan.guarantee,
        unproved=tuple(
            step.name for step in plan.accepted_steps if not (step.proof and step.proof.passed)
        ),
    )


def _speeds(plan: Plan) -> tuple[float | None, float | None, float | None]:
    """Speed before, speed after, and their ratio."""
    before, tuned = (finite_or_none(each.samples_per_s) for each in (plan.baseline, plan.tuned))
    ratio = finite_or_none(plan.speedup.ratio) if plan.speedup.n_processes else None
    if not before or tuned is None:
        return before, tuned, None
    if plan.steps_needed_for_memory == plan.accepted_steps:  # nothing to compare it with
        return before, tuned, tuned / before
    return (before, before * ratio, ratio) if ratio else (before, tuned, tuned / before)


def _ceiling_share(plan: Plan) -> float | None:
    """Of the ceiling; at most 1: the two may be measured one after the other."""
    ceiling = finite_or_none(plan.ceiling_samples_per_s)
    share = finite_or_none(plan.tuned.samples_per_s / ceiling) if ceiling else None
    return min(1.0, share) if share else None


def format_interval(low: float | None, high: float | None, ratio: float = 1.0) -> str:
    """The interval of a ratio, as text.

    Example:
        >>> format_interval(3.68, 3.91), format_interval(1.2, 900.0), format_interval(0.0, None)
        ('3.7x to 3.9x', '1.20x or more', 'no interval')
    """
    if finite_or_none(low) is None or finite_or_none(high) is None:
        return "no interval"
    if is_open_interval(ratio, high):
        return f"{format_ratio(low)} or more"
    return f"{format_ratio(low)} to {format_ratio(high)}"
