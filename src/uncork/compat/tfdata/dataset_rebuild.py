"""Rebuild a tf.data node on top of other inputs, with everything else exactly as it was.

The public methods (``.map``, ``.shuffle``, ...) would trace the user's function a second time and
draw a new operation seed, which moves every later draw of the user's script. So a node is rebuilt
through the raw op that made it: the same ConcreteFunction, the same captured tables and variables,
the seeds that the object stored. The result is an object of the same class with the same fields.

Borrowed: how each class keeps its inputs, and what the constructor of all classes sets.
Why: nothing public replaces the input of a dataset.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when a dataset is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import tensorflow as tf

from uncork.compat.borrow import named_errors
from uncork.compat.tfdata.dataset_classes import DatasetKind, input_datasets, kind_of
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.hidden_settings import (
    check_all_fields_known,
    has_log_warning,
    interleave_determinism,
)
from uncork.compat.tfdata.nested import pack_sequence_as
from uncork.core.base.errors import EditRefused

# What a class does not keep is read from its graph before it is copied, and goes with the copy.
_NOT_KEPT: Final[Mapping[str, Callable[[Dataset], object]]] = {
    "interleave": interleave_determinism,
    "ignore_errors": has_log_warning,
}
# Where a copied shuffle remembers the user's, which owns the count of epochs.
ORIGINAL_ATTRIBUTE: Final = "_uncork_original"


def rebuild(dataset: Dataset, inputs: Sequence[Dataset]) -> Dataset:
    """The same node on other inputs; no function is traced and no seed is drawn.

    Args:
        dataset: Any node of a known kind; itself when ``inputs`` are the ones it has.
        inputs: As many as it has, of the same element spec.

    Raises:
        EditRefused: The class is unknown, so its fields cannot be trusted.
    """
    if list(map(id, input_datasets(dataset))) == list(map(id, inputs)):
        return dataset
    kind = kind_of(dataset)
    if kind.create_variant is None:
        raise EditRefused(
            f"a dataset of class {type(dataset).__name__} comes after the stage to change",
            "a class that Uncork can rebuild",
            "keep the pipeline unchanged, or move that stage to the start of the pipeline",
        )
    return copy_with_fields(dataset, inputs, kind)


def copy_with_fields(
    template: Dataset, inputs: Sequence[Dataset], kind: DatasetKind, **parameters: Any
) -> Dataset:
    """An object like ``template`` on other inputs.

    Args:
        template: Of a known kind.
        inputs: Of the copy.
        kind: What is known about its class.
        parameters: Of the constructor, that the copy has other values of: ``map_func=...``. A name
            with an underscore in front is an attribute that TensorFlow does not know.
    """
    if kind.name in _NOT_KEPT:
        _NOT_KEPT[kind.name](template)
        check_all_fields_known(template)
    copy = _bare_copy(template)
    if kind.name == "shuffle":
        # The original owns the generator of seeds that a copy may come to share.
        copy.__dict__.setdefault(ORIGINAL_ATTRIBUTE, template)
        copy.__dict__.pop("_seed_generator", None)
    copy.__dict__.update(_fields(parameters))
    _REWIRE.get(kind.name, _rewire_unary)(copy, inputs)
    if kind.name == "options":
        copy._options_attr = template._options_attr
    return initialize_dataset(copy, inputs, kind)


def initialize_dataset(dataset: Dataset, inputs: Sequence[Dataset], kind: DatasetKind) -> Dataset:
    """Give a dataset object, whose fields are set, its variant tensor and its options."""
    assert kind.create_variant is not None
    variants = [i._variant_tensor for i in inputs]
    own_options = dataset.__dict__.pop("_options_attr", None)
    dataset._options_attr = own_options
    with tf.device(variants[0].device if variants else None), named_errors():
        variant = kind.create_variant(dataset, variants)
    tf.data.Dataset.__init__(dataset, variant)
    if own_options is not None:
        dataset._options_attr = own_options
    return dataset


def create_uninitialized(dataset_class: type, **parameters: Any) -> Dataset:
    """An object of a dataset class whose constructor, which would trace, is not run.

    Args:
        dataset_class: Any.
        parameters: Of the constructor; attributes as in :func:`copy_with_fields`.
    """
    dataset: Dataset = object.__new__(dataset_class)
    dataset.__dict__.update(_fields(parameters))
    return dataset


def _fields(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Each class of datasets keeps a parameter under its name, with an underscore in front."""
    return {n if n.startswith("_") else f"_{n}": value for n, value in parameters.items()}


def _bare_copy(dataset: Dataset) -> Dataset:
    made_by_init = ("_variant_tensor_attr", "_graph_attr", "_options_attr")
    copy = create_uninitialized(type(dataset))
    copy.__dict__.update(
        (name, value)
        for name, value in dataset.__dict__.items()
        if name not in made_by_init and not name.startswith("_self_")
    )
    return copy


def _rewire_unary(d: Dataset, inputs: Sequence[Dataset]) -> None:
    (d._input_dataset,) = inputs


def _rewire_zip(d: Dataset, inputs: Sequence[Dataset]) -> None:
    d._datasets = pack_sequence_as(d._datasets, list(inputs))


def _rewire_concatenate(d: Dataset, inputs: Sequence[Dataset]) -> None:
    d._input_dataset, d._dataset_to_concatenate = inputs
    d._input_datasets = list(inputs)


def _rewire_wrapped(d: Dataset, inputs: Sequence[Dataset]) -> None:
    d._impl = rebuild(d._impl, inputs)
    (d._filenames,) = inputs


def _rewire_nothing(d: Dataset, inputs: Sequence[Dataset]) -> None:
    """A source."""


def _rewire_choose(d: Dataset, inputs: Sequence[Dataset]) -> None:
    d._selector_input, *d._data_inputs = inputs


def _rewire_ragged(d: Dataset, inputs: Sequence[Dataset]) -> None:
    (d._input_dataset,) = inputs
    d._mapped_dataset = rebuild(d._mapped_dataset, inputs)


_REWIRE: Final[Mapping[str, Callable[[Dataset, Sequence[Dataset]], None]]] = {
    "zip": _rewire_zip,
    "concatenate": _rewire_concatenate,
    "choose": _rewire_choose,
    "random": _rewire_nothing,
    "to_ragged": _rewire_ragged,
    "tfrecord": _rewire_wrapped,
    "text_line": _rewire_wrapped,
    "fixed_length_record": _rewire_wrapped,
}
