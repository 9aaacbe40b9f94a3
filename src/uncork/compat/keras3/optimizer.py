"""State of an optimizer, and the methods in which it updates weights.

Borrowed: fields and methods of ``BaseOptimizer`` and of the optimizers made of it.
Why: the public API lists variables without saying which state belongs to which weight, hides the
    schedule behind a number, and updates weights in one way only.
Works with: Keras 3.7.0 and 3.15.1; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised by the call. This module imports no Keras:
    hooks use it as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from uncork.compat.borrow import borrow_attribute, missing

# Methods that may be replaced on one optimizer. Of gradients, weights and a learning rate:
BACKEND_UPDATE: Final = "_backend_update_step"
# Of a strategy, pairs of gradient and weight, and a learning rate, on the TensorFlow backend:
STRATEGY_UPDATE: Final = "_distributed_tf_update_step"
# Of nothing: the learning rate of this step.
CURRENT_RATE: Final = "_get_current_learning_rate"
# The numbers of the weights, by the key of a weight.
WEIGHT_NUMBERS: Final = "_trainable_variables_indices"
# Lists of an optimizer's variables that are not the state of its update.
NO_STATE: Final = ("_variables", "_trainable_variables")


def method_of(optimizer: Any, name: str) -> Callable[..., Any]:
    """One of the methods that may be replaced, as the optimizer has it now."""
    method: Callable[..., Any] = borrow_attribute(optimizer, name)
    return method


def owner_of(kind: type, name: str) -> type:
    """The class from which a class of optimizers inherits a method.

    Example:
        >>> import keras
        >>> owner_of(keras.optimizers.SGD, STRATEGY_UPDATE).__name__
        'TFOptimizer'
    """
    owners = [each for each in kind.__mro__ if name in vars(each)]
    if not owners:
        raise missing(f"{kind.__module__}.{kind.__qualname__}.{name}")
    return owners[0]


def weights_of(optimizer: Any) -> list[Any]:
    """The weights that a built optimizer updates.

    Example:
        >>> import keras
        >>> optimizer, weight = keras.optimizers.SGD(), keras.Variable([1.0])
        >>> optimizer.build([weight])
        >>> weights_of(optimizer)[0] is weight, weight_number(optimizer, weight)
        (True, 0)
    """
    weights: list[Any] = borrow_attribute(optimizer, "_trainable_variables")
    return weights


def weight_number(optimizer: Any, weight: Any) -> int:
    """The position of a weight in :func:`weights_of` and in each list of state."""
    number: int = borrow_attribute(optimizer, "_get_variable_index")(weight)
    return number


def weight_key(optimizer: Any, weight: Any) -> Any:
    """What an optimizer knows a weight by."""
    return borrow_attribute(optimizer, "_var_key")(weight)


def state_list(optimizer: Any, name: str) -> list[Any]:
    """One list of state, with a variable for each weight.

    Args:
        optimizer: Built.
        name: Of the list, as Keras has it.
    """
    state: list[Any] = borrow_attribute(optimizer, name)
    return state


def squared_sums(adagrad: Any) -> list[Any]:
    """The sums of squared gradients that Adagrad keeps, one for each weight."""
    return state_list(adagrad, "_accumulators")


def step_counter(optimizer: Any) -> Any:
    """The variable that counts steps, also those in which gradients are only accumulated."""
    return borrow_attribute(optimizer, "_iterations")


def rate_setting(optimizer: Any) -> Any | None:
    """The learning rate as it was given: a variable, a schedule or a function.

    Args:
        optimizer: Or anything else, for which it is None.

    Example:
        >>> import keras
        >>> schedule = keras.optimizers.schedules.CosineDecay(0.1, 100)
        >>> rate_setting(keras.optimizers.SGD(schedule)) is schedule
        True
    """
    has_rate = hasattr(type(optimizer), "learning_rate")
    return borrow_attribute(optimizer, "_learning_rate") if has_rate else None
