"""Datasets among the arguments of a function: a loop over them stands inside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from uncork.compat.hook_targets import TF_DATASETS

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def find_datasets(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The ``tf.data.Dataset`` objects among some arguments, not those inside of others."""
    module = sys.modules.get(TF_DATASETS)  # TensorFlow is the script's to import
    if module is None:
        return []
    return [value for value in (*args, *kwargs.values()) if isinstance(value, module.DatasetV2)]


def replace_datasets(
    args: tuple[Any, ...], kwargs: dict[str, Any], replace: Callable[[Any], Any]
) -> Arguments:
    """The same arguments with others in the place of those datasets.

    Args:
        args: By place.
        kwargs: By name.
        replace: Told each dataset, gives the one instead.
    """
    kind = sys.modules[TF_DATASETS].DatasetV2

    def changed(value: Any) -> Any:
        return replace(value) if isinstance(value, kind) else value

    return tuple(map(changed, args)), {name: changed(value) for name, value in kwargs.items()}
