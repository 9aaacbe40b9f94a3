"""Figures as text. What is missing, NaN or infinite is called unknown, never shown as a number."""

from __future__ import annotations

import math
from typing import Final

UNKNOWN: Final = "unknown"

_SIZES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def finite_or_none(value: float | None) -> float | None:
    """The value if it is a finite number, else None.

    Example:
        >>> finite_or_none(float("nan")), finite_or_none(2.0)
        (None, 2.0)
    """
    return value if value is not None and math.isfinite(value) else None


def format_count(value: float | None) -> str:
    """A quantity with three or more significant digits.

    Example:
        >>> (
        ...     format_count(2480.4),
        ...     format_count(52.31),
        ...     format_count(0.514),
        ...     format_count(833_333),
        ...     format_count(12_345_678),
        ... )
        ('2,480', '52.3', '0.51', '833,000', '12.3 M')
    """
    value = finite_or_none(value)
    if value is None:
        return UNKNOWN
    for limit, unit in ((1e9, " G"), (1e6, " M")):
        if abs(value) >= limit:
            return f"{value / limit:,.1f}{unit}"
    if abs(value) >= 1e4:
        return f"{float(f'{value:.3g}'):,.0f}"
    if 0 < abs(value) < 0.005:
        return "<0.01"
    digits = 0 if abs(value) >= 100 or value == int(value) else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def format_rate(value: float | None) -> str:
    """samples/s.

    Example:
        >>> format_rate(612.2)
        '612/s'
    """
    return UNKNOWN if finite_or_none(value) is None else f"{format_count(value)}/s"


def format_ratio(value: float | None) -> str:
    """A ratio of speeds; two decimals where they matter.

    Example:
        >>> format_ratio(1.043), format_ratio(4.13), format_ratio(38.2)
        ('1.04x', '4.1x', '38x')
    """
    value = finite_or_none(value)
    if value is None:
        return UNKNOWN
    digits = 2 if value < 1.995 else 1 if value < 9.95 else 0
    return f"{value:,.{digits}f}x"


def format_ratio_interval(value: float | None, interval: tuple[float, float] | None) -> str:
    """A ratio of speeds with its interval, where it has one.

    Example:
        >>> format_ratio_interval(4.13, (3.2, 5.8)), format_ratio_interval(4.13, None)
        ('4.1x (3.2x to 5.8x)', '4.1x')
    """
    if interval is None:
        return format_ratio(value)
    return f"{format_ratio(value)} ({format_ratio(interval[0])} to {format_ratio(interval[1])})"


def format_percent(share: float | None) -> str:
    """A share from 0 to 1.

    Example:
        >>> format_percent(0.753), format_percent(0.004), format_percent(0.0)
        ('75 %', '<1 %', '0 %')
    """
    share = finite_or_none(share)
    if share is None:
        return UNKNOWN
    return "<1 %" if 0 < share < 0.01 else f"{share * 100:.0f} %"


def format_duration(seconds: float | None) -> str:
    """Elapsed time, in the unit a person would choose.

    Example:
        >>> (
        ...     format_duration(0.0523),
        ...     format_duration(12.34),
        ...     format_duration(760),
        ...     format_duration(12_000),
        ... )
        ('52.3 ms', '12.3 s', '12 min 40 s', '3 h 20 min')
    """
    seconds = finite_or_none(seconds)
    if seconds is None:
        return UNKNOWN
    if abs(seconds) < 0.9995:
        return f"{format_count(seconds * 1e3)} ms"
    if abs(seconds) < 119.5:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def format_bytes(n_bytes: float | None) -> str:
    """Bytes, in powers of 1000.

    Example:
        >>> format_bytes(602_112), format_bytes(12)
        ('602 kB', '12 B')
    """
    n_bytes = finite_or_none(n_bytes)
    if n_bytes is None:
        return UNKNOWN
    for limit, unit in _SIZES:
        if n_bytes >= limit:
            return f"{format_count(n_bytes / limit)} {unit}"
    return f"{n_bytes:.0f} B"


def format_words(name: str) -> str:
    """A name from a fixed vocabulary, as words.

    Example:
        >>> format_words("steps_per_execution")
        'steps per execution'
    """
    return name.replace("_", " ")


def escape_control_characters(text: str) -> str:
    r"""Text without characters that would steer a terminal or break a file.

    Function names and paths are the user's: an escape sequence in one must not move the cursor,
    and an undecodable byte must not make the report unwritable.

    Example:
        >>> escape_control_characters("a\x1b[31m\tb")
        'a\\x1b[31m\tb'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in text)


def truncate(text: str, width: int) -> str:
    """At most ``width`` characters, an ellipsis in place of what is lost.

    Example:
        >>> truncate("steps per execution", 9)
        'steps pe…'
    """
    return text if len(text) <= width else text[: max(width - 1, 0)].rstrip() + "…"


def shorten_start(path: str, width: int = 32) -> str:
    """The end of a path that is too long: it says more than the start.

    Example:
        >>> shorten_start("projects/photos/train.py:23", 14)
        '…s/train.py:23'
    """
    return path if len(path) <= width else "…" + path[1 - width :]


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
