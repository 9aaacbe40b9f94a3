"""How often data is read decides whether a cache can pay."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from uncork.pycode.frames.enclosing_loops import count_passes, is_recreated_each_pass, loops_around

ONCE = {
    "one loop": """
        for x in range(2):
            look()
    """,
    "an enumerated loop in a with block": """
        import contextlib
        with contextlib.suppress(KeyError):
            for i, x in enumerate(range(2)):
                look()
    """,
    "an iterator advanced by hand": """
        batches = iter(range(2))
        while True:
            try:
                next(batches)
            except StopIteration:
                break
            look()
    """,
    "a generator that hands the batches on": """
        def progress(batches):
            for x in batches:
                look()
                yield x
        for x in progress(range(2)):
            pass
    """,
    "two such generators": """
        def progress(batches):
            for x in batches:
                look()
                yield x
        def scaled(batches):
            for x in batches:
                yield 2 * x
        for x in scaled(progress(range(2))):
            pass
    """,
    "a function in the loop's own line": """
        for x in map(lambda x: x, range(2)):
            look()
    """,
    "a loop around the definition only": """
        for size in (1, 2):
            def train():
                for x in range(2):
                    look()
        train()
    """,
}

REPEATED = {
    "epochs in a while loop, below a condition": """
        epoch = 0
        while epoch < 2:
            if True:
                for x in range(2):
                    look()
            epoch += 1
    """,
    "a function for each epoch": """
        def train_epoch():
            for x in range(2):
                look()
        for epoch in range(2):
            train_epoch()
    """,
    "a method called from a function called in a loop": """
        class Trainer:
            def epoch(self):
                for x in range(2):
                    look()
            def run(self):
                self.epoch()
        def main():
            for fold in range(2):
                Trainer().run()
        main()
    """,
    "a generator of batches, in epochs": """
        def progress(batches):
            for x in batches:
                look()
                yield x
        for epoch in range(2):
            for x in progress(range(2)):
                pass
    """,
}


COUNTED = {
    "epochs": (2, "for epoch in range(2):"),
    "epochs from the second on": (3, "for epoch in range(1, 4):"),
    "as many as a name says": (7, "for epoch in range(epochs):"),
    "as many as were asked for": (5, "for epoch in range(args.epochs):"),
    "one more than were asked for": (6, "for epoch in range(1, args.epochs + 2):"),
    "of a class's own": (4, "for epoch in range(Settings.epochs):"),
    "of a dictionary": (9, "for epoch in range(config['train']['epochs']):"),
    "over a list as it stands": (None, "for rate in [0.1, 0.01, 0.001]:"),
    "over a list with a name": (3, "for rate in rates:"),
    "numbered": (3, "for epoch, rate in enumerate(rates):"),
    "backwards": (3, "for rate in reversed(rates):"),
    "as often as a list is long": (3, "for epoch in range(len(rates)):"),
    "with a bar": (8, "for epoch in tqdm.tqdm(range(8)):"),
    "with a bar of its own": (8, "for epoch in tqdm.trange(8):"),
    "with a named bar": (8, "for epoch in tqdm.auto.tqdm(range(8), desc='epochs'):"),
    "of a property": (None, "for epoch in range(Asked().epochs):"),
    "as a function says": (None, "for epoch in range(int('2')):"),
    "over what can be read once": (None, "for epoch in iter(rates):"),
    "over a slice": (None, "for rate in rates[1:]:"),
    "over nothing known": (None, "for epoch in itertools.count():"),
    "with names of its own": (None, "for epoch in dict(a=1, b=2):"),
    "over a name that it gives away": (None, "for epochs in range(epochs):"),
    "over what calls nothing": (None, "for epoch in strange(rates):"),
    "over what compares with nothing": (None, "for epoch in range(strange):"),
    "for ever, so to speak": (None, "for epoch in range(sys.maxsize):"),
    "more often than can be counted": (None, "for epoch in range(1_000_000_000_000_000_000_000):"),
    "by a name for range": (2, "for epoch in rounds(2):"),
    "by another range": (None, "for epoch in mine.range(2):"),
}
NAMES = """
import argparse, itertools, sys, types
import tqdm
import tqdm.auto
epochs, rates, config = 7, [0.1, 0.01, 0.001], {"train": {"epochs": 9}}
args, rounds = argparse.Namespace(epochs=5), range
mine = types.SimpleNamespace(range=lambda n: [0] * (n + 1))
class Strange:
    # whoever touches it in any way learns of it
    def __call__(self, items):
        return items
    def __getattr__(self, name):
        raise RuntimeError(name)
    __eq__ = __repr__ = __str__ = __len__ = __hash__ = __getattr__
    def __iter__(self):
        return iter(range(2))
    def __index__(self):
        return 2
