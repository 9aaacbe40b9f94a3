"""What the lines of a training loop take beside its step."""

from __future__ import annotations

from uncork.core.facts import LoopLine
from uncork.core.stack import place
from uncork.measure.line_times import LineTimes, longest_function, statements


def loop_lines(times: LineTimes, steps: int, resident_s: float) -> tuple[LoopLine, ...]:
    """Lines with what they would take when nobody watched.

    Being watched slows Python down, and kernels not: all lines but those that call a compiled
    function take as much less as a step is shorter when nobody watches.

    Args:
        times: Of the lines.
        steps: That were watched.
        resident_s: Of a step that nobody watched.
    """
    dropping, growing = statements(times)
    each_s = {
        (line, work): seconds / steps
        for line, works in times.seconds.items()
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
                at=place(times.file, line),
                work="plain" if is_used else work,
                seconds=likely_s,
                share=likely_s / step_s,
                function_at=longest_function(times, line) if work == "function" else None,
                grows=line in growing,
            )
        )
    return tuple(sorted(found, key=lambda each: -each.seconds))
