"""Batches made in processes: the same ones, in their order, whatever happens to the processes."""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from running import environment
from uncork.core.base.errors import EditRefused
from uncork.core.edits.edit import LoaderProcesses
from uncork.pycode.purity.random_draws import PythonRandomStates, copy_with_fixed_random_state
from uncork.pycode.purity.reachability import loader_digest
from uncork.training.input import loader_costs as loaders
from uncork.training.input import loader_processes
from uncork.training.input.feed import Feed
from uncork.training.input.forked_workers import BatchWorkers
from uncork.training.input.loader_costs import measure_loader_stages
from uncork.training.input.loader_edits import apply_loader_edits, check_loader, copy_with_edits
from uncork.training.input.loader_processes import fork_refusal

HERE = os.getpid()
pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="processes cannot be forked"
)


class Counted(keras.utils.PyDataset):
    """Tells by whom a batch was made; it computes in Python."""

    def __init__(self, start=0, batches=12):
        super().__init__()
        self.start, self.batches = start, batches

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        x = np.array([[self.start + index, sum(range(200)), os.getpid() != HERE]], "float32")
        return x, x[:, :1]


class Moving(Counted):
    def on_epoch_end(self):
        self.start += 100


class Failing(Counted):
    def __getitem__(self, index):
        if index == 5:
            raise ValueError("no batch 5")
        return super().__getitem__(index)


