"""``plan.json``: sealed when it is written, checked when it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from uncork.core.base.errors import PlanRefused
from uncork.core.base.record import digest, from_json, replace, to_json
from uncork.core.documents.plan import PLAN_SCHEMA, Plan

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def seal_plan(plan: Plan) -> Plan:
    """Stamp a plan with the digest of its content."""
    # As the file gives it back: a whole number given for a float is read as 32.0, not 32.
    text = msgspec.json.encode(plan)
    return replace(from_json(text, Plan), digest=_digest(text))


def _digest(text: bytes) -> str:
    """Of what a file says, not of what it is read as: a later Uncork may know more fields."""
    content = {**msgspec.json.decode(text), "digest": ""}
    return digest(msgspec.json.encode(_with_floats(content), order="sorted"))


def _with_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_floats(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_floats(each) for each in value]
    return float(value) if type(value) is int else value


def serialize_plan(plan: Plan) -> bytes:
    """The text of ``plan.json``, sealed."""
    return to_json(seal_plan(plan))


def parse_plan(text: bytes, origin: str = "the plan") -> Plan:
    """Read a plan, or say exactly why it is refused.

    Args:
        text: Content of the file.
        origin: Its name, for messages.

    Raises:
        PlanRefused: It is not JSON, of a newer schema, misses or misnames a field, or its content
            is not what was sealed.
    """
    again = "run 'uncork tune SCRIPT' to create a new one"
    try:
        schema = msgspec.json.decode(text, type=_OnlySchema).schema
    except _UNREADABLE as error:
        raise PlanRefused(
            f"{origin} is not a plan: {error}", "JSON with a 'schema'", again
        ) from None
    if schema != PLAN_SCHEMA:
        newer = "upgrade Uncork: pip install -U uncork" if schema > PLAN_SCHEMA else again
        raise PlanRefused(f"{origin} has schema {schema}", f"schema {PLAN_SCHEMA}", newer)
    try:
        plan = from_json(text, Plan)
    except _UNREADABLE as error:
        raise PlanRefused(
            f"{origin} is damaged: {error}", "an unchanged plan.json", again
        ) from None
    if _digest(text) != plan.digest:
        raise PlanRefused(
            f"{origin} was changed after it was proved (digest {plan.digest or 'missing'})",
            "the plan exactly as 'uncork tune' wrote it",
            again,
        )
    return plan


class _OnlySchema(msgspec.Struct):
    schema: int


def load_plan(path: Path) -> Plan:
    """Read a plan from disk.

    Raises:
        PlanRefused: It is not there, or not a plan, or not as it was proved.
    """
    try:
        return parse_plan(path.read_bytes(), str(path))
    except OSError as error:
        raise PlanRefused(
            f"cannot read the plan {path}: {error.strerror}",
            "a plan.json written by 'uncork tune'",
            "uncork tune SCRIPT",
        ) from error
