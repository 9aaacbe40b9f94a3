"""Pages: one for each cause and each optimization."""

import re
from pathlib import Path
from typing import get_args

import pytest

from uncork.core.base.errors import WrongUse
from uncork.core.documents.diagnosis import Cause
from uncork.optimizations.order import OPTIMIZATIONS
from uncork.report.content.pages import page_names, read_page

DOCS = Path(__file__).parents[3] / "docs"
SECTIONS = ("## What it means", "## How Uncork sees it", "## What to do")


@pytest.mark.parametrize("cause", get_args(Cause))
def test_each_cause_has_a_page_with_all_sections(cause):
    text = read_page(cause)
    assert text.startswith(f"# {cause}\n")
    assert [text.count(section) for section in SECTIONS] == [1, 1, 1]


def test_each_optimization_has_a_page():
    assert {each.name for each in OPTIMIZATIONS} <= set(page_names())


def test_no_page_is_for_an_unknown_cause():
    assert {path.stem for path in (DOCS / "causes").glob("*.md")} == set(get_args(Cause))


def test_links_of_the_pages_lead_to_files():
    for page in (DOCS / "causes").glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+\.md)", page.read_text()):
            assert (page.parent / target).is_file(), f"{page.name}: {target}"


def test_an_unknown_name_gets_the_closest_ones():
    with pytest.raises(WrongUse, match="cache_missing") as error:
        read_page("cache_mising")
    assert "uncork explain cache_missing" in str(error.value)
