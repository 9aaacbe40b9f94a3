from __future__ import annotations

import pytest

from records import plan
from uncork.core.base.record import replace
from uncork.report.content.plan_content import ChartPoint, Prediction, SpeedChart, speed_chart
from uncork.report.html.drawing import draw_chart, draw_pipes, draw_prediction_dots, round_ticks


def baseline(speed=100.0):
    return ChartPoint(kind="baseline", label="baseline", samples_per_s=speed)


@pytest.mark.parametrize("top", [0.03, 1, 7, 99, 100, 2700, 1.3e6])
def test_ticks_are_few_round_and_in_range(top):
    ticks = round_ticks(top)
    assert 3 <= len(ticks) <= 7
    assert ticks[0] == 0
    assert ticks[-1] <= top


def test_ticks_of_nothing():
    assert round_ticks(0.0) == (0.0,)


def test_heights_are_to_scale():
    drawing = draw_chart(speed_chart(plan()))
    rise = {c.point.label: drawing.bottom - c.slot.y for c in drawing.columns}
    assert rise["cache"] / rise["baseline"] == pytest.approx(1.83 * 1.74)
    assert drawing.ceiling is not None
    assert (drawing.bottom - drawing.ceiling.y) / rise["baseline"] == pytest.approx(
        3.79 * 2480 / 2298
    )


def test_a_rejected_step_leaves_the_level_and_marks_where_it_would_have_led():
    drawing = draw_chart(speed_chart(plan()))
    columns = {c.point.label: c for c in drawing.columns}
    slower = columns["jit compile"]
    assert slower.slot.y == columns["steps per execution"].slot.y
    assert slower.mark is not None
    assert slower.mark > slower.slot.y


def test_everything_stays_inside():
    drawing = draw_chart(speed_chart(plan()))
    for column in drawing.columns:
        assert 0 <= column.slot.y <= drawing.bottom
        assert min(column.value_y, column.gain_y, column.badge_y) > 0
        assert max(column.value_y, column.gain_y, column.badge_y + 20) <= drawing.bottom
        assert column.slot.x + column.slot.width <= drawing.right + 0.01


def test_a_ceiling_out_of_sight_is_named_and_does_not_flatten_the_road():
    drawing = draw_chart(SpeedChart(points=(baseline(),), ceiling=1e6))
    assert drawing.ceiling is not None
    assert drawing.ceiling.is_above_chart
    assert drawing.bottom - drawing.columns[0].slot.y > 100


def test_an_absurd_rejected_speed_does_not_flatten_the_road():
    absurd = ChartPoint(kind="rejected", label="wrong", samples_per_s=1e9)
    drawing = draw_chart(SpeedChart(points=(baseline(), absurd), ceiling=None))
    assert drawing.bottom - drawing.columns[0].slot.y > 100


@pytest.mark.parametrize("speed", [None, 0.0])
def test_a_road_without_speeds_is_flat_but_drawn(speed):
    drawing = draw_chart(SpeedChart(points=(baseline(speed),), ceiling=None))
    assert drawing.columns[0].slot.y == drawing.bottom


def test_long_names_are_cut_to_two_lines():
    point = replace(baseline(), label="a very long optimization name that never ends at all")
    name = draw_chart(SpeedChart(points=(point,) * 9, ceiling=None)).columns[0].name
    assert len(name) == 2
    assert name[1].endswith("…")


def test_many_steps_widen_the_drawing_instead_of_crowding_it():
    points = (baseline(),) * 30
    drawing = draw_chart(SpeedChart(points=points, ceiling=None))
    assert drawing.columns[0].slot.width >= 92


def test_pipes_narrow_at_the_slow_stage_and_carry_one_stream():
    pipes = draw_pipes([100_000.0, 645.0, None], 612.0)
    assert [pipe.stream_width for pipe in pipes] == [20.0] * 3
    walls = [float(pipe.left.split("L")[1].split(",")[0]) for pipe in pipes]
    assert walls[0] == 0.0
    assert 38 < walls[1] <= 40
    assert walls[2] == 0.0


def test_pipes_of_an_unknown_flow_carry_no_stream():
    assert [pipe.stream_width for pipe in draw_pipes([1.0, None], None)] == [0.0, 0.0]
    assert draw_pipes([], 3.0) == ()


def test_dots_share_one_axis_that_holds_them_all():
    rows = [Prediction(name="a", predicted=3.0, measured=0.5, low=None, high=None)]
    one, dots = draw_prediction_dots(rows)
    assert dots[0].measured < one < dots[0].predicted
    assert dots[0].low == dots[0].high == dots[0].measured
    assert draw_prediction_dots([])[1] == ()
