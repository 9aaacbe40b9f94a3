"""Rules turn evidence into findings: pure, one file for each kind of bottleneck.

Correctness and environment findings come first, then what saves most of the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.costmodel.run_breakdown import RunBreakdown, break_down_run
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules import healthy, unclaimed
from uncork.rules.base.claims import GENERAL_CAUSES, Claims, claim_in_order, lies_in_same_group
from uncork.rules.correctness import (
    keras_defects,
    leaking_split,
    random_under_cache,
    repeated_draws,
)
from uncork.rules.device import (
    augmentation_in_model,
    compute_bound,
    dense_embedding_update,
    low_precision,
    low_precision_harmful,
    optimizer_kernels,
    padding,
    per_example_loop,
    replica_too_small,
    rnn_slow_kernel,
    slow_kernel,
)
from uncork.rules.host import (
    callbacks,
    eager,
    fit_in_loop,
    growing_state,
    loop_lines,
    metrics_every_step,
    recompiling,
    retracing,
    small_steps,
    sync_every_step,
    validation_setup,
)
from uncork.rules.input import (
    array_copies,
    autotune_memory,
    cache,
    no_prefetch,
    one_hot_labels,
    per_element_work,
    python_loader,
    serial_maps,
    shuffle_of_decoded,
    storage_bound,
    transfer,
    wasted_work,
    wide_dtype,
)
from uncork.rules.machine import environment, idle_devices, page_faults, slow_start

# Causes that say why a loader is slow: they replace the finding that it is slow.
_WHY_PYTHON = ("array_copies", "wide_dtype")
_SEVERITIES = ("correctness", "environment", "speed")

# Any order: findings are sorted by their cost, not by their rule.
RULES = (
    serial_maps.find,
    cache.find,
    environment.find,
    idle_devices.find,
    replica_too_small.find,
    random_under_cache.find,
    repeated_draws.find,
    leaking_split.find,
    keras_defects.find,
    growing_state.find,
    sync_every_step.find,
    recompiling.find,
    wasted_work.find,
    per_element_work.find,
    wide_dtype.find,
    storage_bound.find,
    shuffle_of_decoded.find,
    no_prefetch.find,
    autotune_memory.find,
    python_loader.find,
    array_copies.find,
    one_hot_labels.find,
    transfer.find,
    small_steps.find,
    fit_in_loop.find,
    eager.find,
    retracing.find,
    callbacks.find,
    loop_lines.find,
    slow_start.find,
    metrics_every_step.find,
    validation_setup.find,
    padding.find,
    low_precision_harmful.find,
    optimizer_kernels.find,
    dense_embedding_update.find,
    per_example_loop.find,
    augmentation_in_model.find,
    slow_kernel.find,
    rnn_slow_kernel.find,
)


# Expensive, but not a mistake: tried in this order, each only if nothing before promises a gain.
# Correctness findings promise none, so they do not count.
_IF_NOTHING_ELSE = (low_precision.find, page_faults.find)
# The price of a decision: it stands only where nothing else, of whatever cause, takes much time.
_LAST = compute_bound.find


def judge(diagnosis: WorkloadDiagnosis, machine: Machine) -> WorkloadDiagnosis:
    """The same diagnosis with its findings."""
    evidence = _without_waiting_lines(diagnosis, machine)
    all_findings = [finding for rule in RULES for finding in rule(evidence, machine)]
    findings = list(_unexplained(all_findings, evidence))
    for rule in _IF_NOTHING_ELSE:
        if not _promises(findings):
            findings += rule(evidence, machine)
    findings += unclaimed.find(evidence, findings)
    if not _promises(findings):
        findings += _LAST(evidence, machine)
    ranked = _ranked(findings, break_down_run(evidence))
    return replace(diagnosis, findings=tuple(ranked or healthy.find(evidence)))


def _promises(findings: Sequence[Finding]) -> bool:
    return any(finding.upper_bound > 1 for finding in findings)


def _ranked(findings: Sequence[Finding], run: RunBreakdown) -> list[Finding]:
    """By what of the whole run each saves; none is promised what another one saves before it."""
    claims = Claims(run)
    saved_s = {id(each): claims.saved_s(each) for each in findings}
    for each in findings:
        if each.cause in GENERAL_CAUSES:  # behind a finding that says more of the same time
            able = [f for f in findings if f is not each and lies_in_same_group(f, each)]
            saved_s[id(each)] = min([saved_s[id(each)], *(saved_s[id(f)] for f in able)])
    return claim_in_order(sorted(findings, key=lambda each: _rank(each, saved_s[id(each)])), run)


def _without_waiting_lines(diagnosis: WorkloadDiagnosis, machine: Machine) -> WorkloadDiagnosis:
    """Lines of a loop that merely wait for an accelerator are not what takes its time."""
    return replace(diagnosis, loop_lines=()) if machine.devices else diagnosis


def _unexplained(findings: Sequence[Finding], diagnosis: WorkloadDiagnosis) -> Iterator[Finding]:
    """Without a slow loader of which another finding, about the same, explains at least half."""
    for finding in findings:
        lines = _lines_of_loader(finding, diagnosis)
        why = [_saved(f) for f in findings if f.cause in _WHY_PYTHON and f.at in lines]
        if finding.cause != "python_loader" or max(why, default=0.0) < _saved(finding) / 2:
            yield finding


def _lines_of_loader(finding: Finding, diagnosis: WorkloadDiagnosis) -> set[str]:
    """Where the loader is that was found to be slow, and what in it is known to cost."""
    lines: set[str | None] = set()
    for stage in diagnosis.stages:
        if stage.has_python_code and finding.at in (stage.at, stage.python_code_at):
            copied_at = stage.array_copy.at if stage.array_copy else None
            lines |= {stage.at, stage.python_code_at, stage.float64_at, copied_at}
    return {line for line in lines if line is not None}


def _saved(finding: Finding) -> float:
    """Part of the step that goes away with it at most."""
    return 1 - 1 / finding.upper_bound


def _rank(finding: Finding, saved_s: float) -> tuple[int, float, bool, float]:
    """What the environment hides comes first where its cost is unknown."""
    is_bounded = finding.severity == "environment" and finding.upper_bound > 1
    severity = "speed" if is_bounded else finding.severity
    is_general = finding.cause in GENERAL_CAUSES
    return _SEVERITIES.index(severity), -saved_s, is_general, -finding.upper_bound
