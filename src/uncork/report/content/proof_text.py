"""By what a plan is proved: what each proof compared, and never more than that."""

from __future__ import annotations

from typing import Final

from uncork.core.documents.plan import Plan
from uncork.report.content.figures import format_words

# More in one sentence are not read.
_MOST: Final = 2


def proof_text(plan: Plan) -> str:
    """What was compared for each accepted optimization; ``""`` where nothing was.

    One check may hold for several of them: it is told once.
    """
    checks: dict[str, dict[str, None]] = {}
    for step in plan.accepted_steps:
        if step.proof and step.proof.passed:
            checks.setdefault(step.proof.detail, {})[format_words(step.name)] = None
    if len(checks) == 1:
        return next(iter(checks))
    told = [f"{', '.join(names)}: {detail}" for detail, names in checks.items()]
    more = len(told) - _MOST
    return "; ".join((*told[:_MOST], *([f"and {more} more"] if more > 0 else [])))


def proof_sentence(plan: Plan) -> str:
    """The guarantee, and what was compared."""
    return f"Guarantee: {plan.guarantee}. Proved by: {proof_text(plan)}."
