"""Records as people see them: text in a terminal, a page in a notebook."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from uncork.core.base.errors import WrongUse
from uncork.core.base.record import to_json, write_atomically
from uncork.core.documents.diagnosis import Diagnosis, Explanation
from uncork.core.documents.plan import Plan
from uncork.core.documents.plan_file import serialize_plan
from uncork.report.html.page import diagnosis_html, plan_html, save_report
from uncork.report.terminal.explanation import explanation_text
from uncork.report.terminal.page import diagnosis_text, plan_text

R = TypeVar("R", Diagnosis, Plan, Explanation)

_FRAME = '<iframe srcdoc="{}" style="width:100%;height:720px;border:0"></iframe>'


@dataclass(frozen=True)
class Displayable(Generic[R]):
    """A diagnosis, a plan or an explanation, ready to be printed, shown in a notebook, or saved.

    Attributes:
        record: The figures themselves.
    """

    record: R

    def __str__(self) -> str:
        """What the command line prints."""
        if isinstance(self.record, Plan):
            return plan_text(self.record)
        if isinstance(self.record, Explanation):
            return explanation_text(self.record)
        return diagnosis_text(self.record)

    def html(self) -> str:
        """The report as one self-contained page."""
        if isinstance(self.record, Plan):
            return plan_html(self.record)
        if isinstance(self.record, Explanation):
            return f"<pre>{html.escape(explanation_text(self.record, unicode=True))}</pre>"
        return diagnosis_html(self.record)

    def save(self, path: str | Path) -> None:
        """Write the record as JSON to ``path`` and the report beside it as HTML.

        A plan saved so is what ``uncork run --plan`` takes.

        Raises:
            WrongUse: ``path`` is the report's own.
        """
        path, page = Path(path), Path(path).with_suffix(".html")
        if path == page:
            raise WrongUse(
                f"{path} would be both the report and its JSON file",
                "the name of the JSON file; the report is saved next to it",
                f"save({str(path.with_suffix('.json'))!r})",
            )
        text = (
            serialize_plan(self.record) if isinstance(self.record, Plan) else to_json(self.record)
        )
        write_atomically(path, text)
        save_report(self.html(), page)

    def _repr_html_(self) -> str:
        """For notebooks: a page in a frame, so that its style stays its own."""
        if isinstance(self.record, Explanation):
            return self.html()
        return _FRAME.format(html.escape(self.html(), quote=True))
