"""The answers of the proof as a page: false refusals with their interval, and its power."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.precision.ask import CANDIDATES, Asked
from benchmarks.precision.binomial import interval
from benchmarks.precision.models import MODELS, PLANTED
from uncork.core.base.machine import Machine
from uncork.core.base.record import Record

_EDGES: Final = (-math.inf, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, math.inf)
# Words of the proof that tell which of its questions was answered with no.
_REASONS: Final = {
    "NaN or infinite": "not finite",
    "is too wide": "band too wide",
    "outside": "a run outside the band",
    "higher by more than": "not shown to be as good",
    "on average": "worse on average",
}


class Answers(Record, frozen=True, kw_only=True):
    """Of one model with one seed."""

    asked: tuple[Asked, ...]


class Precision(Record, frozen=True, kw_only=True):
    """A dated record.

    Attributes:
        date: Of the run.
        sources: Digest of Uncork's own.
        machine: Which it ran on.
        asked: All answers.
    """

    date: str
    sources: str
    machine: Machine
    asked: tuple[Asked, ...]


def page(record: Precision) -> str:
    """Markdown."""
    asked = record.asked
    return "\n".join([*_head(record), *_table(asked), *_by_bias(asked), *_planted(asked), ""])


def _head(record: Precision) -> Iterator[str]:
    machine = record.machine
    steps = sorted({each.steps for each in record.asked})
    yield f"# The proof of precision, {record.date}"
    yield ""
    yield (
        f"{machine.cpu_model}, {machine.cpus:g} cores; TensorFlow {machine.tensorflow}, Keras "
        f"{machine.keras}; Uncork's sources {record.sources}; trainings of "
        f"{', '.join(map(str, steps))} steps. `python -m benchmarks.precision` makes it anew."
    )
    yield ""


def _table(asked: Sequence[Asked]) -> Iterator[str]:
    yield f"| candidate | refused | 95 % interval | {' | '.join(MODELS)} | bias | why |"
    yield f"|---|---:|---|{'---:|' * len(MODELS)}---|---|"
    for name in CANDIDATES:
        found = [each for each in asked if each.candidate == name and each.model in MODELS]
        if found:
            low, high = interval(_refused(found), len(found))
            of_models = [_share([e for e in found if e.model == model]) for model in MODELS]
            cells = (name, _share(found), f"{low:.0%} to {high:.0%}", *of_models)
            yield f"| {' | '.join((*cells, _bias(found), _why(found)))} |"
    yield ""
    yield (
        "Bias: how much higher the last loss is, in standard deviations of the original's own over "
        "data orders; median, least and most."
    )


def _by_bias(asked: Sequence[Asked]) -> Iterator[str]:
    """The power: of all harm, whatever it was, by what it did to the last loss."""
    harm = [each for each in asked if each.kind == "harm" and each.bias is not None]
    yield ""
    yield "| what harm did to the last loss, in the same unit | refused | 95 % interval |"
    yield "|---|---:|---|"
    for low, high in itertools.pairwise(_EDGES):
        found = [each for each in harm if each.bias is not None and low <= each.bias < high]
        if found:
            ends = interval(_refused(found), len(found))
            yield f"| {low:g} to {high:g} | {_share(found)} | {ends[0]:.0%} to {ends[1]:.0%} |"


def _planted(asked: Sequence[Asked]) -> Iterator[str]:
    for model in PLANTED:
        found = [each for each in asked if each.model == model]
        for name in dict.fromkeys(each.candidate for each in found):
            own = [each for each in found if each.candidate == name]
            yield ""
            yield f"{model}, {name}: {_share(own)} refused. {_why(own)}".rstrip()


def _refused(found: Sequence[Asked]) -> int:
    return sum(not each.kept for each in found)


def _share(found: Sequence[Asked]) -> str:
    return f"{_refused(found)} of {len(found)}" if found else "-"


def _bias(found: Sequence[Asked]) -> str:
    known = [each.bias for each in found if each.bias is not None]
    if not known:
        return "-"
    return f"{statistics.median(known):.2g} ({min(known):.2g} to {max(known):.2g})"


def _why(found: Sequence[Asked]) -> str:
    reasons = Counter(_reason(each.detail) for each in found if not each.kept)
    return ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())


def _reason(detail: str) -> str:
    return next((short for words, short in _REASONS.items() if words in detail), detail)
