"""The record as a page: one table of scores, one of causes, one line for each workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.truth.catalog import LAYERS
from benchmarks.truth.examine import Examined
from benchmarks.truth.scores import STAND_IN, Scores, curable, score
from uncork.core.base.machine import Machine


def page(found: Sequence[Examined], date: str, machine: Machine, version: str) -> str:
    """Markdown.

    Args:
        found: What was examined.
        date: Of the record, ``2026-01-31``.
        machine: Where.
        version: Which Uncork: its version and the digest of its sources.
    """
    return "\n".join([*_head(found, date, machine, version), *_layers(found), *_lines(found), ""])


def _head(found: Sequence[Examined], date: str, machine: Machine, version: str) -> Iterator[str]:
    minutes = sum(e.wall_s for e in found) / 60
    yield f"# Truth, {date}"
    yield ""
    yield f"Uncork {version}; {_where(machine)}."
    yield f"{len(found)} workloads, {minutes:.0f} minutes. `make truth` makes this page anew."
    yield ""
    yield "| score | all planted | of causes that the road can cure |"
    yield "|---|---|---|"
    every = score([e for e in found if e.layer != "healthy"])
    ours = score(curable(found))
    for name, pick in _ROWS.items():
        yield f"| {name} | {getattr(every, pick)} | {getattr(ours, pick)} |"
    healthy = score([e for e in found if e.layer == "healthy"])
    yield ""
    yield f"False alarms: {healthy.alarms} healthy scripts."
    both = score(found)
    yield f"Under an empty plan, exit code, output and weights as in plain Python: {both.captured}"
    yield "scripts that repeat themselves in plain Python."
    yield f"Share of a step that a diagnosis has no name for, all scripts: {both.unexplained}."
    yield f"Of stand-ins, which leave cores idle to imitate an accelerator, `{STAND_IN}` does not"
    yield "count where causes are; the last table shows it."
    yield ""


_ROWS = {
    "examined without an error": "examined",
    "fix wins at least 20 %": "slow_as_claimed",
    "cause named first": "top1",
    "cause among the first three": "top3",
    "right line, where named": "line",
    "promise of the finding against the fix: error": "bound_error",
    "predicted against measured gain of a step: error": "prediction_error",
    "share of the expert's gain reached by tune": "reached",
    "proofs passed": "proofs",
}


def _layers(found: Sequence[Examined]) -> Iterator[str]:
    yield "| layer / cause | scripts | first | first three | line | reached | seconds each |"
    yield "|---|---|---|---|---|---|---|"
    for layer in LAYERS[:-1]:
        here = [e for e in found if e.layer == layer]
        if here:
            yield _row(f"**{layer}**", score(here))
        for cause in sorted({e.cause for e in here}):
            yield _row(cause, score([e for e in here if e.cause == cause]))
    yield ""


def _row(name: str, s: Scores) -> str:
    reached = "-" if s.reached.median is None else f"{s.reached.median:.0%}"
    figures = (name, s.examined, s.top1, s.top3, s.line, reached, f"{s.wall_s:.0f}")
    return f"| {' | '.join(map(str, figures))} |"


def _lines(found: Sequence[Examined]) -> Iterator[str]:
    yield "| workload | fix | steady | found (promise, line) | tuned | empty plan | s |"
    yield "|---|---|---|---|---|---|---|"
    for e in found:
        if e.errors:
            first = e.errors[0].splitlines()
            yield f"| {e.name} | {first[0]} ... {first[-1][:80]} | | | | | {e.wall_s:.0f} |"
            continue
        named = ", ".join(f"{f.cause} ({f.gain:.1f}x, {f.line})" for f in e.findings[:3])
        tuned = "" if e.tuned is None else f"{e.tuned.gain:.2f}x"
        captured = {"": "same", None: "unsteady"}.get(e.captured, e.captured)
        figures = (e.name, _x(e.fix), _x(e.fix_steady), named, tuned, captured, f"{e.wall_s:.0f}")
        yield f"| {' | '.join(map(str, figures))} |"


def _x(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}x"


def _where(machine: Machine) -> str:
    versions = f"TensorFlow {machine.tensorflow}, Keras {machine.keras}, Python {machine.python}"
    return f"{machine.cpu_model}, {machine.cpus:g} cores; {versions}"
