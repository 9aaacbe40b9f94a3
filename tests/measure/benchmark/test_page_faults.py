from __future__ import annotations

import mmap

from uncork.measure.benchmark.page_faults import faulting_s, memory

PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
SIZE = 32 << 20


def touched() -> mmap.mmap:
    """Pages that the operating system makes, and takes back when they are closed."""
    pages = mmap.mmap(-1, SIZE, flags=PRIVATE)
    for at in range(0, SIZE, mmap.PAGESIZE):
        pages[at] = 1
    return pages


def test_memory_that_is_given_back_and_made_anew_is_counted():
    before = memory()
    for _ in range(2):
        touched().close()
    again_s = faulting_s(before)
    before = memory()
    for _ in range(16):
        touched().close()
    assert 0 < again_s < faulting_s(before)


def test_memory_that_stays_is_not():
    before = memory()
    pages = [touched() for _ in range(4)]
    assert len(pages) == 4
    stays_s = faulting_s(before)
    before = memory()
    while pages:
        pages.pop().close()
        for _ in range(3):
            touched().close()
    assert stays_s < faulting_s(before) / 2


def test_it_is_no_more_than_the_system_worked():
    before = memory()
    touched().close()
    after = memory()
    assert before is not None
    assert after is not None
    assert faulting_s(before) <= memory().system_s - before.system_s


def test_where_nobody_counts_nothing_is_known():
    assert faulting_s(None) == 0.0
