"""``.apply(uncork.rewrite("split_map", "cache"))``: edits that no method of ``tf.data`` expresses.

Behind the call that made the stage, where one call did; else where the training reads its data,
with the number of the stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import libcst as cst

from uncork.codemod.plan.stage_calls import find_shared_dataset, find_stage_call
from uncork.codemod.plan.training_call import find_training_data, find_validation_data
from uncork.codemod.syntax.call_syntax import append_method_call
from uncork.codemod.syntax.changes import ORDER_AFTER, ORDER_END, Change, Changes, Insertion
from uncork.codemod.syntax.script_tree import ScriptTree
from uncork.core.base.errors import EditRefused
from uncork.core.documents.plan import Plan
from uncork.core.edits.pipeline import (
    Cache,
    DecodeAndCrop,
    DrawFirst,
    DropUnused,
    FilterFirst,
    GatherLast,
    GeneratorChunks,
    InlineMap,
    ParallelInterleave,
    ReadAhead,
    ShuffleFirst,
    SplitMap,
    VectorizeMap,
)
from uncork.core.evidence.stage import Stage

# What uncork.rewrite does, and which of an edit's fields it is told.
REWRITES: Final[dict[type[Any], tuple[str, ...]]] = {
    Cache: (),
    DecodeAndCrop: (),
    DrawFirst: (),
    DropUnused: (),
    FilterFirst: (),
    GatherLast: (),
    GeneratorChunks: ("max_elements",),
    InlineMap: (),
    ParallelInterleave: (),
    ReadAhead: ("readers", "elements_per_reader"),
    ShuffleFirst: (),
    SplitMap: (),
    VectorizeMap: (),
}
# What these do depends on the stages above.
_AT_THE_END: Final = (GatherLast, InlineMap, ShuffleFirst)
_BATCHES: Final = ("batch", "padded_batch")


def write_rewrite(
    source: ScriptTree,
    plan: Plan,
    edits: Sequence[Any],
    stage: Stage | None,
    *,
    is_for_validation: bool = False,
) -> Changes:
    """One more link of the chain, and the import that it needs.

    Args:
        source: The script.
        plan: Knows all stages of the pipeline that is meant.
        edits: Of one stage, in order.
        stage: That stage as the script makes it; None where an edit before made it.
        is_for_validation: The pipeline is that of the validation.

    Raises:
        EditRefused: It is not plain where the data is read.
    """
    call = _call_of(source, plan, edits, stage)
    find = find_validation_data if is_for_validation else find_training_data
    node = find(source, plan)[0] if call is None else call
    code = _code(edits, has_stage=call is None)
    order = ORDER_END if call is None else ORDER_AFTER
    changed = Change(node, lambda now: append_method_call(now, "apply", code), order)
    return [*_import(source), changed]


def _call_of(
    source: ScriptTree, plan: Plan, edits: Sequence[Any], stage: Stage | None
) -> cst.Call | None:
    """The call that the link stands behind; None where it belongs to the end."""
    if stage is None or any(isinstance(edit, _AT_THE_END) for edit in edits):
        return None
    if any(isinstance(edit, VectorizeMap) for edit in edits):
        above = plan.before.stages[stage.index + 1 :]
        batch = next((s for s in above if s.kind in (*_BATCHES, "map")), None)
        if batch is None or batch.kind == "map":
            return None
        stage = batch
    try:
        call = find_stage_call(source, plan, stage, stage.kind)
    except EditRefused:
        return None
    return None if find_shared_dataset(source, call) else call


def _code(edits: Sequence[Any], *, has_stage: bool) -> str:
    words = [f'"{edit.__struct_config__.tag}"' for edit in edits]
    if has_stage and hasattr(edits[0], "stage"):
        words.append(f"stage={edits[0].stage}")
    for edit in edits:
        words += [f"{name}={getattr(edit, name)}" for name in REWRITES[type(edit)]]
    return f"uncork.rewrite({', '.join(words)})"


def _import(source: ScriptTree) -> Changes:
    """``import uncork`` behind the last of the imports at the top; nothing where it is there."""
    lines = source.imports()
    if any("uncork" in name for name in map(source.code, lines)):
        return []
    if not lines:
        raise EditRefused("the script imports nothing")
    body = list(source.module.body)
    last = body.index(lines[0])
    while last + 1 < len(body) and body[last + 1] in lines:
        last += 1
    found = body[last]
    assert isinstance(found, cst.SimpleStatementLine)
    return [Insertion(found, ("import uncork",), is_after=True)]
