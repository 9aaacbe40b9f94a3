from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.truth.catalog import find

SCRIPT = '''\
"""A script."""
data = (
    source(1)
    .map(
        load,
        calls=2,  # bottleneck
    )
    .batch(2)
)
for row in rows(data):  # bottleneck
    train(row)
def step(x):  # bottleneck
    return x
model.compile("adam", Loss(from_logits=True))  # bottleneck
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("input/padding/fit.py", "input/padding/gpu_loop.py", "healthy/mlp.py", "data.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SCRIPT)
    (tmp_path / "input/padding/fit_fixed.py").write_text("")
    return tmp_path


def test_the_place_tells_everything(root: Path):
    healthy, fit, gpu = find(root=root)
    assert (healthy.layer, healthy.cause, healthy.style) == ("healthy", "healthy", "mlp")
    assert (fit.layer, fit.cause, fit.style) == ("input", "padding", "fit")
    assert fit.fixed == root / "input/padding/fit_fixed.py"
    assert (healthy.name, fit.name) == ("healthy/mlp", "input/padding/fit")
    assert [w.needs_accelerator for w in (healthy, fit, gpu)] == [False, False, True]


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("input", 2),
        ("input/padding", 2),
        ("input/padding/", 2),
        ("input/pad", 0),
        ("*/fit", 1),
        ("healthy/mlp", 1),
        ("padding", 0),
    ],
)
def test_workloads_are_chosen_by_name_beginning_or_pattern(root: Path, pattern: str, count: int):
    assert len(find([pattern], root)) == count


def test_a_marked_line_stands_for_the_call_that_it_ends(root: Path):
    assert find(["input/padding/fit"], root)[0].bottleneck_lines == (4, 5, 6, 7, 10, 12, 14)


def test_the_epochs_of_a_script_are_its_default(root: Path):
    told = root / "healthy/mlp.py"
    told.write_text('parser.add_argument("--epochs", type=int, default=40)\n')
    assert find(["healthy"], root)[0].epochs == 40
    with pytest.raises(ValueError, match="has no --epochs"):
        find(["input/padding/fit"], root)[0].epochs  # noqa: B018


def test_every_workload_trains_long_enough_to_have_later_epochs():
    assert all(workload.epochs > 2 for workload in find())
