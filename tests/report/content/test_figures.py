from __future__ import annotations

import math

import pytest

from uncork.report.content import figures

FORMATS = (
    figures.format_count,
    figures.format_rate,
    figures.format_ratio,
    figures.format_percent,
    figures.format_duration,
    figures.format_bytes,
)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("form", FORMATS)
def test_what_is_no_number_is_unknown(form, value):
    assert form(value) == "unknown"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0004, "<0.01"), (9.996, "10.00"), (99.96, "100.0"), (9999, "9,999"),
     (10_049, "10,000"), (1e9, "1.0 G")],
)  # fmt: skip
def test_count(value, text):
    assert figures.format_count(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.9996, "1.0 s"), (119.6, "2 min 0 s"), (7200, "2 h 0 min")],
)
def test_duration_carries_into_the_next_unit(seconds, text):
    assert figures.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("dirty", "text"),
    [
        ("plain ü 名", "plain ü 名"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("caf\udce9.py", "caf\\udce9.py"),
        ("abc\u202etxt", "abc\\u202etxt"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_clean_disarms_text_that_steers_a_terminal(dirty, text):
    assert figures.escape_control_characters(dirty) == text
    figures.escape_control_characters(dirty).encode()
