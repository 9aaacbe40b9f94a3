"""A diagnosis or a plan as one HTML file that needs nothing else: no network, no script.

The page's own security policy forbids scripts and every load, so a hostile function name that
slipped through escaping would still do nothing.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from uncork import __version__
from uncork.core.diagnosis import Diagnosis
from uncork.core.plan import Plan
from uncork.report import figures
from uncork.report.draw import draw_dots, draw_pipes, draw_road
from uncork.report.info import WORK_LABELS, diagnosis_info, worth
from uncork.report.plan_info import plan_info


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """The diagnosis as one self-contained page."""
    return _render("diagnosis.html.j2", info=diagnosis_info(diagnosis))


def plan_html(plan: Plan, path: str = "plan.json") -> str:
    """The plan as one self-contained page; ``path`` is where the plan lies."""
    info = plan_info(plan, path)
    return _render(
        "plan.html.j2", info=info, road=draw_road(info.road), dots=draw_dots(info.predictions)
    )


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(version=__version__, **values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("uncork.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("count", "rate", "times", "ranged", "percent", "duration", "size", "words"):
        environment.filters[name] = getattr(figures, name)
    environment.filters["worth"] = worth
    environment.globals["draw_pipes"] = draw_pipes
    environment.globals["work_labels"] = WORK_LABELS
    return environment


def _finalized(value: Any) -> Any:
    """Everything shown passes here; text that is not markup loses its control characters."""
    return (
        figures.clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
    )
