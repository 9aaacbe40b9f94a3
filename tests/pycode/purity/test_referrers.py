"""Holders are found without a collection in the middle of the search."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from uncork.pycode.purity.referrers import find_owners, find_referrers

# Attributes of tensors become dictionaries while the collector's lists are walked: 3,000 of them
# are more than begin a collection. In a process of its own, as it dies where that happens.
_TENSORS = """
import gc
import tensorflow as tf
from uncork.pycode.purity.referrers import find_referrers

def asked():
    pass

for _ in range(5):
    gc.disable()  # all are young, and get old in the middle of the walk
    tensors = [tf.constant(float(number)) for number in range(3_000)]
    for each in tensors:
        each.mine = 1
    gc.enable()
    assert any(each is asked for each in find_referrers(asked.__code__))
print("found", gc.isenabled())
"""


class _Slots:
    __slots__ = ("word",)


class _Owner:
    word: object


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.slow
def test_tensors_that_make_their_attributes_meanwhile_do_no_harm() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _TENSORS], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout.split()) == (0, ["found", "True"]), ended.stderr


def test_collections_go_on_afterwards_only_where_they_did_before() -> None:
    assert gc.isenabled()
    find_referrers(_Owner)
    assert gc.isenabled()
    gc.disable()
    try:
        find_referrers(_Owner)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_owners_hold_in_a_dictionary_in_slots_or_in_themselves() -> None:
    word: list[object] = []
    plain, with_dictionary, with_slots, other = _Owner(), _Owner(), _Slots(), _Owner()
    plain.word = with_slots.word = word
    with_dictionary.__dict__["word"] = word
    other.word = [word]
    words = [word]
    found = [id(each) for each in find_owners(word)]
    assert {id(each) for each in (plain, with_dictionary, with_slots, words)} <= set(found)
    assert id(other) not in found
