"""Which scripts, and where they lie in checkouts of their repositories.

Left out is what asks for packages or pretrained weights that are not there, was written for Keras 2
and fails in Keras 3 before it trains, or trains for a moment only.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final, NamedTuple

DOCS: Final = "tensorflow/docs"
KERAS: Final = "keras-team/keras"
NOTEBOOKS: Final = "fchollet/deep-learning-with-python-notebooks"


class Introduction(NamedTuple):
    """A script or a notebook.

    Attributes:
        repository: On GitHub.
        path: In it.
        trains: What, in a few words.
        data: Names in ``stand_ins.FOLDERS`` of what it expects beside it.
    """

    repository: str
    path: str
    trains: str
    data: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The file's, without its end."""
        return Path(self.path).stem


INTRODUCTIONS: Final = (
    Introduction(
        KERAS, "guides/writing_a_custom_training_loop_in_tensorflow.py", "MLP, a loop, eager"
    ),
    Introduction(KERAS, "guides/custom_train_step_in_tensorflow.py", "MLP, own train_step"),
    Introduction(KERAS, "examples/demo_mnist_convnet.py", "CNN on arrays"),
    Introduction(DOCS, "site/en/tutorials/quickstart/advanced.ipynb", "CNN, a compiled loop"),
    Introduction(DOCS, "site/en/tutorials/images/cnn.ipynb", "CNN on arrays"),
    Introduction(DOCS, "site/en/tutorials/images/classification.ipynb", "photographs, cached"),
    Introduction(DOCS, "site/en/tutorials/generative/dcgan.ipynb", "GAN, a compiled loop"),
    Introduction(
        DOCS, "site/en/tutorials/audio/simple_audio.ipynb", "spectrograms, cached", ("data",)
    ),
    Introduction(
        DOCS, "site/en/tutorials/keras/overfit_and_underfit.ipynb", "MLP, 20 steps an epoch"
    ),
    Introduction(DOCS, "site/en/tutorials/keras/text_classification.ipynb", "words, cached"),
    Introduction(
        DOCS, "site/en/tutorials/distribute/custom_training.ipynb", "CNN, a distributed loop"
    ),
    Introduction(NOTEBOOKS, "second_edition/chapter07_working-with-keras.ipynb", "MLP on arrays"),
    Introduction(
        NOTEBOOKS, "second_edition/chapter10_dl-for-timeseries.ipynb", "windows of a table",
        ("jena_climate_2009_2016.csv",),
    ),
    Introduction(
        NOTEBOOKS, "second_edition/chapter12_part04_variational-autoencoders.ipynb",
        "VAE, own train_step, eager",
    ),
    Introduction(
        NOTEBOOKS, "second_edition/chapter08_intro-to-dl-for-computer-vision.ipynb", "a CNN",
        ("cats_vs_dogs_small",),
    ),
    Introduction(
        NOTEBOOKS, "second_edition/chapter02_mathematical-building-blocks.ipynb", "MLP on arrays"
    ),
    Introduction(
        NOTEBOOKS, "second_edition/chapter04_getting-started-with-neural-networks.ipynb",
        "MLP on arrays",
    ),
    Introduction(
        NOTEBOOKS, "first_edition/6.2-understanding-recurrent-neural-networks.ipynb",
        "RNN on padded texts",
    ),
)  # fmt: skip


def text_of(checkout: Path, path: str) -> str:
    """A script's text; of a notebook its code, without what is meant for a shell.

    Args:
        checkout: Of the repository.
        path: In it.
    """
    text = (checkout / path).read_text()
    if not path.endswith(".ipynb"):
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells)
    return re.sub(r"(?m)^(\s*)([!%].*)$", r"\1pass  # \2", code) + "\n"
