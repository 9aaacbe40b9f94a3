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
from uncork.core.edits.edit import Edit
from uncork.core.edits.pipeline import AutotuneOff, Cache, ParallelMap, Prefetch, SplitMap
from uncork.core.edits.step import DtypePolicy, FlatUpdates, JitCompile, StepsPerExecution
from uncork.core.evidence.stage import CachePoint, MapPrefix, Stage


def measured(node: Any) -> dict[str, Any]:
    """What a diagnosis knows of a map that is cut, and cached before the shuffle."""
    from uncork.pipeline.functions.splitting import split_deterministic_prefix  # noqa: PLC0415
    from uncork.pipeline.profile.cut_lines import find_cut_lines  # noqa: PLC0415

    cut = split_deterministic_prefix(node.functions[0])
    assert cut is not None
    last, rest = find_cut_lines(node, cut)
    return {
        "deterministic_prefix": MapPrefix(
            op_count=cut.op_count,
            bytes_per_element=4,
            cpu_s_per_element=1e-6,
            last_at=last,
            rest_at=rest,
        ),
        "cache_point": CachePoint(
            element_count=64,
            memory_bytes=256,
            saved_cpu_s_per_step=1e-6,
            placed_before=("shuffle",),
        ),
    }


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
        loads, augments = (i for i, node in enumerate(nodes) if node.kind == "map")
        version = subject.original.with_pipeline_edits(
            (
                ParallelMap(stage=loads, expected_digest=""),
                SplitMap(stage=augments, expected_digest=""),
                Cache(stage=augments, expected_digest=""),
                Prefetch(expected_digest=""),
                AutotuneOff(expected_digest=""),
            )
        )
        parallel, split, cache, prefetch, autotune = version.pipeline_edits
        edits: dict[str, tuple[Edit, ...]] = {
            "parallel_map": (parallel,),
            "cache": (split, cache),
            "prefetch": (prefetch,),
            "autotune_off": (autotune,),
            "steps_per_execution": (StepsPerExecution(steps=2),),
            "jit_compile": (JitCompile(),),
            "mixed_bfloat16": (DtypePolicy(policy="mixed_bfloat16"),),
            "flat_updates": (FlatUpdates(),),
        }
        stages = [
            Stage(index=i, kind=node.kind, at=source_line(node.dataset), name=node.name)
            for i, node in enumerate(nodes)
        ]
        stages[augments] = replace(stages[augments], **measured(nodes[augments]))
        kept = next(step for step in STEPS if step.outcome == "kept")
        made = plan(
            script=sys.argv[0],
            script_digest=script_digest(sys.argv[0]),
            before=workload_diagnosis(workload=subject.workload, stages=tuple(stages)),
            after=None,
            steps=tuple(
                replace(kept, name=name, edits=each, source_edit="") for name, each in edits.items()
            ),
        )
        self._target.write_bytes(serialize_plan(made))
        raise StopScript


if __name__ == "__main__":
    run_script(Path(sys.argv[2]), sys.argv[3:], Maker(Path(sys.argv[1]).absolute()))