strange = Strange()
class Settings:
    epochs = 4
class Asked:
    @property
    def epochs(self):
        return 2
"""


@pytest.mark.parametrize(("count", "statement"), COUNTED.values(), ids=COUNTED)
def test_epochs_are_counted_where_that_is_plain(
    count: int | None, statement: str, tmp_path: Path
) -> None:
    loops = f"{statement}\n    for x in range(2):\n        look()\n        break\n    break\n"
    assert counted(f"{NAMES}{loops}", tmp_path) == {count}


def test_loops_around_one_another_are_multiplied(tmp_path: Path) -> None:
    source = """
        def train(epochs):
            for epoch in range(epochs):
                for x in range(2):
                    look()
        for fold in range(3):
            train(epochs=fold + 1)
    """
    assert counted(dedent(source), tmp_path) == {3, 6, 9}


def counted(source: str, folder: Path) -> set[int | None]:
    script = folder / "train.py"
    script.write_text(source)
    seen: set[int | None] = set()
    runpy.run_path(str(script), {"look": lambda: seen.add(count_passes(sys._getframe(1)))})
    return seen


@pytest.mark.parametrize(
    "statement",
    [
        "seen = [look() for x in range(2)]",
        "seen = {str(look()) for x in range(2)}",
        "seen = list(look() for x in range(2))",
        "seen = [look() for part in range(1) for x in range(2)]",
    ],
)
@pytest.mark.parametrize(("count", "around"), [(3, "for epoch in range(3):"), (1, "if True:")])
def test_a_comprehension_is_a_loop(count: int, around: str, statement: str, tmp_path: Path) -> None:
    assert counted(f"{around}\n    {statement}\n", tmp_path) == {count}


@pytest.mark.parametrize(
    "statement",
    [
        "seen = max(look() or 0, *[x for x in range(3)])",
        "seen = [x for x in look() or range(3)]",
        "seen = [x for x in range(3)], look()",
        "seen = {x: len([y for y in range(x)]) for x in [look() or 3]}",
    ],
)
def test_a_comprehension_beside_a_call_is_no_loop_around_it(statement: str, tmp_path: Path) -> None:
    source = f"for epoch in range(2):\n    for batch in range(2):\n        {statement}\n"
    assert counted(source, tmp_path) == {2}


@pytest.mark.parametrize(
    "statement",
    [
        "seen = [x for x in Batches()]",
        "seen = {x for x in enumerate(Batches())}",
        "seen = {x: 0 for once in range(1) for x in Batches()}",
        "seen = list(x for x in Batches())",
        "seen = [x for x in [y for y in Batches()]]",
        "seen = [\n        x\n        for x in\n        Batches()\n    ]",
    ],
)
def test_a_comprehension_asks_for_its_batches(statement: str, tmp_path: Path) -> None:
    """An iterator in Python is asked by the comprehension itself, wherever that is written."""
    source = f"""
class Batches:
    given = 0
    def __iter__(self):
        return self
    def __next__(self):
        self.given += 1
        if self.given > 2:
            raise StopIteration
        at_caller()
for epoch in range(3):
    {statement}