class Killed(Counted):
    """Ends the process that makes its fourth batch, unless that is the training's own."""

    def __getitem__(self, index):
        if index == 3 and os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class NotHandedOver(Counted):
    """Its batches hold what cannot be pickled."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return (x, y) if os.getpid() == HERE else (x, lambda: y)


def edit(dataset, processes=2):
    return LoaderProcesses(processes=processes, expected_digest=loader_digest(dataset))


def elsewhere(dataset, processes=2):
    return copy_with_edits(dataset, (edit(dataset, processes),))


def model():
    made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


def epochs(dataset, number=2, between=lambda: None):
    """Numbers of the batches, and whether another process made them, epoch after epoch."""
    found = []
    with Feed(x=dataset, shuffle=False).open_epoch_iterator(model()) as read:
        for _ in range(number):
            rows = [
                next(iterator)[0].numpy()[0].tolist()
                for _, _, iterator in read
            ]  # fmt: skip
            found.append([(int(row[0]), bool(row[2])) for row in rows])
            between()
    return found


def no_children():
    deadline = time.monotonic() + 20
    while multiprocessing.active_children():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_batches_come_in_their_order_from_other_processes():
    first, second = epochs(elsewhere(Counted()))
    assert first == second == [(index, True) for index in range(12)]
    no_children()


def test_what_an_epoch_s_end_changes_the_next_one_has():
    first, second = epochs(elsewhere(Moving()))
    assert [index for index, _ in first] == list(range(12))
    assert second == [(100 + index, True) for index in range(12)]


def test_what_is_set_between_epochs_the_next_one_has():
    dataset = elsewhere(Counted())
    _, second = epochs(dataset, between=lambda: setattr(dataset, "start", 50))
    assert second == [(50 + index, True) for index in range(12)]


def test_an_attribute_that_is_set_begins_new_processes():
    dataset = elsewhere(Counted(batches=200))
    seen = []
    with Feed(x=dataset, shuffle=False).open_epoch_iterator(model()) as read:
        for number, (_, _, iterator) in enumerate(read):
            if number == 20:
                dataset.start = 1_000
            seen.append(int(next(iterator)[0][0, 0]))
    assert seen[:20] == list(range(20))
    assert seen[-1] == 1_199
    assert [number % 1_000 for number in seen] == list(range(200))
    no_children()


def test_an_error_is_the_loader_s_own():
    raised = {}
    for name, dataset in {"plain": Failing(), "elsewhere": elsewhere(Failing())}.items():
        with pytest.raises(tf.errors.InvalidArgumentError) as info:
            epochs(dataset)
        raised[name] = str(info.value).splitlines()[0]
    assert raised["plain"] == raised["elsewhere"]
    assert "no batch 5" in raised["plain"]
    no_children()


@pytest.mark.parametrize("loader", [Killed, NotHandedOver])
def test_where_processes_fail_the_training_goes_on(loader):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        first, second = epochs(elsewhere(loader()))
    assert [index for index, _ in first] == list(range(12))
    assert second == [(index, False) for index in range(12)]
    assert sum("hangs, failed or was killed" in str(each.message) for each in said) == 1
    no_children()


def test_an_epoch_that_is_left_early_leaves_no_process_behind():
    with Feed(x=elsewhere(Counted())).open_epoch_iterator(model()) as read:
        for _, _, iterator in read:
            next(iterator)
            break
        assert multiprocessing.active_children()
    no_children()


def test_the_settings_are_given_back_in_mid_epoch():
    mine = Counted()
    with apply_loader_edits(mine, (edit(mine),)):
        assert mine.workers > 1
        read = Feed(x=mine).create_epoch_iterator(model())
        for _, _, iterator in read:
            next(iterator)
            break
    assert (mine.workers, type(mine)) == (1, Counted)
    no_children()
    assert mine[2][0][0, 2] == 0.0


def test_no_more_batches_wait_than_keep_the_processes_busy():
    mine = Counted()
    with apply_loader_edits(mine, (edit(mine, 8),)):
        assert (mine.workers, mine.max_queue_size) == (16, 16)


def test_another_keras_is_left_alone(monkeypatch):
    monkeypatch.setattr(loader_processes, "GET_INDEX", None)
    assert "this Keras release" in fork_refusal(Counted())


def test_whoever_asks_for_a_batch_gets_it_made_at_once():
    assert elsewhere(Counted())[3][0][0].tolist() == [3.0, 19900.0, 0.0]
    no_children()


def uses_tensorflow(dataset, index):
    del dataset
    return tf.ones([1, 3]) * index


def uses_its_own_library(dataset, index):
    return dataset.layer + index


@pytest.mark.parametrize(
    ("getitem", "named"), [(uses_tensorflow, "tensorflow"), (uses_its_own_library, "keras")]
)
def test_code_that_may_hang_is_refused(getitem, named):
    class Other(Counted):
        __getitem__ = getitem

    mine = Other()
    mine.layer = keras.layers.Dense(1)
    assert named in fork_refusal(mine)
    with pytest.raises(EditRefused, match="may hang in a forked process"):
        check_loader(mine, edit(mine))


def test_what_begins_epochs_is_refused():
    class Beginning(Counted):
        def on_epoch_begin(self):
            self.start += 1

    with pytest.raises(EditRefused, match="on_epoch_begin"):
        check_loader(Beginning(), edit(Beginning()))


class Busy(Counted):
    def __getitem__(self, index):
        total = 0
        for number in range(60_000):
            total += number
        return np.full((1, 3), total + index, "float32"), np.ones((1, 1), "float32")


@pytest.fixture
def threads(monkeypatch):
    """What a fake look at threads finds, in shares of the time of one."""
    found = {"share": 1.0}
    monkeypatch.setattr(loaders, "_BRIEF_S", 0.0)
    monkeypatch.setattr(loaders, "usable_cpus", lambda: 2.0)
    monkeypatch.setattr(loaders, "_in_threads", lambda _, cost: found["share"] * cost.wall_s)
    return found


def test_processes_are_measured_where_threads_leave_something(threads):
    (busy,) = measure_loader_stages(Feed(x=Busy()))
    assert busy.multiprocess_wall_s_per_element is not None
    threads["share"] = 0.55
    (helped,) = measure_loader_stages(Feed(x=Busy()))
    assert helped.multiprocess_wall_s_per_element is None
    no_children()


def test_what_is_quickly_made_is_not_handed_over(threads, monkeypatch):
    monkeypatch.setattr(loaders, "_BRIEF_S", 60.0)
    (quick,) = measure_loader_stages(Feed(x=Counted()))
    assert quick.multiprocess_wall_s_per_element is None


class Drawing(Counted):
    """Draws from each kind of generator that there is, by name and of its own."""

    def __init__(self):
        super().__init__()
        self.ours = random.Random(3)
        self.older = np.random.RandomState(4)
        self.newer = np.random.default_rng(5)

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        drawn = [random.random(), np.random.normal(), self.ours.random()]
        return np.array([[*drawn, self.older.normal(), self.newer.normal(), x[0, 2]]], "float32"), y


def drawn(dataset, number):
    found = []
    with Feed(x=dataset, shuffle=False).open_epoch_iterator(model()) as read:
        for _ in range(number):
            found.extend(next(iterator)[0].numpy()[0] for _, _, iterator in read)
    return np.array(found)


def test_no_two_batches_are_drawn_alike():
    mine = Drawing()
    edited = copy_with_edits(
        mine, (LoaderProcesses(processes=3, expected_digest=loader_digest(mine), is_random=True),)
    )
    rows = drawn(edited, 4)
    assert rows.shape == (48, 6)
    assert rows[:, 5].all(), "all by other processes"
    for column in rows[:, :5].T:
        assert len(set(column.tolist())) == 48
    no_children()


def test_a_batch_is_drawn_from_the_states_that_it_is_asked_in():
    mine = Drawing()
    edited = copy_with_edits(
        mine, (LoaderProcesses(processes=3, expected_digest=loader_digest(mine), is_random=True),)
    )
    alike = (
        copy_with_fixed_random_state(mine),
        copy_with_fixed_random_state(edited),
    )  # of one moment
    one, other = (drawn(each, 1) for each in alike)
    assert not one[:, 5].any()
    assert other[:, 5].all()
    np.testing.assert_array_equal(one[:, :5], other[:, :5])


def test_one_that_draws_is_measured_too(threads):
    class Both(Busy):
        def __getitem__(self, index):
            x, y = super().__getitem__(index)
            return x + np.random.normal(size=x.shape), y

    before = np.random.get_state()[1].tolist()
    (stage,) = measure_loader_stages(Feed(x=Both()))
    assert stage.multiprocess_wall_s_per_element is not None
    assert stage.is_random
    assert np.random.get_state()[1].tolist() == before


class DrawingLater(Counted):
    """Begins to augment when it has been told to."""

    def __init__(self):
        super().__init__()
        self.told = {"augments": False}

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        x[0, 1] = np.random.random() if self.told["augments"] else 0.0
        return x, y


class Changing(Counted):
    """Counts what it has made, once it has been told to."""

    def __init__(self):
        super().__init__()
        self.told, self.last = {"counts": False}, -1

    def __getitem__(self, index):
        if self.told["counts"]:
            self.last = index
        return super().__getitem__(index)


def test_what_begins_to_draw_is_made_here_from_then_on():
    dataset = elsewhere(DrawingLater())
    before = drawn(dataset, 1)
    dataset.told["augments"] = True
    with pytest.warns(UserWarning, match="uses random numbers or changes state"):
        later = drawn(dataset, 3)
    assert before[:, 2].all()
    assert len(set(later[:, 1].tolist())) == 36
    assert not later[:, 2].any()
    no_children()


def test_what_begins_to_count_is_made_here_from_then_on():
    dataset = elsewhere(Changing())
    with pytest.warns(UserWarning, match="uses random numbers or changes state"):
        epochs(dataset, 3, between=lambda: dataset.told.update(counts=True))
    assert dataset.last >= 0
    no_children()


def test_a_callback_that_sets_something_at_each_batch_does_not_begin_processes_each_time(
    monkeypatch,
):
    dataset, begun = elsewhere(Counted(batches=60)), []
    made = loader_processes.BatchWorkers
    monkeypatch.setattr(
        loader_processes, "BatchWorkers", lambda *a, **k: (begun.append(1), made(*a, **k))[1]
    )
    seen = []
    with Feed(x=dataset, shuffle=False).open_epoch_iterator(model()) as read:
        for number, (_, _, iterator) in enumerate(read):
            dataset.step = number
            seen.append(int(next(iterator)[0][0, 0]))
    assert seen == list(range(60))
    assert len(begun) <= 3
    no_children()


def test_the_same_value_once_more_is_no_change():
    dataset = elsewhere(Counted(batches=200))
    with Feed(x=dataset, shuffle=False).open_epoch_iterator(model()) as read:
        for _, _, iterator in read:
            next(iterator)
            before = {each.pid for each in multiprocessing.active_children()}
            dataset.start = 0
            assert before
            assert {each.pid for each in multiprocessing.active_children()} == before
            break


def test_a_method_by_the_name_of_keras_s_own_does_not_hang():
    class Recursive(Counted):
        def get_index(self, index):
            return self[index - 1] if index else (np.zeros((1, 3), "float32"),) * 2

        def __getitem__(self, index):
            return super().__getitem__(index) if index % 2 else self.get_index(index)

    first, _ = epochs(elsewhere(Recursive()))
    assert len(first) == 12


def test_what_a_function_imports_is_seen():
    class Lazy(Counted):
        def __getitem__(self, index):
            import tensorflow as lazily  # noqa: PLC0415

            return lazily.ones([1, 3]) * index

    assert "tensorflow" in fork_refusal(Lazy())


class Large(Counted):
    """Megabytes a batch, more than a pipe holds; one of them ends its process or draws."""

    def __init__(self, does):
        super().__init__()
        self.does = does

    def __getitem__(self, index):
        if index == 5 and os.getpid() != HERE:
            return self.does(np.ones((1, 1_000_000, 3), "float32"))
        return np.full((1, 1_000_000, 3), index, "float32"), np.ones((1, 1), "float32")


def dies(_batch):
    os.kill(os.getpid(), signal.SIGKILL)


def drawing(batch):
    return batch + np.random.random(), np.ones((1, 1), "float32")


@pytest.mark.parametrize("does", [dies, drawing])
def test_large_batches_do_not_hang_where_processes_are_ended(does):
    began = time.monotonic()
    made = keras.Sequential([keras.Input((None, 3)), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    seen = []
    feed = Feed(x=elsewhere(Large(does), 3), shuffle=False)
    with feed.open_epoch_iterator(made) as read, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            seen += [int(next(iterator)[0][0, 0, 0]) for _, _, iterator in read]
    assert seen == 2 * list(range(12))
    assert time.monotonic() - began < 60  # and not until nobody waits any more
    no_children()


def test_a_generator_that_comes_later_is_seen():
    class Later(Counted):
        def on_epoch_end(self):
            self.rng = np.random.default_rng(3)

        def __getitem__(self, index):
            x, y = super().__getitem__(index)
            x[0, 1] = self.rng.random() if hasattr(self, "rng") else 0.0
            return x, y

    with pytest.warns(UserWarning, match="uses random numbers or changes state"):
        rows = drawn(elsewhere(Later()), 2)
    assert len(set(rows[12:, 1].tolist())) == 12


def test_what_remembers_is_left_alone():
    @functools.lru_cache
    def decoded(index):
        return np.full((1, 3), index, "float32")

    class Remembering(Counted):
        def __getitem__(self, index):
            return decoded(index), np.ones((1, 1), "float32")

    assert "caches its results" in fork_refusal(Remembering())


def test_what_cannot_be_looked_into_is_left_alone():
    mine = Counted()
    mine.lock = threading.Lock()
    assert "cannot inspect" in fork_refusal(mine)


def test_warnings_that_are_errors_do_not_end_the_training(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        first, _ = epochs(elsewhere(Killed()))
    assert [index for index, _ in first] == list(range(12))
    assert "the main process loads the batches" in capfd.readouterr().err
    no_children()


def test_a_property_that_gets_the_same_value_is_no_change():
    class Scaled(Counted):
        scale = property(lambda self: self.factor, lambda self, v: setattr(self, "factor", v))

    mine = Scaled()
    mine.scale = 2
    dataset = elsewhere(mine)
    with Feed(x=dataset, shuffle=False).open_epoch_iterator(model()) as read:
        for _, _, iterator in read:
            next(iterator)
            before = {each.pid for each in multiprocessing.active_children()}
            dataset.scale = 2
            assert {each.pid for each in multiprocessing.active_children()} == before
            break
    no_children()


DRAWING_BESIDE = """
import numpy as np
def draws():
    while True:
        np.random.normal(size=2_000_000)
