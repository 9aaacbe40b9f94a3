"""``python patch_maker.py PLAN SCRIPT ARGS``: a plan whose steps can be written into the script.

Stands in for ``uncork tune``, whose choice depends on the machine: here all edits are wanted.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from records import STEPS, plan, workload_diagnosis
from uncork.capture.base.listener import FitCall, PassThroughListener
from uncork.capture.base.stop import StopScript
from uncork.capture.script import run_script
from uncork.core.base.record import replace
from uncork.core.base.script import script_digest
from uncork.core.documents.plan_file import serialize_plan
from uncork.core.edits.pipeline import AutotuneOff, Cache, ParallelMap, Prefetch
from uncork.core.edits.step import DtypePolicy, FlatUpdates, JitCompile, StepsPerExecution
from uncork.core.evidence.stage import Stage


class Maker(PassThroughListener):
    wants_source_lines = True

    def __init__(self, target: Path) -> None:
        self._target = target

    def fit(self, call: FitCall) -> Any:
        from uncork.engine.fit.fit_subject import FitSubject  # noqa: PLC0415 - imports TensorFlow
        from uncork.pycode.frames.dataset_lines import source_line  # noqa: PLC0415

        at = {"step_at": call.step_setup_at}
        with tempfile.TemporaryDirectory() as scratch:
            subject = FitSubject(call.model, call.arguments, call.index, call.at, scratch, **at)
        assert subject.original.pipeline is not None
        nodes = subject.original.pipeline.stages
        number = [node.kind for node in nodes].index("map")
        edits = {
            "parallel_map": ParallelMap(stage=number, expected_digest=""),
            "cache": Cache(stage=number, expected_digest=""),
            "prefetch": Prefetch(expected_digest=""),
            "autotune_off": AutotuneOff(expected_digest=""),
        }
        version = subject.original.with_pipeline_edits(tuple(edits.values()))
        edits |= dict(zip(edits, version.pipeline_edits, strict=True))
        edits |= {
            "steps_per_execution": StepsPerExecution(steps=2),
            "jit_compile": JitCompile(),
            "mixed_bfloat16": DtypePolicy(policy="mixed_bfloat16"),
            "flat_updates": FlatUpdates(),
        }
        stages = tuple(
            Stage(index=i, kind=node.kind, at=source_line(node.dataset))
            for i, node in enumerate(nodes)
        )
        kept = next(step for step in STEPS if step.outcome == "kept")
        made = plan(
            script=sys.argv[0],
            script_digest=script_digest(sys.argv[0]),
            before=workload_diagnosis(workload=subject.workload, stages=stages),
            after=None,
            steps=tuple(
                replace(kept, name=name, edits=(edit,), source_edit="")
                for name, edit in edits.items()
            ),
        )
        self._target.write_bytes(serialize_plan(made))
        raise StopScript


if __name__ == "__main__":
    run_script(Path(sys.argv[2]), sys.argv[3:], Maker(Path(sys.argv[1]).absolute()))
