"""Plans that tests write by hand, for commands that run on this machine."""

from __future__ import annotations

from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan


def made_here(plan: Plan) -> Plan:
    """The plan as if it was made on this machine, from Python: for no command in particular.

    Imports TensorFlow.
    """
    from uncork.measure.machine.devices import accelerators  # noqa: PLC0415
    from uncork.measure.machine.probe import probe_host  # noqa: PLC0415

    return replace(plan, script_digest="", machine=probe_host(accelerators()))