threading.Thread(target=draws, daemon=True).start()
time.sleep(0.2)
for _ in range(5):
    makers = BatchWorkers(lambda index: index, 2)
    print([makers.submit(index).result(20)[1] for index in range(3)])
    makers.close()
"""


def test_locks_that_nobody_held_are_let_go_of():
    draws = PythonRandomStates([np.random.default_rng(1), np.random.RandomState(2)])
    draws.release_locks()
    with draws.hold_locks():
        assert draws.current_states()


def test_locks_of_generators_are_not_inherited(tmp_path):
    assert in_a_process(DRAWING_BESIDE, tmp_path) == ["[0, 1, 2]"] * 5


IN_A_PROCESS = """
import gc, os, signal, sys, threading, time
from uncork.training.input.forked_workers import BatchWorkers
"""
HANDLED = """
asked_to_stop = []
signal.signal(signal.SIGTERM, lambda *_: (asked_to_stop.append(1), print("handler", os.getpid())))
makers = BatchWorkers(
    lambda index: os.kill(os.getpid(), signal.SIGKILL) if index == 3 else index, 2
)
for index in range(20):
    try:
        makers.submit(index).result(20)
    except Exception as error:
        print(type(error).__name__)
        break
makers.close(is_immediate=True)
print("ended", asked_to_stop)
"""
COLLECTED = """
class Held:
    def __init__(self):
        self.itself = self
    def __del__(self):
        print("ended in", "child" if os.getpid() != parent else "parent", flush=True)

