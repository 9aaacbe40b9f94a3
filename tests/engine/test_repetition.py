"""Whether data is read more than once decides whether a cache can pay."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from uncork.engine.repetition import loops_around, repeated

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
    "epochs": """
        for epoch in range(2):
            for x in range(2):
                look()
    """,
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


def verdicts(source: str, folder: Path) -> set[bool]:
    script = folder / "train.py"
    script.write_text(dedent(source))
    seen: set[bool] = set()
    runpy.run_path(str(script), {"look": lambda: seen.add(repeated(sys._getframe(1)))})
    return seen


@pytest.mark.parametrize("source", ONCE.values(), ids=ONCE)
def test_data_read_once(source: str, tmp_path: Path) -> None:
    assert verdicts(source, tmp_path) == {False}


@pytest.mark.parametrize("source", REPEATED.values(), ids=REPEATED)
def test_data_read_again(source: str, tmp_path: Path) -> None:
    assert verdicts(source, tmp_path) == {True}


def test_a_source_that_cannot_be_parsed_has_no_loops(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("for x in (:\n    pass\n")
    assert loops_around(str(broken), 2) == 0


def test_no_frame_is_no_loop() -> None:
    assert not repeated(None)
