"""The page in a real browser: nothing overlaps, nothing is cut off."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from records import STEPS, diagnosis, empty_plan, plan, workload_diagnosis
from report.html.test_page import infinite_plan
from uncork.core.base.record import replace
from uncork.report.html.page import diagnosis_html, plan_html

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for path in map(shutil.which, BROWSERS) if path), None)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium found to draw the page with")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--force-device-scale-factor=1",
)  # fmt: skip

# Runs only here: the page as shipped has no script, and its policy would not let one run.
PROBE = """
<script>
const box = e => e.getBoundingClientRect();
const texts = [...document.querySelectorAll("svg.speeds text")];
const overlaps = [], outside = [];
texts.forEach((a, i) => texts.slice(i + 1).forEach(b => {
  const p = box(a), q = box(b);
  if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 2 && q.top < p.bottom - 2)
    overlaps.push(a.textContent + " | " + b.textContent);
}));
texts.forEach(t => {
  const p = box(t), s = box(t.ownerSVGElement);
  if (p.left < s.left - 1 || p.right > s.right + 1 || p.top < s.top - 1 || p.bottom > s.bottom + 1)
    outside.push(t.textContent);
});
document.querySelectorAll(".on-part").forEach(t => {
  if (box(t).right > box(t.ownerSVGElement).right) outside.push(t.textContent);
});
const page = document.documentElement;
const result = {overlaps, outside, sideways: page.scrollWidth - page.clientWidth,
  height: page.scrollHeight};
const out = document.createElement("pre");
out.id = "result"; out.textContent = JSON.stringify(result);
document.body.append(out);
</script></body>
"""

MANY = tuple(
    replace(step, name=f"{step.name}_{n}", samples_per_s=step.samples_per_s)
    for n in range(3)
    for step in STEPS
)
LONG = tuple(replace(step, name="a_name_that_never_ends_" * 4, at="deep/" * 60) for step in STEPS)

PAGES = {
    "diagnosis": lambda: diagnosis_html(diagnosis()),
    "plan": lambda: plan_html(plan()),
    "many": lambda: plan_html(plan(steps=MANY)),
    "long": lambda: plan_html(plan(steps=LONG, script="very/" * 80 + "train.py")),
    "empty": lambda: plan_html(empty_plan()),
    "infinite": lambda: plan_html(infinite_plan()),
    "beyond": lambda: plan_html(plan(after=workload_diagnosis(ceilings={"consumer": 9e6}))),
}


def browse(page: str, width: int, folder: Path) -> dict[str, object]:
    policy = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
    assert policy.search(page)
    file = folder / "page.html"
    file.write_text(policy.sub("", page).replace("</body>", PROBE), encoding="utf-8")
    done = subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder / 'profile'}",
         f"--window-size={width},1400", "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout)
    assert found, done.stderr[-2000:]
    return json.loads(found.group(1).replace("&amp;", "&"))


@pytest.mark.parametrize("width", [1100, 520])
@pytest.mark.parametrize("name", PAGES)
def test_layout(name: str, width: int, tmp_path: Path):
    seen = browse(PAGES[name](), width, tmp_path)
    assert seen["overlaps"] == []
    assert seen["outside"] == []
    assert seen["sideways"] == 0


def test_the_probe_would_see_an_overlap(tmp_path: Path):
    crowded = PAGES["plan"]().replace("text-anchor: middle; font-size: 13px", "font-size: 40px")
    seen = browse(crowded, 1100, tmp_path)
    assert seen["overlaps"]
    assert seen["outside"]
