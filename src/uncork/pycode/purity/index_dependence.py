"""Do the batches of a Python loader depend on their index alone?

Threads may share what nobody changes. Whether a loader changes anything is not derived from its
code, which may call whatever it likes: it is watched. All data that its code can get at is digested
before and after some batches are made, each of them twice; and a batch must come out the same when
another one is made in the middle of it, line by line, as a thread might. Whoever prints, writes or
calls for help while making them is not to be called less often, or in another order.

Generators of random numbers are another matter: they are made for being shared.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, Final, Literal

from uncork.pycode.purity.random_draws import RandomStates
from uncork.pycode.purity.reachability import (
    ReachableCode,
    find_reachable,
    state_digest,
    value_digest,
)
from uncork.pycode.purity.side_effects import note_side_effects

Dependence = Literal["index", "draws", "more"]

# Of an endless loader, the index that stands for its middle.
_FAR: Final = 16
# Lines of a loader at which another batch is made: many, of a slow one few.
_LINES: Final = 12
_WRITES: Final = ("STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL")


def find_dependence(dataset: Any, max_batches: int = 4) -> Dependence:
    """What the batches of a loader depend on.

    Args:
        dataset: A ``PyDataset``; some of its batches are made, twice. Its generators of random
            numbers, and the global ones, get their states back.
        max_batches: How many of them.

    Returns:
        ``"index"`` where a batch is the same whenever it is asked for, and making it changes
        nothing; ``"draws"`` where that holds but for random numbers of Python's or NumPy's;
        ``"more"`` for anything else, what it prints and writes among it, and where it cannot be
        seen: an open file, a lock, half a gigabyte of data.
    """
    with suppress(Exception):  # the user's code, or an object that cannot be digested
        found = find_reachable(dataset)
        if found.digest:
            draws = RandomStates(found.generators)
            try:
                with note_side_effects() as seen:
                    needs = _watched(dataset, found, draws, max_batches)
                return "more" if seen else needs
            finally:
                draws.restore()
    return "more"


def _watched(dataset: Any, found: ReachableCode, draws: RandomStates, most: int) -> Dependence:
    batches = dataset.num_batches or _FAR
    indices = list(dict.fromkeys((0, batches - 1, batches // 2, min(1, batches - 1))))[:most]
    made = [_made(dataset, index, draws) for index in indices]
    between = state_digest(dataset)  # after the last index; at the end it is after the first
    again = [_made(dataset, index, draws) for index in reversed(indices)]
    drew = any(drawn for _, drawn in made)
    if made != again[::-1] or (drew and any(_seeds(dataset, index, draws) for index in indices)):
        return "more"
    draws.restore()
    lines = _LINES * most // 4 or 1
    disturbed = _disturbed(dataset, indices[0], indices[-1], found.code_objects, draws, lines)
    if disturbed != made[0][0] or not found.digest == between == state_digest(dataset):
        return "more"
    return "draws" if drew else "index"


def _made(dataset: Any, index: int, draws: RandomStates) -> tuple[str, bool]:
    """Digest of a batch made from equal random states, and whether it drew.

    Raises:
        ValueError: It drew with TensorFlow or Keras, whose states threads may not share.
    """
    draws.restore()
    made = value_digest(dataset[index])
    return made, draws.has_changed()


def _seeds(dataset: Any, index: int, draws: RandomStates) -> bool:
    """A loader that seeds what it draws from: the same state is left, whatever was there."""
    _made(dataset, index, draws)
    after = draws.current_states()
    draws.restore()
    draws.reseed()
    dataset[index]
    return any(one == other for one, other in zip(draws.current_states(), after, strict=True))


def _disturbed(
    dataset: Any,
    index: int,
    other: int,
    codes: Sequence[CodeType],
    draws: RandomStates,
    most: int,
) -> str:
    """Digest of a batch in the middle of which, before some of its lines, another one is made.

    Raises:
        ValueError: A function that creates the batch assigns to shared objects.
    """
    lines: dict[tuple[CodeType, int], None] = {}
    draws.restore()
    _traced(codes, lines.setdefault, lambda: dataset[index])
    if any(_assigns(code) for code, _ in lines):
        raise ValueError("it assigns to objects that other threads can see")
    chosen = set(list(lines)[:: -(-len(lines) // most)]) if lines else set()

    def interrupt(line: tuple[CodeType, int]) -> None:
        if line in chosen:
            chosen.discard(line)
            kept = RandomStates(draws.generators)
            dataset[other]
            kept.restore()

    draws.restore()
    return value_digest(_traced(codes, interrupt, lambda: dataset[index]))


def _traced(
    codes: Sequence[CodeType],
    reach: Callable[[tuple[CodeType, int]], object],
    call: Callable[[], Any],
) -> Any:
    """Call something, told of each line of some functions before it runs; what it returns."""
    own = set(codes)

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            reach((frame.f_code, frame.f_lineno))
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, _: line if frame.f_code in own else None)
    try:
        return call()
    finally:
        sys.settrace(before)


def _assigns(code: CodeType) -> bool:
    """To attributes, globals, or names of a function around it."""
    free = set(code.co_freevars)
    return any(
        i.opname in _WRITES or (i.opname == "STORE_DEREF" and i.argval in free)
        for i in dis.get_instructions(code)
    )
