from __future__ import annotations

import math
import re
from html.parser import HTMLParser

import pytest

from records import (
    FINDINGS,
    STAGES,
    STEPS,
    TRAP,
    diagnosis,
    empty_plan,
    healthy_diagnosis,
    measurement,
    plan,
    workload_diagnosis,
)
from uncork.core.base.measurement import Spread
from uncork.core.base.record import from_json, replace, to_json
from uncork.core.documents.plan import Ratio
from uncork.report.content.plan_comparison import compare_plans
from uncork.report.html.page import comparison_html, diagnosis_html, plan_html

EVIL = "</style></title><script>alert(1)</script><img src=x onerror='a'>\"'{{ 7*7 }}"
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Outline(HTMLParser):
    """Checks that every element is closed, and keeps tags, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"stray </{tag}>"
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text += data

    def ids(self):
        return [attrs["id"] for _, attrs in self.tags if "id" in attrs]


def infinite_plan():
    wide = replace(STEPS[1], measured=Ratio(ratio=math.nan, low=0.0, high=math.inf))
    blank = tuple(replace(s, cpu_s_per_element=None, wall_s_per_element=math.inf) for s in STAGES)
    single = replace(measurement(5), step_s=Spread(median=math.nan, low=0.0, high=math.inf, n=1))
    before = workload_diagnosis(
        stages=blank, measurement=single, ceilings={"consumer": math.inf}, breakdown={"x": math.nan}
    )
    return plan(steps=(wide,), before=before, after=None, tuning_cost_s=math.inf)


def evil_plan():
    finding = replace(FINDINGS[0], at=EVIL, evidence=EVIL, remedy=EVIL)
    stages = (replace(STAGES[2], name=EVIL, at=EVIL, kind=EVIL),)
    before = workload_diagnosis(stages=stages, findings=(finding,), notes=(EVIL,))
    steps = tuple(replace(s, name=EVIL, reason=EVIL, at=EVIL, source_edit=EVIL) for s in STEPS)
    return plan(script=EVIL, before=before, steps=steps, notes=(EVIL,))


PAGES = {
    "diagnosis": lambda: diagnosis_html(diagnosis()),
    "healthy": lambda: diagnosis_html(diagnosis(healthy_diagnosis())),
    "two trainings": lambda: diagnosis_html(diagnosis(workload_diagnosis(), healthy_diagnosis())),
    "one finding": lambda: diagnosis_html(diagnosis(workload_diagnosis(findings=(TRAP,)))),
    "nothing known": lambda: diagnosis_html(
        diagnosis(workload_diagnosis(stages=(), findings=(), breakdown={}, ceilings={}))
    ),
    "plan": lambda: plan_html(plan()),
    "empty plan": lambda: plan_html(empty_plan()),
    "no steps at all": lambda: plan_html(empty_plan(steps=())),
    "infinite plan": lambda: plan_html(infinite_plan()),
    "evil plan": lambda: plan_html(evil_plan()),
    "long names": lambda: plan_html(
        plan(steps=tuple(replace(s, name="x_" * 200, at="d/" * 200) for s in STEPS))
    ),
}


def without_pages(page):
    return re.sub(r'<article class="page".*?</article>', "", page, flags=re.DOTALL)


@pytest.fixture(scope="module", params=PAGES, ids=str)
def page(request):
    return PAGES[request.param]()


def test_page_is_well_formed_with_unique_ids(page):
    ids = Outline(page).ids()
    assert len(ids) == len(set(ids))


def test_page_loads_nothing_and_runs_nothing(page):
    tags = Outline(page).tags
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in tags}
    assert not any(name.startswith("on") for _, attrs in tags for name in attrs)
    assert not any({"src", "xlink:href", "srcset"} & set(attrs) for _, attrs in tags)
    assert all(attrs.get("href", "#").startswith("#") for _, attrs in tags)
    assert "@import" not in page
    assert "url(" not in page
    # The pages of causes and optimizations name their sources.
    assert not re.search(
        r"https?://", without_pages(page).replace("http://www.w3.org/2000/svg", "")
    )


def test_page_forbids_loads_to_the_browser(page):
    policy = [a for t, a in Outline(page).tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy[0]["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_drawings_have_words_for_those_who_cannot_see_them(page):
    outline = Outline(page)
    ids = set(outline.ids())
    for tag, attrs in outline.tags:
        if tag == "svg" and attrs.get("aria-hidden") != "true":
            named = (attrs.get("aria-labelledby") or "").split()
            assert attrs.get("aria-label") or (named and set(named) <= ids)


def test_no_figure_reads_nan_or_inf(page):
    page = without_pages(page)
    words = set(re.findall(r"[a-z]+", Outline(page).text.lower()))
    assert not {"nan", "inf", "undefined"} & words
    assert not re.search(r'="[^"]*\b(nan|inf)\b', page)


def test_names_are_shown_and_never_obeyed():
    page = plan_html(evil_plan())
    assert "<script" not in page
    assert "<img" not in page
    assert EVIL in Outline(page).text
    assert "{{ 7*7 }}" in page


def test_control_characters_do_not_reach_the_file():
    finding = replace(FINDINGS[0], evidence="\x00\x1b[31m\udce9")
    page = diagnosis_html(diagnosis(workload_diagnosis(findings=(finding,))))
    page.encode()
    assert not {"\x00", "\x1b"} & set(page)


def test_diagnosis_holds_verdict_stages_findings_and_next_command():
    text = Outline(diagnosis_html(diagnosis())).text
    for expected in (
        "train.py:41 trains 612 samples/s; this machine could train 2,480 (4.1x).",
        "Bottleneck: stateful_serial_map at train.py:23.",
        "load_and_augment",
        "61 % DecodeJpeg train.py:15",
        "bottleneck",
        "split it: decode and resize in parallel, flip afterwards",
        "uncork tune train.py",
        "AMD EPYC 9B14",
    ):
        assert expected in text


def test_plan_holds_every_step_with_its_reason_and_snippet():
    text = Outline(plan_html(plan())).text
    for step in STEPS:
        assert step.name.replace("_", " ") in text
        assert step.reason in text
        assert step.source_edit in text
    assert "Proof failed" in text
    assert "uncork run --plan plan.json train.py" in text


def test_a_healthy_page_says_so_and_why():
    text = Outline(PAGES["healthy"]()).text
    assert "Healthy: nothing worth doing." in text
    assert "limits the speed" in text
    assert "the input is ready 99 % of the time" in text


def test_a_saved_file_is_drawn_as_the_record_was():
    saved = from_json(to_json(diagnosis()), type(diagnosis()))
    assert diagnosis_html(saved) == diagnosis_html(diagnosis())


def test_a_page_opens_on_its_verdict_and_says_what_to_do_next():
    page = plan_html(plan())
    places = [
        page.index(what) for what in ('<h1 class="verdict">', 'class="next"', 'class="tiles"')
    ]
    assert places == sorted(places)
    assert "Proved by: " in Outline(page).text


def test_nothing_scrolls_within_a_page(page):
    assert "overflow-x: auto" not in page
    assert "min-width: 7" not in page


def test_names_of_steps_and_causes_lead_to_their_pages():
    for page in (plan_html(plan()), diagnosis_html(diagnosis())):
        targets = {attrs["href"][1:] for _, attrs in Outline(page).tags if "href" in attrs}
        assert targets
        assert targets <= set(Outline(page).ids())
    kept = next(step.name for step in STEPS if step.outcome == "kept" and step.name != "split_map")
    assert f'<a href="#page-{kept}">' in plan_html(plan())


def test_two_plans_stand_side_by_side():
    found = compare_plans(plan(), plan(steps=STEPS[:1]), ("a.json", "<b>.json"))
    page = comparison_html(found)
    ids = Outline(page).ids()
    assert len(ids) == len(set(ids))
    assert "<b>" not in page
    assert found.sentence in Outline(page).text
    assert 'class="differs"' in page
