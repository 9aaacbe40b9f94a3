from __future__ import annotations

import pytest

from records import KERNELS, diagnosis, workload_diagnosis
from uncork.core.evidence.loop import LoopLine
from uncork.report.content.kernel_rows import kernel_rows
from uncork.report.html.page import diagnosis_html

DIAGNOSIS = workload_diagnosis(kernels=KERNELS)


def test_seconds_are_those_of_the_step_itself():
    rows = kernel_rows(DIAGNOSIS)
    step_s = DIAGNOSIS.step_s * DIAGNOSIS.breakdown["step"]
    assert sum(row.seconds for row in rows) == pytest.approx(step_s)
    assert rows[0].seconds == pytest.approx(0.52 * step_s)


def test_rows_say_whose_kernels_they_are():
    conv, loop, optimizer, rest = kernel_rows(DIAGNOSIS)
    assert conv.owner == "Conv2D backward"
    assert (loop.owner, loop.trait) == ("Attention forward", "a loop of 32 iterations")
    assert (optimizer.owner, optimizer.at) == ("optimizer", "train.py:33")
    assert rest.owner == "forward, the rest"


def test_the_page_holds_them_only_where_there_are_some():
    page = diagnosis_html(diagnosis(DIAGNOSIS))
    assert "Kernels of the training step" in page
    assert "Conv2DBackpropFilter" in page
    assert "Kernels of the training step" not in diagnosis_html(diagnosis(workload_diagnosis()))


def test_the_page_tells_what_the_lines_of_a_loop_take():
    line = LoopLine(
        at="train.py:31",
        work="function",
        seconds=0.01,
        share=0.2,
        function_at="watch.py:3",
    )
    page = diagnosis_html(diagnosis(workload_diagnosis(loop_lines=(line,))))
    for text in ("Lines of the loop", "train.py:31", "a function", "watch.py:3"):
        assert text in page
    assert "Lines of the loop" not in diagnosis_html(diagnosis())
