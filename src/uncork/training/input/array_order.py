"""Does ``fit`` shuffle arrays into the same order in every epoch?

Keras shuffles arrays in a tf.data map, by an op that draws; where a global seed is set, that op has
one, too, and begins again with each pass. Seen with Keras 3.15; whether the Keras that is there
does so is asked of it, and not of its version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from uncork.compat.keras3.data_adapters import ArrayDataAdapter
from uncork.compat.tf.eager_context import global_seed
from uncork.training.input.feed import Feed

SAME_ORDER_MESSAGE: Final = (
    "fit uses the same shuffled order of these arrays in every epoch, because a global "
    "seed is set (keras.utils.set_random_seed). "
    "tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(32) shuffles each epoch "
    "differently"
)
# So many rows come in the same order twice by chance once in 10^89 times.
_ROWS: Final = 64


def has_same_order_each_epoch(feed: Feed, arguments: Mapping[str, Any]) -> bool:
    """Whether a ``fit`` of several epochs uses the same shuffled order in all of them.

    It draws seeds to find out: to be called where the random state is put back.

    Args:
        feed: What feeds it.
        arguments: Of the call.

    Example:
        >>> given = {"x": np.zeros((8, 2)), "epochs": 2, "shuffle": False}
        >>> has_same_order_each_epoch(Feed.from_arguments(given), given)
        False
    """
    epochs = int(arguments.get("epochs") or 1)
    is_shuffled = feed.kind == "numpy" and feed.shuffle and feed.steps_per_epoch is None
    if not is_shuffled or epochs - int(arguments.get("initial_epoch") or 0) < 2:
        return False
    return global_seed() is not None and _comes_alike()


def _comes_alike() -> bool:
    adapter = ArrayDataAdapter(np.arange(_ROWS), batch_size=_ROWS, shuffle=True)
    dataset = adapter.get_tf_dataset()
    first, second = (next(dataset.as_numpy_iterator()) for _ in range(2))
    return np.array_equal(first, second)
