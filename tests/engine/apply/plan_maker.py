"""``python plan_maker.py PLAN SCRIPT ARGS``: a plan with given edits for a script's first ``fit``.

Stands in for ``uncork tune``, whose choice depends on the machine: here all edits are wanted.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from plan_files import made_here
from records import STEPS, plan, workload_diagnosis
from uncork.capture.base.listener import FitCall, PassThroughListener
from uncork.capture.base.stop import StopScript
from uncork.capture.script import run_script
from uncork.core.base.record import replace
from uncork.core.documents.plan_file import serialize_plan
from uncork.core.edits.pipeline import AutotuneOff, Cache, Prefetch, SplitMap
from uncork.core.edits.step import FlatUpdates, StepsPerExecution

STEP_EDITS = (StepsPerExecution(steps=2), FlatUpdates())


class Maker(PassThroughListener):
    def __init__(self, target: Path) -> None:
        self._target = target

    def fit(self, call: FitCall) -> Any:
        from uncork.engine.fit.fit_subject import FitSubject  # noqa: PLC0415 - imports TensorFlow

        with tempfile.TemporaryDirectory() as scratch:
            subject = FitSubject(call.model, call.arguments, call.index, call.at, scratch)
        assert subject.original.pipeline is not None
        kinds = [node.kind for node in subject.original.pipeline.stages]
        number = kinds.index("map")
        edits = (
            SplitMap(stage=number, expected_digest=""),
            Cache(stage=number, expected_digest=""),
            Prefetch(expected_digest=""),
            AutotuneOff(expected_digest=""),
        )
        version = subject.original.with_pipeline_edits(edits)
        kept = next(step for step in STEPS if step.outcome == "kept")
        made = plan(
            before=workload_diagnosis(workload=subject.workload, stages=()),
            after=None,
            steps=(replace(kept, edits=(*version.pipeline_edits, *STEP_EDITS), guarantee="exact"),),
        )
        self._target.write_bytes(serialize_plan(made_here(made)))
        raise StopScript


if __name__ == "__main__":
    run_script(Path(sys.argv[2]), sys.argv[3:], Maker(Path(sys.argv[1]).absolute()))
