"""Where one training step goes: the step as it runs against the same with a part taken away.

Measured in turn, so that the drift of a noisy machine falls on all of them; shares are formed
within each round, and their spread says how far they can be trusted.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass
from typing import Final

from uncork.compat.tf.functions import total_tracing_s
from uncork.core.base.measurement import Measurement, Spread, spread
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.engine.subject.subject import Subject
from uncork.measure.benchmark.interleave import Block, measure_blocks_interleaved, summarize
from uncork.training.variant import Variant

# Of a step, what is worth a second look.
_LARGE: Final = 0.09
# Of a step, what is taken for none.
_TRIFLE: Final = 0.05
# Waiting for input that leaves nothing else worth a second look.
_MOST_OF_STEP: Final = 0.5
# Python that makes up no more of it is asked of the training itself.
_MODEST: Final = 0.3


@dataclass(frozen=True)
class TimeBreakdown:
    """One step taken apart.

    Attributes:
        measurement: The step as it runs.
        consumer_speedup: How many times faster it runs on a resident batch.
        consumer_cpu_s: CPU seconds of one step then.
        shares: Shares of one step that add up to 1.
        intervals: Of the shares of input and Python, from round to round.
        tracing_share: Part of the step as it runs in which functions were traced anew.
        traced_s: Seconds in which its functions were traced before.
        first_step_s: Seconds of the first step beyond a later one: traced, compiled; 0 where that
            was not measured.
    """

    measurement: Measurement
    consumer_speedup: float
    consumer_cpu_s: float
    shares: dict[str, float]
    intervals: dict[str, Spread]
    tracing_share: float = 0.0
    traced_s: float = 0.0
    first_step_s: float = 0.0


def measure_breakdown(
    subject: Subject,
    variant: Variant,
    *,
    block_s: float,
    rounds: int,
    retry_factor: int = 2,
    check_training: bool = False,
    limit_s: float = math.inf,
) -> TimeBreakdown:
    """Run a version as it is, on a resident batch, and with its steps grouped, in turn.

    Where a part looks large and could still be noise, it is looked at once more.

    Args:
        subject: What is trained.
        variant: Which version of it.
        block_s: Seconds of one block.
        rounds: Blocks of each.
        retry_factor: How many times longer a second look is than the first.
        check_training: Where Python seems to take a modest part of a resident step, see whether the
            training itself gains that much with its steps grouped. Beside an input that works while
            Python does, it may not.
        limit_s: Seconds, compilation included, after which nothing more is looked at: where steps
            are long, there are fewer blocks, two of each at least.
    """
    deadline_s = time.monotonic() + limit_s
    runners = [subject.runner(variant), subject.resident_runner(variant)]
    traced_s = -total_tracing_s()
    primed_s, primed_steps = subject.prime_step(variant) if check_training else (0.0, 0)
    for runner in runners:
        runner.prime()
    traced_s += total_tracing_s()
    first = runners[1].block(block_s / 2)
    grouped = subject.grouped_runner(variant, first.wall_s / first.steps)
    runners += [grouped] if grouped else []

    def measure(rounds: int) -> list[list[Block]]:
        return measure_blocks_interleaved(
            runners, block_s=block_s, rounds=rounds, deadline_s=deadline_s
        )

    found = measure(rounds)
    waiting, python = _parts(subject, variant, found)
    has_time = time.monotonic() < deadline_s
    python_matters = waiting.low < _MOST_OF_STEP
    if has_time and (_unclear(waiting) or (python_matters and _unclear(python))):
        again = measure(retry_factor * rounds)
        found = [[*few, *others] for few, others in zip(found, again, strict=True)]
        waiting, python = _parts(subject, variant, found)
    if check_training and has_time and _is_modest(python) and not subject.loses_time_between_calls:
        python = min(
            python, _saved(subject, variant, block_s, retry_factor * rounds) or python, key=_low
        )
    consumer = 1 / max(1e-9, 1 - waiting.median)
    if subject.loses_time_between_calls:
        waiting, python = spread([0.0] * waiting.n), waiting
    return TimeBreakdown(
        measurement=summarize(found[0]),
        consumer_speedup=consumer,
        consumer_cpu_s=statistics.median(b.cpu_s / b.steps for b in found[1]),
        shares=breakdown(waiting, python),
        intervals={"input": waiting, "host": python},
        tracing_share=statistics.median(b.tracing_s / b.wall_s for b in found[0]),
        traced_s=traced_s,
        first_step_s=max(0.0, primed_s - primed_steps * _step_s(found[1])),
    )


def breakdown_with_new_input(
    earlier: WorkloadDiagnosis, measurement: Measurement
) -> TimeBreakdown | None:
    """One step taken apart after an edit of its input alone, without measuring its step again.

    Its seconds on a resident batch and those of Python between steps are taken from earlier.

    Args:
        earlier: Measured before the edit.
        measurement: The training as it runs after it.

    Returns:
        None where the step itself may take another time now: it is traced or compiled anew.
    """
    if earlier.tracing_share > _TRIFLE or earlier.breakdown.get("compile", 0.0) > _TRIFLE:
        return None
    samples = measurement.samples_per_s * measurement.step_s.median
    resident_s = samples / earlier.ceilings["consumer"]
    host_s = earlier.breakdown.get("host", 0.0) * earlier.step_s
    steps_s = [max(samples / speed, resident_s) for speed in measurement.block_samples_per_s]
    waiting = spread([(step_s - resident_s) / step_s for step_s in steps_s])
    python = spread([host_s / step_s for step_s in steps_s])
    return TimeBreakdown(
        measurement=measurement,
        consumer_speedup=1 / (1 - waiting.median),
        consumer_cpu_s=earlier.consumer_cpu_s or 0.0,
        shares=breakdown(waiting, python),
        intervals={"input": waiting, "host": python},
        tracing_share=earlier.tracing_share,
    )


def _step_s(blocks: list[Block]) -> float:
    return statistics.median(b.wall_s / b.steps for b in blocks)


def _parts(subject: Subject, version: Variant, found: list[list[Block]]) -> tuple[Spread, Spread]:
    """Shares of a step that are lost to input and to Python."""
    whole, alone, *many = ([b.wall_s / b.steps for b in blocks] for blocks in found)
    without_python = _without_python(subject, version, alone, *many)
    return _shares(whole, alone, whole), _shares(alone, without_python, whole)


def _is_modest(part: Spread) -> bool:
    return part.low > 0 and _LARGE <= part.median <= _MODEST


def _low(part: Spread) -> float:
    return part.low


def _saved(subject: Subject, version: Variant, block_s: float, rounds: int) -> Spread | None:
    """Part of the training that grouping its steps saves; None where they cannot be grouped."""
    together = subject.grouped_training_runner(version)
    if together is None:
        return None
    apart, grouped = measure_blocks_interleaved(
        [subject.runner(version), together], block_s=block_s, rounds=rounds
    )
    whole, less = ([b.wall_s / b.steps for b in blocks] for blocks in (apart, grouped))
    return _shares(whole, less, whole)


def _unclear(part: Spread) -> bool:
    return part.median >= _LARGE and part.low <= 0


def _without_python(
    subject: Subject, version: Variant, alone: list[float], many: list[float] | None = None
) -> list[float]:
    """Seconds of a resident step less its Python, round by round.

    Grouped steps tell, but two kinds of blocks differ by noise too, and on a long step that is more
    than its Python: no round may say more than what watched steps spend there.
    """
    resident_s = statistics.median(alone)
    if many is None:
        python_s = subject.python_s(resident_s) or 0.0
        return [each - python_s for each in alone]
    most_s = subject.max_python_s(version, resident_s)
    if most_s is None:
        return many
    return [max(m, a - most_s) for m, a in zip(many, alone, strict=True)]


def _shares(slow: list[float], fast: list[float], whole: list[float]) -> Spread:
    """What part of the whole step the difference of two makes, round by round.

    A resident step that took longer than a whole one is noise, and no part is more than the whole:
    neither is what a round that stalled takes from it.
    """
    return spread([(s - f) / max(s, f, w) for s, f, w in zip(slow, fast, whole, strict=True)])


def breakdown(waiting: Spread, python: Spread) -> dict[str, float]:
    """Shares of a step that add up to 1; what may be nothing but noise is ``unknown``.

    Args:
        waiting: What the step takes longer than on a resident batch: waiting for input, and on a
            CPU also the cores that the input takes from it.
        python: What it passes between its kernels.

    Example:
        >>> breakdown(spread([0.5, 0.5]), spread([0.125, -0.125, 0.25]))
        {'input': 0.5, 'host': 0.0, 'step': 0.375, 'unknown': 0.125}
    """
    left, shares, unknown = 1.0, {}, 0.0
    for name, part in (("input", waiting), ("host", python)):
        share = min(left, max(0.0, part.median))
        left -= share
        proven = part.low > 0
        shares[name] = share if proven else 0.0
        unknown += 0.0 if proven else share
    return {**shares, "step": left, "unknown": unknown}
