"""Two plans side by side in the terminal."""

import pytest

from records import STEPS, plan
from uncork.report.content.plan_comparison import compare_plans
from uncork.report.terminal.comparison import comparison_text


@pytest.mark.parametrize("width", [60, 100, 160])
def test_rows_that_differ_are_marked(width):
    found = compare_plans(plan(), plan(steps=STEPS[:1]), ("a.json", "b.json"))
    text = comparison_text(found, width)
    assert max(map(len, text.splitlines())) <= width
    assert text.startswith("Only a.json has")
    assert any(line.lstrip().startswith("* ") for line in text.splitlines())
    assert "not known" in text
