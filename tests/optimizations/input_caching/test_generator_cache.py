from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, WAITING, proposal, reason
from records import observed, stage
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import GeneratorCache
from uncork.core.evidence.stage import Memoization
from uncork.optimizations.input_caching.generator_cache import GeneratorCacheOptimization

KEEP = GeneratorCacheOptimization()
ELEMENTS = Memoization(total_bytes=2_000_000_000, hit_wall_s_per_element=0.009, code_digest="c0de")


def yielding(*, keepable=ELEMENTS, **workload):
    memory = workload.pop("memory_available_bytes", 64 << 30)
    return observed(
        stage(0, "from_generator", 0.09, has_python_code=True, memoization=keepable),
        stage(1, "batch"),
        shares=WAITING,
        memory_available_bytes=memory,
        workload={"pipeline_digest": "d1ge57", **workload},
    )


def test_what_is_yielded_in_every_epoch_is_kept():
    found = proposal(KEEP, yielding())
    edit = GeneratorCache(
        stage=0, expected_digest="d1ge57", size_bytes=2_000_000_000, code_digest="c0de"
    )
    assert found.edits[0] == edit
    assert found.predicted == pytest.approx(0.1 / 0.01, rel=0.2)
    assert "2 GB of memory" in found.rationale


def test_where_nobody_counted_as_much_is_kept_as_fits():
    uncounted = Memoization(total_bytes=0, hit_wall_s_per_element=0.009, code_digest="c0de")
    found = proposal(KEEP, yielding(keepable=uncounted, memory_available_bytes=8_000_000_000))
    assert found.edits[0].size_bytes == 4_000_000_000
    assert "at most 4 GB" in found.rationale


def test_handing_them_over_costs_what_it_did():
    dear = Memoization(total_bytes=1000, hit_wall_s_per_element=0.088)
    assert "predicted gain" in reason(KEEP, yielding(keepable=dear))


def test_they_must_fit_the_memory_budget():
    assert "needs 2.0 GB of memory" in reason(KEEP, yielding(memory_available_bytes=3 << 30))


def test_one_epoch_reads_nothing_twice():
    assert "one epoch" in reason(KEEP, yielding(epochs=1))


def test_other_elements_in_every_epoch_are_not_kept():
    assert "yield the same" in reason(KEEP, yielding(keepable=None))


def test_without_a_generator_there_is_nothing_to_keep():
    assert "no generator" in reason(KEEP, SITUATIONS["waiting for input"])


def test_batches_of_a_loader_are_another_matter():
    loader = observed(
        stage(0, "pydataset", 0.09, has_python_code=True, memoization=ELEMENTS),
        workload={"data_kind": "pydataset"},
    )
    assert "not by tf.data" in reason(KEEP, loader)


@pytest.mark.parametrize(
    ("elements", "steps", "read"), [(0, 10, False), (900, 10, False), (100, 10, True)]
)
def test_what_is_never_read_to_its_end_is_not_kept(elements, steps, read):
    """A ``fit`` with ``steps_per_epoch`` may read from a generator that goes on for ever."""
    counted = Memoization(total_bytes=1000, hit_wall_s_per_element=0.009, element_count=elements)
    found = yielding(
        keepable=counted, steps_per_epoch=steps, has_explicit_steps=True, epochs=2, kind="fit"
    )
    found = replace(found, stages=tuple(replace(s, elements_per_step=8.0) for s in found.stages))
    if read:
        assert proposal(KEEP, found).edits
    else:
        assert "to the end" in reason(KEEP, found)
