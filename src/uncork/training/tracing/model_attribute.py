"""``tf.map_fn`` answered for all elements at once, only while a step is traced.

A graph keeps what ``tf.map_fn`` answered when it was traced. So TensorFlow's own function stands in
its place again as soon as that is done, and other threads, code that runs op by op and functions of
datasets never meet another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def override_attribute(model: Any, name: str, value: Any) -> Iterator[None]:
    """Of the model alone, inside the block; Keras would keep what is set as an attribute."""
    written = {name: vars(model)[name]} if name in vars(model) else {}
    object.__setattr__(model, name, value)
    try:
        yield
    finally:
        object.__delattr__(model, name)
        vars(model).update(written)
