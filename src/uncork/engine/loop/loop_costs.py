"""What the lines of a custom training loop take beside its step."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Final

from uncork.core.evidence.loop import EvaluationCalls, HostSync, LoopLine
from uncork.measure.profile.host_sync import observe_host_waits
from uncork.measure.profile.keras_calls import observe_keras_calls
from uncork.measure.profile.line_profiler import (
    LineTimes,
    classify_statements,
    find_slowest_function,
)
from uncork.pycode.frames.stack import format_location
from uncork.training.variant import VariantRunner
from uncork.verify.provers.keras_calls import iterator_creation_s

# Between two steps passes what makes a batch; so much longer, and it is the end of an epoch.
_PAUSE: Final = 20
_LEAST_PAUSE_S: Final = 0.25
_REMEMBERED: Final = 64


@dataclass
class StepGaps:
    """What passes between two calls of the step, call by call.

    Attributes:
        wall_s: Elapsed seconds.
        busy_s: What of them the loop's own thread computed.
    """

    wall_s: list[float] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)

    def add(self, wall_s: float, busy_s: float) -> bool:
        """Count one; False for a pause, which is none."""
        usual = statistics.median(self.wall_s[-_REMEMBERED:]) if self.wall_s else wall_s
        if wall_s > max(_LEAST_PAUSE_S, _PAUSE * usual):
            return False
        self.wall_s.append(wall_s)
        self.busy_s.append(busy_s)
        return True


def loop_lines(times: LineTimes, steps: int, resident_s: float) -> tuple[LoopLine, ...]:
    """Lines with what they would take when nobody watched.

    Being watched slows Python down, and kernels not: all lines but those that call a compiled
    function take as much less as a step is shorter when nobody watches.

    Args:
        times: Of the lines.
        steps: That were watched.
        resident_s: Of a step that nobody watched.
    """
    dropping, growing = classify_statements(times)
    each_s = {
        (line, work): seconds / steps
        for line, works in times.seconds_by_line.items()
        for work, seconds in works.items()
    }
    graph_s = sum(seconds for (_, work), seconds in each_s.items() if work == "graph")
    python_s = sum(each_s.values()) - graph_s
    slowed = min(1.0, max(0.0, resident_s - graph_s) / python_s) if python_s else 1.0
    step_s = graph_s + slowed * python_s
    found = []
    for (line, work), seconds in each_s.items():
        likely_s = seconds if work == "graph" else slowed * seconds
        is_used = work == "function" and line not in dropping
        found.append(
            LoopLine(
                at=format_location(times.file, line),
                work="plain" if is_used else work,
                seconds=likely_s,
                share=likely_s / step_s,
                function_at=find_slowest_function(times, line) if work == "function" else None,
                is_accumulating=line in growing,
            )
        )
    return tuple(sorted(found, key=lambda each: -each.seconds))


# Calls of Keras's methods that are made again to see what is spared of them.
_TIMED_CALLS: Final = 2


def host_sync_cost(runner: VariantRunner, seconds: float) -> HostSync:
    """What part of the time the loop waits for values of its step."""
    with observe_host_waits() as found:
        block = runner.block(seconds)
    whole_s = block.warmup_s + block.wall_s
    return HostSync(share=min(1.0, found.seconds / whole_s), at=found.at)


def evaluation_calls_cost(runner: VariantRunner, seconds: float) -> EvaluationCalls | None:
    """What part of the time passes in calls of ``evaluate`` and ``predict``."""
    with observe_keras_calls() as found:
        block = runner.block(seconds)
    if not found.count:
        return None
    whole_s = block.warmup_s + block.wall_s
    each_s = [iterator_creation_s(call) for call in list(found.last_calls)[-_TIMED_CALLS:]]
    all_s = sum(each_s) / max(1, len(each_s)) * found.repeatable_count
    return EvaluationCalls(
        share=min(1.0, found.seconds / whole_s),
        calls_per_step=found.count / max(1, block.steps),
        setup_share=min(1.0, all_s / found.seconds),
        tracing_share=min(1.0, found.tracing_s / whole_s),
        at=found.at,
    )