"""
    script, seen = tmp_path / "train.py", set()
    script.write_text(source)
    runpy.run_path(str(script), {"at_caller": lambda: seen.add(count_passes(sys._getframe(2)))})
    assert seen == {3}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="instructions have no columns before 3.11")
def test_comprehensions_in_one_another_are_multiplied(tmp_path: Path) -> None:
    source = "seen = [[look() for x in range(2)] for epoch in range(3)]\n"
    assert counted(source, tmp_path) == {3}


def test_what_a_generator_hands_on_is_read_by_the_loop_that_asks(tmp_path: Path) -> None:
    source = "for x in (look() for x in range(2)):\n    pass\n"
    assert counted(source, tmp_path) == {1}


@pytest.mark.parametrize("source", ONCE.values(), ids=ONCE)
def test_data_read_once(source: str, tmp_path: Path) -> None:
    assert counted(dedent(source), tmp_path) == {1}


@pytest.mark.parametrize("source", REPEATED.values(), ids=REPEATED)
def test_data_read_again(source: str, tmp_path: Path) -> None:
    seen = counted(dedent(source), tmp_path)
    assert seen in ({2}, {None}, {4})


def test_a_source_that_cannot_be_parsed_has_no_loops(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("for x in (:\n    pass\n")
    assert loops_around(str(broken), 2) == []


def test_no_frame_is_no_loop() -> None:
    assert count_passes(None) == 1


MADE_ANEW = {
    "in the statement itself": (
        True,
        """
        data = [1, 2]
        for epoch in range(2):
            for x in sorted(data):
                look()
    """,
    ),
    "by a function": (
        True,
        """
        def made():
            return [1, 2]
        for epoch in range(2):
            for n, x in enumerate(made()):
                look()
    """,
    ),
    "in the loop around it": (
        True,
        """
        for epoch in range(2):
            data = [1, 2]
            for x in data:
                look()
    """,
    ),
    "in a function for each epoch": (
        True,
        """
        def train_epoch():
            data = [1, 2]
            for x in iter(data):
                look()
        for epoch in range(2):
            train_epoch()
    """,
    ),
    "once for each fold": (
        False,
        """
        for fold in range(2):
            data = [1, 2]
            for epoch in range(2):
                for x in data:
                    look()
    """,
    ),
    "before": (
        False,
        """
        data = [1, 2]
        for epoch in range(2):
            for n, x in enumerate(data):
                look()
    """,
    ),
    "before, in the same function": (
        False,
        """
        def main():
            data = [1, 2]
            for epoch in range(2):
                for x in data:
                    look()
        main()
    """,
    ),
    "by who calls": (
        False,
        """
        def train_epoch(data):
            for x in data:
                look()
        for epoch in range(2):
            train_epoch([1, 2])
    """,
    ),
    "for a whole class": (
        False,
        """
        class Trainer:
            data = [1, 2]
            def epoch(self):
                for x in self.data:
                    look()
        for epoch in range(2):
            Trainer().epoch()
    """,
    ),
    "before, read by a comprehension": (
        False,
        """
        import itertools
        data = [1, 2]
        for epoch in range(2):
            losses = [look() for x in itertools.islice(data, 1)]
    """,
    ),
    "before, in the function that has the comprehension": (
        False,
        """
        def main():
            data = [1, 2]
            for epoch in range(2):
                losses = [look() for x in data]
        main()
    """,
    ),
    "in the loop around a comprehension": (
        True,
        """
        for epoch in range(2):
            data = [1, 2]
            losses = [look() for x in data]
    """,
    ),
    "in a function that has one": (
        True,
        """
        def train_epoch():
            data = [1, 2]
            return sum(look() or 0 for x in data)
        for epoch in range(2):
            train_epoch()
    """,
    ),
    "before, by a loop that asks by hand so many times": (
        False,
        """
        data = iter([1, 2, 3, 4])
        for epoch in range(2):
            for _ in range(2):
                look(), next(data)
    """,
    ),
    "for a loop that asks by hand": (
        False,
        """
        for epoch in range(2):
            data = iter([1, 2])
            while next(data, None):
                look()
    """,
    ),
}


@pytest.mark.parametrize(("anew", "source"), MADE_ANEW.values(), ids=MADE_ANEW)
def test_data_that_is_another_object_in_each_pass(anew: bool, source: str, tmp_path: Path) -> None:
    script, seen = tmp_path / "train.py", set()
    script.write_text(dedent(source))
    runpy.run_path(
        str(script), {"look": lambda: seen.add(is_recreated_each_pass(sys._getframe(1)))}
    )
    assert seen == {anew}


def test_no_frame_reads_nothing() -> None:
    assert not is_recreated_each_pass(None)
