"""Every optimization has its page, and the code on the pages runs and means what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uncork.optimizations.order import OPTIMIZATIONS

PAGES = Path(__file__).parents[2] / "docs" / "optimizations"
SECTIONS = ("What it does", "Guarantee: ", "Skipped when", "By hand", "Sources")
NAMES = [optimization.name for optimization in OPTIMIZATIONS]
# By hand they change a pipeline, as one that leaves a part of it to the training step does.
INPUT = [o.name for o in OPTIMIZATIONS if o.stage == "input" or o.name == "data_on_device"]


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text()


def snippets(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page(name), re.DOTALL)


def run(name: str, pair: int = 0, **given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the first snippet of a pair leaves, and what the second leaves after it."""
    import keras  # noqa: PLC0415 - pages are read without TensorFlow
    import tensorflow as tf  # noqa: PLC0415

    before = {"tf": tf, "keras": keras, **given}
    first, second = snippets(name)[2 * pair : 2 * pair + 2]
    exec(first, before)
    after = dict(before)
    exec(second, after)
    return before, after


def test_pages_and_road_agree() -> None:
    assert sorted(NAMES) == sorted(path.stem for path in PAGES.glob("*.md"))


@pytest.mark.parametrize("optimization", OPTIMIZATIONS, ids=NAMES)
def test_a_page_says_all_that_a_user_asks(optimization: Any) -> None:
    text = page(optimization.name)
    assert text.startswith(f"# {optimization.name}\n")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert len(headings) == len(SECTIONS)
    assert all(h.startswith(s) for h, s in zip(headings, SECTIONS, strict=True))
    assert f"## Guarantee: `{optimization.guarantee}`" in text
    assert "**Proof.**" in text


@pytest.mark.parametrize("name", ["index.md", "../README.md"])
def test_links_lead_somewhere(name: str) -> None:
    file = PAGES.parent / name
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", file.read_text())
    assert links
    assert [link for link in links if not (file.parent / link).exists()] == []


@pytest.mark.parametrize("name", NAMES)
def test_snippets_come_in_pairs(name: str) -> None:
    found = len(snippets(name))
    assert found == 2 or (name in INPUT and found % 2 == 0)


@pytest.mark.every(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "pair"), [(name, n) for name in INPUT for n in range(len(snippets(name)) // 2)]
)
def test_pipelines_by_hand_give_the_same_images(name: str, pair: int, photos: Path) -> None:
    files = sorted(photos.glob("*/*.jpg"))[:8]
    given = {"paths": [str(f) for f in files], "labels": list(range(len(files)))}
    before, after = (names["dataset"] for names in run(name, pair, **given))
    for _ in range(2):  # epochs
        assert images(before) == images(after)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loader_cache", "loader_processes", "loader_workers"])
def test_loaders_by_hand_can_be_trained_on(name: str, photos: Path) -> None:
    import keras  # noqa: PLC0415

    files = sorted(photos.glob("*/*.jpg"))[:4]
    before, after = run(name, paths=[str(f) for f in files], labels=list(range(len(files))))
    for names in (before, after):
        if names["dataset"].use_multiprocessing:
            continue  # Keras's own processes are forked with all that tests have going on
        layers = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(4)]
        model = keras.Sequential(layers)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        history = model.fit(names["dataset"], verbose=0)
        assert np.isfinite(history.history["loss"]).all()


@pytest.mark.every(8)
@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NAMES if n not in INPUT])
def test_models_by_hand_train(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Pages set others: they are given back.
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "0")
    before, after = run(name)
    x = np.ones((8, 8), np.float32)
    if "train_step" in after:  # a step of the user's own, instead of a compiled model
        losses = [names["train_step"](x, x[:, :1]) for names in (before, after)]
        assert np.isfinite(losses).all()
        return
    history = after["model"].fit(x, x[:, :1], batch_size=4, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


def images(dataset: Any) -> dict[int, float]:
    """Label to mean brightness, which neither order nor flips change."""
    return {
        int(label): round(float(image.mean(dtype=np.float64)), 4)
        for batch in batches(dataset)
        for image, label in zip(*batch, strict=True)
    }


def batches(dataset: Any) -> Any:
    """Of a tf.data pipeline, or of a Python loader."""
    if hasattr(dataset, "as_numpy_iterator"):
        return dataset.as_numpy_iterator()
    return (dataset[index] for index in range(len(dataset)))
