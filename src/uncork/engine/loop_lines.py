"""What the lines of a training loop take beside its step."""

from __future__ import annotations

from uncork.core.diagnosis import LoopLine
from uncork.core.stack import place
from uncork.measure.interleave import Block
from uncork.measure.line_times import LineTimes, longest_function, statements


def loop_lines(times: LineTimes, watched: Block, resident_s: float) -> tuple[LoopLine, ...]:
    """Lines with what they would take when nobody watched.

    Being watched slows Python down, and kernels not. So no line takes more than what the others,
    as they were watched, leave of a step that nobody watched.

    Args:
        times: Of the lines.
        watched: The block of steps meanwhile.
        resident_s: Of a step that nobody watched.
    """
    dropping, growing = statements(times)
    each_s = {
        (line, work): seconds / watched.steps
        for line, works in times.seconds.items()
        for work, seconds in works.items()
    }
    total_s, found = sum(each_s.values()), []
    for (line, work), seconds in each_s.items():
        is_used = work == "function" and line not in dropping
        likely_s = max(0.0, min(seconds, resident_s - (total_s - seconds)))
        found.append(
            LoopLine(
                at=place(times.file, line),
                work="plain" if is_used else work,
                seconds=likely_s,
                share=likely_s / resident_s,
                function_at=longest_function(times, line) if work == "function" else None,
                grows=line in growing,
            )
        )
    return tuple(sorted(found, key=lambda each: -each.seconds))
