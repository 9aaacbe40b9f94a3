"""A diagnosis or a plan as one HTML file that needs nothing else: no network, no script.

The page's own security policy forbids scripts and every load, so a hostile function name that
slipped through escaping would still do nothing.

Put a report on disk without ever leaving half of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from uncork.core.base.errors import WrongUse
from uncork.core.base.record import write_atomically
from uncork.core.base.version import __version__
from uncork.core.documents.diagnosis import Diagnosis
from uncork.core.documents.plan import Plan
from uncork.report.content import figures
from uncork.report.content.diagnosis_content import LOOP_WORK_LABELS, cost_text, diagnosis_info
from uncork.report.content.pages import select_pages
from uncork.report.content.plan_comparison import PlanComparison
from uncork.report.content.plan_content import plan_info
from uncork.report.html.drawing import draw_chart, draw_pipes, draw_prediction_dots

_FILTERS: Final[dict[str, Callable[..., str]]] = {
    "count": figures.format_count,
    "rate": figures.format_rate,
    "times": figures.format_ratio,
    "ranged": figures.format_ratio_interval,
    "percent": figures.format_percent,
    "duration": figures.format_duration,
    "size": figures.format_bytes,
    "words": figures.format_words,
}


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """The diagnosis as one self-contained page."""
    info = diagnosis_info(diagnosis)
    causes = (finding.cause for each in diagnosis.workloads for finding in each.findings)
    return _render("diagnosis.html.j2", info=info, **_pages(causes))


def plan_html(plan: Plan, path: str = "plan.json") -> str:
    """The plan as one self-contained page; ``path`` is where the plan lies."""
    info = plan_info(plan, path)
    return _render(
        "plan.html.j2",
        info=info,
        chart=draw_chart(info.chart),
        dots=draw_prediction_dots(info.predictions),
        **_pages(
            (
                *(row.name for row in (*info.accepted, *info.not_accepted)),
                *(finding.cause for finding in plan.before.findings),
            )
        ),
    )


def comparison_html(comparison: PlanComparison) -> str:
    """Two plans side by side as one self-contained page."""
    return _render("comparison.html.j2", info=comparison, **_pages(comparison.kept_names))


def _pages(names: Iterable[str]) -> dict[str, Any]:
    """The pages that names on a report link to: a file that loads nothing has them in it."""
    pages = select_pages(names)
    return {"pages": pages, "page_names": frozenset(name for name, _ in pages)}


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(version=__version__, **values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("uncork.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= _FILTERS
    environment.filters["worth"] = cost_text
    environment.globals["draw_pipes"] = draw_pipes
    environment.globals["work_labels"] = LOOP_WORK_LABELS
    return environment


def _finalized(value: Any) -> Any:
    """Everything shown passes here; text that is not markup loses its control characters."""
    return (
        figures.escape_control_characters(value)
        if isinstance(value, str) and not isinstance(value, Markup)
        else value
    )


def save_report(html: str, path: Path) -> None:
    """Write ``html`` to ``path``, whole or not at all.

    Raises:
        WrongUse: The path cannot be written: no space, no permission, a folder of that name. The
            figures are not lost: the caller still holds the record and can print it.
    """
    try:
        write_atomically(path, html.encode())
    except OSError as error:
        raise WrongUse(
            f"cannot write the report to {path}: {error.strerror or error}",
            "a folder with free space and permission to write",
            "free some space or choose another folder, then: uncork report FILE",
        ) from error
