"""What several tests of the pipeline engine do with datasets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

from uncork.core.evidence.stage import Stage
from uncork.pipeline.equivalence.digests import element_digests
from uncork.pipeline.ir.tree import Pipeline, read_pipeline
from uncork.pipeline.profile import alternatives, isolated_timing, stage_costs
from uncork.pipeline.profile.probes import Probe
from uncork.pipeline.profile.stage_costs import measure_stage_costs
from uncork.pipeline.profile.stage_measurement import StageMeasurement

# Of each probe, whatever they take.
TURNS = 3


def epochs(dataset, limit=40, passes=2):
    """Digests of some passes."""
    return element_digests(dataset, epochs=passes, max_elements=limit, max_s=20).epochs


def measured(
    dataset, *, batch_size: int | None = 4, seconds: float = 60.0, turns: int = TURNS
) -> tuple[Stage, ...]:
    """What each stage costs: so many turns of each probe, not as many as there is time for.

    On a busy machine none goes without, and what is counted is counted to its end. Elements are
    pulled in groups as large as their CPU time asks for, which waiting does not lengthen.

    Args:
        dataset: Or a pipeline.
        batch_size: Samples a step.
        seconds: Of endless data nothing is counted for longer than an eighth of it.
        turns: Of each probe.
    """

    def take_turns(probes: Sequence[Probe], budget_s: float) -> None:
        del budget_s
        for _ in range(turns):
            for probe in probes:
                probe.time_group()

    def computed(probe: Probe) -> tuple[float, float] | None:
        pulled = probe._pull()
        return pulled and (pulled[0], pulled[0])

    pipeline = dataset if isinstance(dataset, Pipeline) else read_pipeline(dataset)
    with pytest.MonkeyPatch.context() as patch:
        for module in (stage_costs, isolated_timing, alternatives):
            patch.setattr(module, "time_round_robin", take_turns)
        patch.setattr(Probe, "_pull_in_its_turn", computed)
        return measure_stage_costs(pipeline, batch_size=batch_size, budget_s=seconds)


def by_decree(dataset, *, batch_size: int | None = 4, seconds: float = 60.0) -> tuple[Stage, ...]:
    """What else is told of the stages, where each is said to take a millisecond for an element.

    Args:
        dataset: Not a pipeline.
        batch_size: Samples a step.
        seconds: Nothing is counted for longer than an eighth of it.
    """

    def difference(stages: Sequence[StageMeasurement]) -> None:
        for stage in stages:
            stage.cpu_s = stage.wall_s = 0.001

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_costs, "_difference", difference)
        for module, name in (
            (stage_costs, "time_round_robin"),
            (stage_costs, "time_in_isolation"),
            (alternatives, "time_round_robin"),
        ):
            patch.setattr(module, name, lambda *_: None)
        patch.setattr(stage_costs, "measure_op_costs", lambda *_, **__: ())
        return measure_stage_costs(read_pipeline(dataset), batch_size=batch_size, budget_s=seconds)


def kinds(pipeline: Pipeline):
    return [node.kind for node in pipeline.stages]


def behind_unknown(dataset):
    """The same elements behind a class of TensorFlow's that Uncork does not know."""
    return dataset.apply(testing.sleep(1))


def function_of(python_function, data=None):
    data = tf.data.Dataset.range(4) if data is None else data
    return read_pipeline(data.map(python_function)).root.functions[0]


def table():
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2]), 0)


def changing_table():
    return tf.lookup.experimental.MutableHashTable(tf.int32, tf.int32, 0)


def in_a_branch(lookup, x):
    return tf.cond(x > 1, lambda: lookup.lookup(x), lambda: x)


def in_a_function(lookup, x):
    return tf.function(lookup.lookup)(x)


def twice(lookup, x):
    return lookup.lookup(lookup.lookup(x) + 1)
