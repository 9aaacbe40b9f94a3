"""The figures of a plan are the same wherever they are shown."""

from __future__ import annotations

import html
import json
import math
import re
from pathlib import Path

import pytest

from records import STEPS, empty_plan, measurement, plan
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan, Speedup
from uncork.core.documents.plan_file import parse_plan
from uncork.report.content.figures import format_rate
from uncork.report.content.headline import Headline, headline
from uncork.report.content.plan_content import plan_info
from uncork.report.html.page import plan_html
from uncork.report.terminal.page import plan_text
from uncork.report.terminal.verdict import plan_verdict_text

SAVED = sorted((Path(__file__).parent / "plans").glob("*.json"))
FASTER = Speedup(ratio=4.1, low=3.2, high=5.3, verdict="faster", n_processes=6)
# Medians of a few processes give another ratio than the mean over their pairs.
MEDIANS = plan(baseline=measurement(333.0), tuned=measurement(1532.0), speedup=FASTER)
INPUT_ONLY = plan(steps=STEPS[:4], ceiling_share=0.76)
UNCONFIRMED = plan(speedup=replace(FASTER, ratio=1.0, low=0.0, high=None, n_processes=0))
PLANS = {
    "plan": plan(),
    "medians": MEDIANS,
    "input only": INPUT_ONLY,
    "unconfirmed": UNCONFIRMED,
    "nothing accepted": empty_plan(),
    **{path.stem: parse_plan(path.read_bytes(), str(path)) for path in SAVED},
}
each_plan = pytest.mark.parametrize("shown", PLANS.values(), ids=PLANS.keys())


def page_text(shown: Plan) -> str:
    """What a reader sees of the HTML page, tags aside."""
    body = plan_html(shown).partition("</style>")[2]
    return html.unescape(re.sub(r"<[^>]+>", " ", body))


def tiles(shown: Plan) -> dict[str, str]:
    found = re.findall(
        r'class="label">([^<]*)</span><span class="value">([^<]*)<', plan_html(shown)
    )
    return {label: html.unescape(value) for label, value in found}


def step_speeds(shown: Plan) -> list[str]:
    """Of the training step, in the tables of the pipeline before and after."""
    rows = re.findall(r'<tr class="device.*?</tr>', plan_html(shown), re.DOTALL)
    return [re.findall(r'number strong">([^<]*)<', row)[0] for row in rows]


def test_saved_plans_are_there() -> None:
    assert SAVED


@each_plan
def test_the_speed_after_is_the_speed_before_times_the_ratio(shown: Plan) -> None:
    found = headline(shown)
    assert found.before_samples_per_s is not None
    assert found.ratio is not None
    product = found.before_samples_per_s * found.ratio
    assert found.after_samples_per_s == pytest.approx(product)
    if shown.speedup.n_processes:
        assert found.ratio == shown.speedup.ratio
        assert (found.low, found.high) == (shown.speedup.low, shown.speedup.high)


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_the_figures_of_a_saved_plan_are_those_of_its_file(path: Path) -> None:
    written, found = json.loads(path.read_bytes()), headline(PLANS[path.stem])
    assert found.before_samples_per_s == written["baseline"]["samples_per_s"]
    assert found.after_samples_per_s == pytest.approx(written["tuned"]["samples_per_s"])
    if written["speedup"]["n_processes"]:
        assert found.ratio == written["speedup"]["ratio"]


@each_plan
def test_terminal_and_page_show_the_figures_of_the_headline(shown: Plan) -> None:
    found = headline(shown)
    expected = f"{bare(found.before_text)} to {bare(found.after_text)} samples/s"
    for text in (plan_verdict_text(shown, 300), plan_text(shown, 300), page_text(shown)):
        speeds = re.findall(r"[\d,.]+(?: [MG])? to [\d,.]+(?: [MG])? samples/s", text)
        assert set(speeds) <= {expected}
        assert bool(speeds) == bool(shown.accepted_steps)
        for ratio, interval in re.findall(r"([\d.]+x) \(([^)]*)\) in [^:]* process", text):
            assert (ratio, interval) == (found.ratio_text, found.interval_text)
        for ratio in re.findall(r"trains ([\d.]+x) as fast", text):
            assert ratio == found.ratio_text


def bare(rate: str) -> str:
    return rate.removesuffix("/s")


@each_plan
def test_the_tiles_of_the_page_are_the_headline(shown: Plan) -> None:
    found, shown_tiles = headline(shown), tiles(shown)
    assert shown_tiles["before"] == found.before_text
    assert shown_tiles["ceiling"] == found.ceiling_text
    if shown.accepted_steps:
        assert shown_tiles["after"] == found.after_text
        assert shown_tiles["guarantee"] == found.guarantee


@each_plan
def test_a_training_step_has_one_speed(shown: Plan) -> None:
    """Unless edits change it: then the original step has another one, which its headroom gives."""
    found, info = headline(shown), plan_info(shown)
    speeds = step_speeds(shown)
    assert speeds[-1] == found.ceiling_text
    if not (shown.step_edits or shown.environment or shown.keeps_freed_memory):
        assert set(speeds) == {found.ceiling_text}
    else:
        own = (found.before_samples_per_s or math.nan) * shown.before.headroom
        assert speeds[0] == format_rate(own)
    assert info.chart.ceiling == found.ceiling_samples_per_s


@each_plan
def test_the_length_of_a_confirmed_step_fits_its_speed(shown: Plan) -> None:
    """Within one process both are medians of blocks, which fit less well."""
    if not shown.speedup.n_processes or shown is MEDIANS:
        return
    info, batch = plan_info(shown), shown.before.workload.batch_size
    assert batch is not None
    speeds = (info.headline.before_samples_per_s, info.headline.after_samples_per_s)
    for step, speed, times in zip(
        info.step_times, speeds, (1, shown.batch_multiplier), strict=False
    ):
        assert step.seconds is not None
        assert step.seconds * (speed or 0.0) == pytest.approx(batch * times, rel=0.02)


@each_plan
def test_the_chart_ends_at_the_speed_after(shown: Plan) -> None:
    chart, found = plan_info(shown).chart, headline(shown)
    assert chart.points[0].samples_per_s == found.before_samples_per_s
    if chart.points[-1].kind == "confirmed":
        assert chart.points[-1].samples_per_s == found.after_samples_per_s


@each_plan
def test_the_share_of_the_ceiling_is_that_of_the_speeds(shown: Plan) -> None:
    found = headline(shown)
    assert found.ceiling_share is not None
    product = found.ceiling_share * (found.ceiling_samples_per_s or math.nan)
    assert product == pytest.approx(found.after_samples_per_s)
    said = f"{found.ceiling_share_text} of what its training step allows"
    if found.verdict == "faster" and shown.accepted_steps:
        assert said in plan_verdict_text(shown, 300)


def test_medians_that_give_another_ratio_are_not_shown() -> None:
    text = plan_verdict_text(MEDIANS, 200)
    assert "4.1x as fast: 333 to 1,365 samples/s" in text
    assert "1,532" not in text + page_text(MEDIANS) + plan_text(MEDIANS)


def test_what_is_unknown_is_no_number() -> None:
    odd = plan(baseline=measurement(math.nan), tuned=measurement(math.inf))
    found = headline(odd)
    texts = (found.before_text, found.after_text, found.ratio_text, found.ceiling_text)
    assert texts == ("unknown",) * 4
    assert isinstance(found, Headline)
