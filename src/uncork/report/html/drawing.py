"""Where things go in the drawings: coordinates from figures, without any markup.

Lengths are in units of the drawing's ``viewBox``, ``y`` grows downwards.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Final

from uncork.core.base.record import Record, replace
from uncork.report.content.figures import escape_control_characters, format_count, truncate
from uncork.report.content.plan_content import ChartPoint, Prediction, SpeedChart

_WIDTH: Final = 1000.0
_HEIGHT: Final = 400.0
_LEFT: Final = 64.0
_RIGHT: Final = 8.0
_TOP: Final = 46.0
_BOTTOM: Final = 62.0
_NARROWEST_COLUMN: Final = 92.0

# A ceiling further above than this would press the chart flat: it is named, not drawn to scale.
_CEILING_IN_SIGHT: Final = 2.5
# Room that the labels of a tread need below it, or above it, to stay legible.
_LABELS: Final = 64.0
_CLEAR: Final = 34.0
# Room for one line of text; and for the name of the ceiling, as wide as it gets.
_LINE: Final = 22.0
_CEILING_LABEL: Final = 290.0

# Pipes are drawn up to this multiple of the measured speed; beyond, a wider pipe says nothing.
MAX_PIPE_RATIO: Final = 5.0


class Tick(Record, frozen=True, kw_only=True):
    """A line of the grid."""

    y: float
    label: str


class Slot(Record, frozen=True, kw_only=True):
    """Where one stop stands: its left edge, its width, and the height of its tread."""

    x: float
    width: float
    y: float

    @property
    def middle(self) -> float:
        """Centre of the slot."""
        return self.x + self.width / 2


class Scale(Record, frozen=True, kw_only=True):
    """The vertical axis: 0 at the bottom, ``max_samples_per_s`` samples/s at the top."""

    max_samples_per_s: float
    bottom: float = _HEIGHT - _BOTTOM

    def y(self, value: float) -> float:
        """Height of a speed; what does not fit is drawn at the top edge."""
        share = min(max(value, 0.0), self.max_samples_per_s) / self.max_samples_per_s
        return self.bottom - (self.bottom - _TOP) * share


class Column(Record, frozen=True, kw_only=True):
    """One column of the chart.

    Attributes:
        point: What is drawn.
        slot: Where; the tread of a rejected step is that of the speed that stays in force.
        mark: Height to which a rejected step would have led, or which was confirmed.
        low: Height of the lower end of the interval, None if there is none.
        high: Height of its upper end.
        value_y: Baseline of the speed's text.
        gain_y: Baseline of the gain's text.
        badge_y: Upper edge of the guarantee's badge.
        name: Lines of the label below the axis.
    """

    point: ChartPoint
    slot: Slot
    mark: float | None
    low: float | None
    high: float | None
    value_y: float
    gain_y: float
    badge_y: float
    name: tuple[str, ...]


class CeilingLine(Record, frozen=True, kw_only=True):
    """The dashed line; ``is_above_chart`` says that it lies above the drawing.

    Its name begins at ``label_x``.
    """

    y: float
    label_x: float = _LEFT + 4
    samples_per_s: float
    is_above_chart: bool


class ChartDrawing(Record, frozen=True, kw_only=True):
    """Everything that the speed chart needs; ``stairs`` and ``area`` are SVG paths."""

    width: float
    height: float
    left: float
    right: float
    bottom: float
    ticks: tuple[Tick, ...]
    columns: tuple[Column, ...]
    stairs: str
    area: str
    ceiling: CeilingLine | None


class Pipe(Record, frozen=True, kw_only=True):
    """A piece of pipe in a box of 100 by 100: its body, its two walls, the stream within."""

    body: str
    left: str
    right: str
    stream_x: float
    stream_width: float


class PredictionDot(Record, frozen=True, kw_only=True):
    """Predicted and measured on one axis, in percent of its length."""

    predicted: float
    measured: float
    low: float
    high: float


def draw_chart(chart: SpeedChart) -> ChartDrawing:
    """Lay out the speed chart."""
    points = chart.points
    width = max(_WIDTH, _LEFT + _RIGHT + len(points) * _NARROWEST_COLUMN)
    each = (width - _LEFT - _RIGHT) / len(points)
    scale, ceiling = _scale(chart)
    columns: list[Column] = []
    level = scale.bottom
    for number, point in enumerate(points):
        if point.kind in ("baseline", "accepted", "confirmed") and point.samples_per_s is not None:
            level = scale.y(point.samples_per_s)
        slot = Slot(x=_LEFT + number * each, width=each, y=level)
        columns.append(_column(point, slot, scale, ceiling))
    walked = [column for column in columns if column.point.kind != "confirmed"]
    return ChartDrawing(
        width=width,
        height=_HEIGHT,
        left=_LEFT,
        right=width - _RIGHT,
        bottom=scale.bottom,
        ticks=tuple(
            Tick(y=scale.y(v), label=format_count(v)) for v in round_ticks(scale.max_samples_per_s)
        ),
        columns=tuple(columns),
        stairs=_stairs(walked),
        area=_area(walked, scale.bottom),
        ceiling=ceiling and replace(ceiling, label_x=_label_x(ceiling, columns)),
    )


def _label_x(ceiling: CeilingLine, columns: Sequence[Column]) -> float:
    """Where the name of the ceiling crosses no labels of columns: as far left as it can be."""
    for first, column in enumerate(columns):
        begin = column.slot.x
        under = [c for c in columns[first:] if c.slot.x < begin + _CEILING_LABEL]
        fits = under[-1].slot.x + under[-1].slot.width >= begin + _CEILING_LABEL
        if fits and not any(_is_crossed(each, ceiling.y) for each in under):
            return begin + 4
    return _LEFT + 4


def _is_crossed(column: Column, y: float) -> bool:
    """Labels of a column lie at this height, or close by."""
    highest = min(column.value_y, column.gain_y, column.badge_y, column.slot.y) - _LINE
    lowest = max(column.value_y, column.gain_y, column.badge_y + _LINE, column.slot.y) + _LINE
    return highest < y < lowest


def round_ticks(top: float, wanted: int = 4) -> tuple[float, ...]:
    """Round values from 0 up to ``top``.

    Example:
        >>> round_ticks(2700)
        (0.0, 500.0, 1000.0, 1500.0, 2000.0, 2500.0)
    """
    if not top > 0:
        return (0.0,)
    power = 10.0 ** math.floor(math.log10(top / wanted))
    step = next(power * m for m in (1, 2, 5, 10) if top / (power * m) <= wanted + 1.5)
    return tuple(step * number for number in range(int(top / step) + 1))


def draw_pipes(rates: Sequence[float | None], flow: float | None) -> tuple[Pipe, ...]:
    """A pipe as wide as each stage is fast, and the same stream through all of them.

    Args:
        rates: samples/s that each stage could supply alone, source first; None if unknown.
        flow: samples/s measured: the stream, which nothing can be narrower than.
    """
    if not flow or not rates:
        return tuple(_pipe(50.0, 50.0, 50.0, 0.0) for _ in rates)
    limit = flow * MAX_PIPE_RATIO
    half = [50.0 * min(max(rate or limit, flow), limit) / limit for rate in rates]
    stream = 50.0 * flow / limit
    above = [half[0], *half[:-1]]
    below = [*half[1:], stream]
    return tuple(
        _pipe((a + own) / 2, own, (own + b) / 2, stream)
        for a, own, b in zip(above, half, below, strict=True)
    )


def draw_prediction_dots(
    predictions: Sequence[Prediction],
) -> tuple[float, tuple[PredictionDot, ...]]:
    """Where ``1x`` lies on the common axis, and the dots, all in percent."""
    values = [1.0]
    for each in predictions:
        values += [each.predicted, each.measured, each.low or 1.0, each.high or 1.0]
    low, high = min(values), max(values)
    room = (high - low) or 1.0

    def x(value: float) -> float:
        return 3.0 + 94.0 * (value - low) / room

    return x(1.0), tuple(
        PredictionDot(
            predicted=x(each.predicted),
            measured=x(each.measured),
            low=x(each.measured if each.low is None else each.low),
            high=x(each.measured if each.high is None else each.high),
        )
        for each in predictions
    )


def _scale(chart: SpeedChart) -> tuple[Scale, CeilingLine | None]:
    """The axis, and the ceiling on it if one is known."""
    forced = [p.samples_per_s or 0.0 for p in chart.points if p.kind not in ("rejected", "failed")]
    tried = [p.samples_per_s or 0.0 for p in chart.points]
    # A rejected step may have been absurdly fast; it must not press the rest flat.
    most = min(max(tried), 1.6 * max(forced)) or 1.0
    if chart.ceiling is None:
        return Scale(max_samples_per_s=most * 1.15), None
    if chart.ceiling > most * _CEILING_IN_SIGHT:
        return Scale(max_samples_per_s=most * 1.5), CeilingLine(
            y=_TOP, samples_per_s=chart.ceiling, is_above_chart=True
        )
    scale = Scale(max_samples_per_s=max(most, chart.ceiling) * 1.1)
    line = CeilingLine(y=scale.y(chart.ceiling), samples_per_s=chart.ceiling, is_above_chart=False)
    return scale, line


def _column(point: ChartPoint, slot: Slot, scale: Scale, ceiling: CeilingLine | None) -> Column:
    """Place the labels where neither the axis nor the ceiling crosses them."""
    y = slot.y
    near = ceiling is not None and y - _CLEAR < ceiling.y + 4 and y > ceiling.y - _CLEAR
    value_y, gain_y, badge_y = y - 10, y + 20, y + 30
    if scale.bottom - y < _LABELS + _LINE * near:
        value_y, gain_y, badge_y = y - 10, y - 29, y - 64
    elif near:
        value_y, gain_y, badge_y = y + 22, y + 41, y + 51
    marked = point.kind in ("rejected", "failed", "confirmed")
    return Column(
        point=point,
        slot=slot,
        mark=scale.y(point.samples_per_s) if marked and point.samples_per_s else None,
        low=scale.y(point.low) if point.low is not None else None,
        high=scale.y(point.high) if point.high is not None else None,
        value_y=value_y,
        gain_y=gain_y,
        badge_y=badge_y,
        name=_wrapped(point.label, int(slot.width / 8)),
    )


def _wrapped(label: str, width: int) -> tuple[str, ...]:
    lines = textwrap.wrap(escape_control_characters(label), max(width, 6)) or [""]
    kept = lines[:2]
    if len(lines) > 2:
        kept[-1] = truncate(f"{kept[-1]} {lines[2]}", max(width, 6))
    return tuple(kept)


def _stairs(walked: Sequence[Column]) -> str:
    start = walked[0].slot
    treads = (f"V{each.slot.y:.1f}H{each.slot.x + each.slot.width:.1f}" for each in walked)
    return f"M{start.x:.1f},{start.y:.1f}{''.join(treads)}"


def _area(walked: Sequence[Column], bottom: float) -> str:
    return f"{_stairs(walked)}V{bottom:.1f}H{walked[0].slot.x:.1f}Z"


def _pipe(top: float, own: float, bottom: float, stream: float) -> Pipe:
    return Pipe(
        body=f"{_wall(50 - top, 50 - own, 50 - bottom)}"
        f"L{50 + bottom:.1f},100{_wall_upwards(50 + top, 50 + own)}Z",
        left=_wall(50 - top, 50 - own, 50 - bottom),
        right=_wall(50 + top, 50 + own, 50 + bottom),
        stream_x=50 - stream,
        stream_width=2 * stream,
    )


def _wall(top: float, own: float, bottom: float) -> str:
    # The curves end in the same direction in which the next piece starts: no kink where they meet.
    return f"M{top:.1f},0Q{own:.1f},12 {own:.1f},40L{own:.1f},60Q{own:.1f},88 {bottom:.1f},100"


def _wall_upwards(top: float, own: float) -> str:
    return f"Q{own:.1f},88 {own:.1f},60L{own:.1f},40Q{own:.1f},12 {top:.1f},0"
