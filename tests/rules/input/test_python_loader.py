from __future__ import annotations

from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.evidence.stage import ChunkedCost
from uncork.rules.input import python_loader

WAITING = {"input": 0.8, "step": 0.2}
LOADER = stage(0, "pydataset", 0.08, has_python_code=True, name="Photos")


def found(*stages, shares=None, **changes):
    diagnosis = observed(*stages, shares=WAITING if shares is None else shares, **changes)
    return list(python_loader.find(diagnosis, MACHINE))


def test_a_slow_loader_is_named_with_its_line():
    (finding,) = found(LOADER)
    assert finding.cause == "python_loader"
    assert finding.at == "train.py:20"
    assert "pydataset(Photos)" in finding.evidence
    assert "80 ms" in finding.evidence
    assert finding.upper_bound > 4.9


def test_the_remedy_says_what_threads_were_seen_to_do():
    def remedy(threads_s):
        return found(replace(LOADER, threaded_wall_s_per_element=threads_s))[0].remedy

    assert "took 30 ms instead of 80 ms" in remedy(0.03)
    assert "threads do not help" in remedy(0.078)
    assert "workers=N" in remedy(None)


def test_the_remedy_is_processes_where_only_these_help():
    def remedy(threads_s, processes_s, *, random=False):
        timed = replace(LOADER, threaded_wall_s_per_element=threads_s, is_random=random)
        return found(replace(timed, multiprocess_wall_s_per_element=processes_s))[0].remedy

    assert "use_multiprocessing=True" in remedy(0.085, 0.03)
    assert "took 30 ms instead of 80 ms, with threads 85 ms" in remedy(0.085, 0.03)
    assert "seed" not in remedy(0.085, 0.03)
    assert "seed the random generators in each process" in remedy(0.085, 0.03, random=True)
    assert "threads do not help" in remedy(0.085, 0.079)
    assert "workers=N)" in remedy(0.03, 0.029)


def test_what_makes_one_batch_after_the_other_gets_no_workers():
    (finding,) = found(stage(0, "generator", 0.08, has_python_code=True))
    assert finding.upper_bound > 4.9
    assert "turn it into a PyDataset" in finding.remedy
    (finding,) = found(stage(0, "loop", 0.08, has_python_code=True))
    assert "prefetch" in finding.remedy


def test_the_slowest_of_several_is_named():
    (finding,) = found(
        stage(0, "from_generator", 0.02, has_python_code=True),
        stage(1, "map", 0.06, has_python_code=True),
    )
    assert finding.at == "train.py:21"


def test_python_inside_a_map_is_a_py_function_and_its_own_line_is_blamed():
    (finding,) = found(stage(1, "map", 0.08, has_python_code=True, python_code_at="train.py:7"))
    assert finding.cause == "py_function"
    assert finding.at == "train.py:7"


def test_python_that_the_step_does_not_wait_for_is_left_alone():
    assert found(LOADER, shares={"input": 0.05, "step": 0.95}) == []


def test_quick_python_is_not_to_blame():
    assert found(stage(0, "from_generator", 0.005, has_python_code=True)) == []
    assert found(stage(0, "map", has_python_code=True, wall_s_per_element=None)) == []


def test_no_python_no_finding():
    assert found(stage(0, "map", 0.09, parallelism=1)) == []
    assert found() == []


def test_a_brief_generator_should_yield_many_at_once():
    brief = ChunkedCost(max_elements=64, cpu_s_per_element=0.001, wall_s_per_element=0.001)
    (finding,) = found(stage(0, "from_generator", 0.06, has_python_code=True, chunked_cost=brief))
    assert "stacked" in finding.remedy
    assert "an element takes 60 ms; 64 at a time, it takes 1 ms" in finding.remedy
    slow = replace(brief, wall_s_per_element=0.05)
    (finding,) = found(stage(0, "from_generator", 0.06, has_python_code=True, chunked_cost=slow))
    assert "stacked" not in finding.remedy


def test_no_more_is_promised_than_other_stages_leave():
    """They are as slow, on a thread of their own."""
    generator = stage(0, "from_generator", 0.07, has_python_code=True)
    shares = {"input": 0.7, "step": 0.3}
    alone = found(generator, shares=shares)
    others = stage(1, "prefetch"), stage(2, "map", 0.09, parallelism=1)
    beside = found(generator, *others, shares=shares)
    assert alone[0].upper_bound > 2.0
    assert not beside or beside[0].upper_bound < 1.2


def test_what_is_said_of_threads_was_seen():
    function = stage(0, "map", 0.08, has_python_code=True, parallelism=1)
    told = found(function)[0]
    assert "parallel calls" not in told.remedy
    assert "one call at a time" in told.evidence
    assert "do not help" in found(replace(function, threaded_wall_s_per_element=0.079))[0].remedy
    helps = found(replace(function, threaded_wall_s_per_element=0.02))[0].remedy
    assert "num_parallel_calls" in helps
    assert "took 20 ms instead of 80 ms" in helps
    parallel = replace(function, parallelism=4)
    assert "one call at a time" not in found(parallel)[0].evidence
