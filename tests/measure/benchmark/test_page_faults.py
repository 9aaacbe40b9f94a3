from __future__ import annotations

import mmap

from uncork.measure.benchmark.page_faults import page_fault_s_since, take_memory_snapshot

PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
SIZE = 32 << 20


def touched() -> mmap.mmap:
    """Pages that the operating system makes, and takes back when they are closed."""
    pages = mmap.mmap(-1, SIZE, flags=PRIVATE)
    for at in range(0, SIZE, mmap.PAGESIZE):
        pages[at] = 1
    return pages


def test_memory_that_is_given_back_and_made_anew_is_counted():
    before = take_memory_snapshot()
    for _ in range(2):
        touched().close()
    again_s = page_fault_s_since(before)
    before = take_memory_snapshot()
    for _ in range(16):
        touched().close()
    assert 0 < again_s < page_fault_s_since(before)


def test_memory_that_stays_is_not():
    before = take_memory_snapshot()
    pages = [touched() for _ in range(4)]
    assert len(pages) == 4
    stays_s = page_fault_s_since(before)
    before = take_memory_snapshot()
    while pages:
        pages.pop().close()
        for _ in range(3):
            touched().close()
    assert stays_s < page_fault_s_since(before) / 2


def test_it_is_no_more_than_the_system_worked():
    before = take_memory_snapshot()
    touched().close()
    after = take_memory_snapshot()
    assert before is not None
    assert after is not None
    assert page_fault_s_since(before) <= take_memory_snapshot().system_s - before.system_s


def test_where_nobody_counts_nothing_is_known():
    assert page_fault_s_since(None) == 0.0