parent = os.getpid()
gc.disable()
Held()
makers = BatchWorkers(lambda index: gc.collect() and None, 1)
makers.submit(0).result(20)
makers.close()
print("closed", flush=True)
gc.collect()
"""
HALF_BEGUN = """
forks, fork = [], os.fork
def failing():
    forks.append(1)
    if len(forks) == 2:
        raise BlockingIOError("no more processes")
    return fork()
os.fork = failing
try:
    BatchWorkers(lambda index: index, 3)
except OSError as error:
    print("refused:", error)
"""


def in_a_process(text, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(IN_A_PROCESS + text)
    return subprocess.run(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        env=environment(tmp_path),
        check=True,
        text=True,
        timeout=60,
    ).stdout.splitlines()


def test_handlers_of_the_script_are_not_theirs(tmp_path):
    assert in_a_process(HANDLED, tmp_path) == ["BrokenProcessPool", "ended []"]


def test_they_end_no_objects_of_the_script(tmp_path):
    assert in_a_process(COLLECTED, tmp_path) == ["closed", "ended in parent"]


def test_where_not_all_can_begin_none_is_left(tmp_path):
    assert in_a_process(HALF_BEGUN, tmp_path) == ["refused: no more processes"]


KILLED = """
import os, signal, sys, threading, time
from uncork.training.input.forked_workers import BatchWorkers

makers = BatchWorkers(lambda index: os.getpid(), 2)
print(*{makers.submit(index).result(30)[1] for index in range(50)}, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def is_running(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_processes_end_with_one_that_is_killed(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(textwrap.dedent(KILLED))
    done = subprocess.run(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        env=environment(tmp_path),
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    left = set(map(int, done.stdout.split()))
    assert left
    deadline = time.monotonic() + 20
    while any(map(is_running, left)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_ctrl_c_is_not_theirs():
    makers = BatchWorkers(lambda index: (time.sleep(0.2), index)[1], 1)
    try:
        assert makers.submit(1).result(30) == (True, 1)  # they have begun
        asked = makers.submit(7)
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGINT)
        assert asked.result() == (True, 7)
    finally:
        makers.close()
