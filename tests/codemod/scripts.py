"""A script as people write it, and plans for it."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

from records import STEPS, WORKLOAD, plan, stage, workload_diagnosis
from uncork.codemod.plan.plan_patch import build_plan_patch
from uncork.codemod.syntax.patch import Patch
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan
from uncork.core.edits.edit import Edit
from uncork.core.evidence.stage import CachePoint, ShuffleBuffer, Stage

KEPT = next(step for step in STEPS if step.outcome == "kept")

FIT = """\
import keras
import tensorflow as tf


def load(path):
    return tf.io.read_file(path)


data = (
    tf.data.Dataset.list_files("*.jpg")
    .map(load)
    .shuffle(100)
    .batch(32)  # fits the GPU
)

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile(
    optimizer="adam",
    loss="mse",  # for now
)

# ten are enough
history = model.fit(data, epochs=10)
"""

LOOP = """\
import tensorflow as tf


@tf.function
def train_step(x):
    return x


for epoch in range(3):
    for step, x in enumerate(data):
        train_step(x)
"""


def at(text: str, what: str) -> str:
    """``train.py:N`` of the only line that has this in it."""
    lines = [n for n, line in enumerate(text.splitlines(), start=1) if what in line]
    assert len(lines) == 1, (what, lines)
    return f"train.py:{lines[0]}"


def of_fit(text: str, *edits: Edit | tuple[Edit, ...], **workload: Any) -> Plan:
    """A plan for the one ``fit`` of a script; each edit, or several, is a step of its own."""
    known = {"step_setup_at": at(text, ".compile("), **workload}
    if "at" not in known:
        known["at"] = at(text, ".fit(")
    before = workload_diagnosis(workload=replace(WORKLOAD, **known), stages=stages(text))
    return plan(before=before, after=None, steps=steps(*edits))


def of_loop(text: str, *edits: Edit, **workload: Any) -> Plan:
    known = {
        "kind": "custom_loop",
        "model": None,
        "at": at(text, "in enumerate("),
        "step_call_at": at(text, "        train_step(x)"),
        "step_setup_at": None,
        **workload,
    }
    before = workload_diagnosis(workload=replace(WORKLOAD, **known), stages=())
    return plan(before=before, after=None, steps=steps(*edits))


def steps(*edits: Edit | tuple[Edit, ...]) -> tuple[Any, ...]:
    several = [each if isinstance(each, tuple) else (each,) for each in edits]
    names = [type(each[0]).__struct_config__.tag for each in several]
    return tuple(
        replace(KEPT, name=name, edits=each, source_edit="")
        for name, each in zip(names, several, strict=True)
    )


def stages(text: str) -> tuple[Stage, ...]:
    """Of the chain in ``FIT``, as far as the text has them."""
    kinds = {"list_files": {}, "map": {"name": "load"}, "shuffle": {}, "batch": {}}
    found = [kind for kind in kinds if f".{kind}(" in text]
    return tuple(
        stage(
            i,
            kind,
            at=at(text, f".{kind}("),
            shuffle_buffer=ShuffleBuffer(
                element_count=9, elements_per_pass=99, movable_maps=(1,), bytes_per_element=8
            ),
            **kinds[kind],
        )
        for i, kind in enumerate(found)
    )


def with_point(made: Plan, number: int, below: tuple[str, ...]) -> Plan:
    """A plan whose stage has a place for a cache below others."""
    point = CachePoint(
        element_count=9, memory_bytes=72, saved_cpu_s_per_step=0.1, placed_before=below
    )
    changed = list(made.before.stages)
    changed[number] = replace(changed[number], cache_point=point)
    return replace(made, before=replace(made.before, stages=tuple(changed)))


def patched(text: str, made: Plan) -> Patch:
    return build_plan_patch(made, text.encode(), "train.py")


def lines(patch: Patch) -> list[str]:
    """What goes and what comes, without what stays."""
    shown = patch.diff("train.py").decode().splitlines()[2:]
    return [line for line in shown if line[:1] in "+-"]


def script(text: str) -> str:
    return dedent(text).lstrip("\n")
