from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.compat.borrow import borrow, borrow_attribute
from uncork.core.base.errors import MissingPrivateApi
from uncork.core.base.exit_codes import WRONG_USE


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        ("tensorflow.python.no_module", "", "'tensorflow.python.no_module'"),
        ("tensorflow.python.no_module", "name", "'tensorflow.python.no_module.name'"),
        ("tensorflow.python.eager.context", "no_name", "context.no_name'"),
        ("tensorflow.python.eager.context", "Context.no_method", "Context.no_method'"),
    ],
)
def test_a_missing_name_is_reported(module, name, message):
    with pytest.raises(MissingPrivateApi, match=message) as raised:
        borrow(module, name)
    assert str(raised.value).startswith(f"TensorFlow {tf.__version__} has no ")
    assert raised.value.exit_code == WRONG_USE


def test_a_name_is_found_in_its_module_and_in_its_class():
    context = borrow("tensorflow.python.eager.context")
    assert borrow("tensorflow.python.eager.context", "async_wait") is context.async_wait
    assert borrow("tensorflow.python.eager.context", "Context.is_async") is context.Context.is_async


def test_a_missing_attribute_is_reported():
    data = tf.data.Dataset.range(3)
    assert borrow_attribute(data, "_start") is data._start
    with pytest.raises(MissingPrivateApi, match=r"_RangeDataset\._no_field'"):
        borrow_attribute(data, "_no_field")
