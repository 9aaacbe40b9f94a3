"""Which seconds of the run each finding is about: no second is promised twice.

A finding saves a part of what its ``share_of`` says. It takes these seconds from the parts of the
run that its cause lies in, in the order of :data:`GROUPS_BY_CAUSE`, and never more than a part has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from uncork.core.base.record import replace
from uncork.core.costmodel.run_breakdown import GROUPS, Group, RunBreakdown
from uncork.core.documents.diagnosis import Cause, Finding

_INPUT: Final[tuple[Group, ...]] = ("input", "host", "step", "unexplained")
_HOST: Final[tuple[Group, ...]] = ("host", "input", "step", "unexplained")
_STEP: Final[tuple[Group, ...]] = ("step", "host", "input", "unexplained")
_ANEW: Final[tuple[Group, ...]] = ("compile", "callbacks", "input", "host", "step")
# Of these no script is an example: they say where the time goes, and that no other cause is known.
GENERAL_CAUSES: Final[tuple[Cause, ...]] = (
    "input_bound", "host_bound", "compile_time", "validation_time", "saving_time",
)  # fmt: skip
# Where a cause lies, likeliest first; any other lies in the step.
GROUPS_BY_CAUSE: Final[dict[Cause, tuple[Group, ...]]] = {
    "serial_map": _INPUT,
    "stateful_serial_map": _INPUT,
    "python_loader": _INPUT,
    "py_function": _INPUT,
    "no_prefetch": _INPUT,
    "per_element_work": _INPUT,
    "shuffle_of_decoded": _INPUT,
    "cache_missing": _INPUT,
    "cache_misplaced": _INPUT,
    "storage_bound": _INPUT,
    "autotune_memory": _INPUT,
    "array_copies": _INPUT,
    "wide_dtype": _INPUT,
    "one_hot_labels": _INPUT,
    "wasted_work": _INPUT,
    "unsharded_input": _INPUT,
    "transfer": _INPUT,
    "input_bound": ("input",),
    "eager_step": _HOST,
    "small_steps": _HOST,
    "fit_in_loop": _HOST,
    "sync_every_step": _HOST,
    "growing_state": _HOST,
    "metrics_every_step": _HOST,
    "cpu_quota": _HOST,
    "host_bound": ("host",),
    "retracing": _ANEW,
    "recompiling": _ANEW,
    "compile_time": ("compile",),
    "slow_start": ("setup", "compile"),
    "callbacks": ("callbacks", "saving", "host", "step"),
    "validation_setup": ("validation", "host", "step"),
    "validation_time": ("validation",),
    "saving_time": ("saving",),
}
# What a finding may say that its share and its bound are of, beside the steps.
_BESIDE_STEPS: Final[dict[str, tuple[Group, ...]]] = {
    "the step": (),
    "the training": ("compile",),
    "an epoch": ("compile", "callbacks", "validation"),
    "an epoch and its validation": ("validation",),
    "the whole run": GROUPS,
}
_ONCE: Final = "first step"


@dataclass
class Claims:
    """What is left of each part of a run, while findings take from it.

    Attributes:
        breakdown: Of the run.
        left_s: Seconds of each group that no finding has claimed yet.
        claimed_s: By group, cause by cause, in the order of the claims.
    """

    breakdown: RunBreakdown
    left_s: dict[Group, float] = field(init=False)
    claimed_s: dict[Group, dict[Cause, float]] = field(init=False)

    def __post_init__(self) -> None:
        self.left_s = {group: self._most_s(group) for group in GROUPS}
        self.claimed_s = {group: {} for group in GROUPS}

    def saved_s(self, finding: Finding) -> float:
        """Seconds of the run that go away with a finding at most, by itself."""
        beside = _BESIDE_STEPS.get(finding.share_of, ())
        base_s = sum(
            part.seconds
            for part in self.breakdown.parts
            if part.is_in_steps
            or (part.group in beside and (beside == GROUPS or part.name != _ONCE))
        )
        if finding.share_of == "the step" and finding.cause in ("callbacks", "retracing"):
            base_s += self._hooks_s(finding)
        most_s = sum(self._most_s(group) for group in _groups(finding))
        return min((1 - 1 / max(1.0, finding.upper_bound)) * base_s, most_s)

    def _hooks_s(self, finding: Finding) -> float:
        """Seconds of hooks of batches, beside the step; saves have a group of their own."""
        return sum(
            part.seconds
            for part in self.breakdown.parts
            if part.group == "callbacks" or (part.group == "saving" and part.at == finding.at)
        )

    def _most_s(self, group: Group) -> float:
        """Seconds of a group that may go away."""
        if group in ("setup", "compile"):
            return self.breakdown.avoidable_s(group)
        return self.breakdown.group_s(group)

    def take(self, finding: Finding) -> Finding:
        """The finding with what it saves of the run, and with what of that no other one did."""
        whole_s = self.breakdown.seconds
        if whole_s <= 0:
            return finding
        saved_s, own_s, others = self.saved_s(finding), 0.0, dict[Cause, float]()
        for group in _groups(finding):
            taken_s = min(self.left_s[group], saved_s - own_s)
            self.left_s[group] -= taken_s
            own_s += taken_s
            before = self.claimed_s[group]
            if own_s < saved_s:
                others |= {cause: others.get(cause, 0.0) + s for cause, s in before.items()}
            if taken_s > 0:
                before[finding.cause] = before.get(finding.cause, 0.0) + taken_s
        shared = max(others, key=others.__getitem__, default=None)
        return replace(
            finding,
            run_share=saved_s / whole_s,
            own_run_share=own_s / whole_s,
            same_time_as=shared if own_s < saved_s * (1 - _ROUNDING) else None,
        )

    def unclaimed_share(self, group: Group) -> float:
        """Part of the run in this group that a finding may be about and none is; 0 to 1.

        0 as well where findings claim at least half of the group: it has a name then.
        """
        whole_s, all_s = self.breakdown.seconds, self.breakdown.avoidable_s(group)
        left_s = self.left_s[group]
        return left_s / whole_s if left_s > all_s * _GOOD_PART else 0.0


# Of a share: sums of floats.
_ROUNDING: Final = 1e-6
# Of a group: what findings must leave unclaimed for it to have no name.
_GOOD_PART: Final = 0.5


def claim_in_order(findings: Sequence[Finding], breakdown: RunBreakdown) -> list[Finding]:
    """The same findings, each with what of the run it saves and none before it does.

    Args:
        findings: In the order in which they are shown.
        breakdown: Of the run.
    """
    claims = Claims(breakdown)
    return [claims.take(finding) for finding in findings]


def unclaimed_shares(findings: Iterable[Finding], breakdown: RunBreakdown) -> dict[Group, float]:
    """Part of the run in each group that none of these findings is about.

    Args:
        findings: All that are known.
        breakdown: Of the run.
    """
    claims = Claims(breakdown)
    for finding in findings:
        claims.take(finding)
    return {group: claims.unclaimed_share(group) for group in GROUPS}


def lies_in_same_group(finding: Finding, general: Finding) -> bool:
    """A finding is first of all about the part of the run that a general one names."""
    return finding.cause != general.cause and _groups(finding)[0] == _groups(general)[0]


def _groups(finding: Finding) -> tuple[Group, ...]:
    return GROUPS_BY_CAUSE.get(finding.cause, _STEP)
