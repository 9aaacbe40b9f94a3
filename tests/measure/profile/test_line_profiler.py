from __future__ import annotations

import sys
import time

import keras
import numpy as np
import tensorflow as tf

from uncork.measure.profile.line_profiler import (
    LineTimes,
    classify_statements,
    find_slowest_function,
)


def watch():
    time.sleep(0.02)


@tf.function
def graph(x):
    return x + 1.0


def lines_of(loop):
    """What was timed, by the text of each line."""
    times = LineTimes()
    loop(times)
    with open(__file__) as file:  # noqa: PTH123
        text = dict(enumerate(file, 1))
    found = {
        text[n].split("#")[-1].strip(): (n, works) for n, works in times.seconds_by_line.items()
    }
    return times, found


def test_a_line_takes_what_it_calls_and_is_known_by_it():
    metric = keras.metrics.Mean()
    x = tf.constant(1.0)

    def loop(times):
        times.start(sys._getframe())
        for _ in range(3):
            graph(x)  # a graph
            metric.update_state(x)  # a metric
            watch()  # a function
            np.append(np.ones(3), 1)  # a library
        times.stop()

    times, found = lines_of(loop)
    assert set(found["a graph"][1]) == {"graph"}
    assert set(found["a metric"][1]) == {"metrics"}
    assert set(found["a function"][1]) == {"function"}
    assert set(found["a library"][1]) == {"plain"}
    line, works = found["a function"]
    assert works["function"] > 0.05
    assert find_slowest_function(times, line).endswith(
        f"test_line_profiler.py:{watch.__code__.co_firstlineno}"
    )


def test_a_function_that_runs_a_graph_is_no_function_beside_it():
    def step():
        return graph(tf.constant(1.0))

    def loop(times):
        times.start(sys._getframe())
        for _ in range(2):
            step()  # the step
        times.stop()

    _, found = lines_of(loop)
    assert set(found["the step"][1]) == {"graph"}


def test_evaluating_is_known_although_it_runs_a_graph():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((4, 2)), np.ones((4, 1))

    def loop(times):
        times.start(sys._getframe())
        for _ in range(2):
            min(1.0, model.evaluate(x, y, verbose=0))  # a validation
        times.stop()

    _, found = lines_of(loop)
    assert set(found["a validation"][1]) == {"evaluation"}


def test_names_that_grow_and_values_that_are_dropped():
    def loop(times):
        features, kept = np.empty(0), np.ones(3)
        times.start(sys._getframe())
        for _ in range(3):
            features = np.append(features, 1.0)  # grows
            kept = kept * 2  # stays as large
            watch()  # dropped
        times.stop()
        return features, kept

    times, found = lines_of(loop)
    dropping, growing = classify_statements(times)
    assert found["grows"][0] in growing
    assert found["stays as large"][0] not in growing
    assert found["dropped"][0] in dropping
    assert found["grows"][0] not in dropping


def test_whoever_traced_before_goes_on():
    seen = []

    def tracer(frame, event, arg):
        seen.append(event)
        return tracer

    def loop(times):
        times.start(sys._getframe())
        watch()
        times.stop()

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        loop(LineTimes())
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert after is tracer


def test_without_a_frame_there_is_nothing_to_end():
    times = LineTimes()
    times.stop()
    assert classify_statements(times) == (set(), set())


def test_what_minds_being_looked_at_is_left_alone():
    class Touchy:
        def __getattr__(self, name):
            raise RuntimeError(name)

        @property
        def nbytes(self):
            raise RuntimeError

    def loop(times):
        touchy = Touchy()
        times.start(sys._getframe())
        for _ in range(2):
            watch()
        times.stop()
        return touchy

    times, _ = lines_of(loop)
    assert times.growing_names == frozenset()
