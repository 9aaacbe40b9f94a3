"""Figures as text. What is missing, NaN or infinite is called unknown, never shown as a number."""

from __future__ import annotations

import math
from typing import Final

UNKNOWN: Final = "unknown"

_SIZES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def known(value: float | None) -> float | None:
    """The value if it is a finite number, else None.

    Example:
        >>> known(float("nan")), known(2.0)
        (None, 2.0)
    """
    return value if value is not None and math.isfinite(value) else None


def count(value: float | None) -> str:
    """A quantity with three or more significant digits.

    Example:
        >>> count(2480.4), count(52.31), count(0.514), count(833_333), count(12_345_678)
        ('2,480', '52.3', '0.51', '833,000', '12.3 M')
    """
    value = known(value)
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


def rate(value: float | None) -> str:
    """samples/s.

    Example:
        >>> rate(612.2)
        '612/s'
    """
    return UNKNOWN if known(value) is None else f"{count(value)}/s"


def times(value: float | None) -> str:
    """A ratio of speeds; two decimals where they matter.

    Example:
        >>> times(1.043), times(4.13), times(38.2)
        ('1.04x', '4.1x', '38x')
    """
    value = known(value)
    if value is None:
        return UNKNOWN
    digits = 2 if value < 1.995 else 1 if value < 9.95 else 0
    return f"{value:,.{digits}f}x"


def ranged(value: float | None, interval: tuple[float, float] | None) -> str:
    """A ratio of speeds with its interval, where it has one.

    Example:
        >>> ranged(4.13, (3.2, 5.8)), ranged(4.13, None)
        ('4.1x (3.2x to 5.8x)', '4.1x')
    """
    if interval is None:
        return times(value)
    return f"{times(value)} ({times(interval[0])} to {times(interval[1])})"


def percent(share: float | None) -> str:
    """A share from 0 to 1.

    Example:
        >>> percent(0.753), percent(0.004), percent(0.0)
        ('75 %', '<1 %', '0 %')
    """
    share = known(share)
    if share is None:
        return UNKNOWN
    return "<1 %" if 0 < share < 0.01 else f"{share * 100:.0f} %"


def duration(seconds: float | None) -> str:
    """Elapsed time, in the unit a person would choose.

    Example:
        >>> duration(0.0523), duration(12.34), duration(760), duration(12_000)
        ('52.3 ms', '12.3 s', '12 min 40 s', '3 h 20 min')
    """
    seconds = known(seconds)
    if seconds is None:
        return UNKNOWN
    if abs(seconds) < 0.9995:
        return f"{count(seconds * 1e3)} ms"
    if abs(seconds) < 119.5:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def size(n_bytes: float | None) -> str:
    """Bytes, in powers of 1000.

    Example:
        >>> size(602_112), size(12)
        ('602 kB', '12 B')
    """
    n_bytes = known(n_bytes)
    if n_bytes is None:
        return UNKNOWN
    for limit, unit in _SIZES:
        if n_bytes >= limit:
            return f"{count(n_bytes / limit)} {unit}"
    return f"{n_bytes:.0f} B"


def words(name: str) -> str:
    """A name from a fixed vocabulary, as words.

    Example:
        >>> words("steps_per_execution")
        'steps per execution'
    """
    return name.replace("_", " ")


def clean(text: str) -> str:
    r"""Text without characters that would steer a terminal or break a file.

    Function names and paths are the user's: an escape sequence in one must not move the cursor,
    and an undecodable byte must not make the report unwritable.

    Example:
        >>> clean("a\x1b[31m\tb")
        'a\\x1b[31m\tb'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in text)


def clip(text: str, width: int) -> str:
    """At most ``width`` characters, an ellipsis in place of what is lost.

    Example:
        >>> clip("steps per execution", 9)
        'steps pe…'
    """
    return text if len(text) <= width else text[: max(width - 1, 0)].rstrip() + "…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
