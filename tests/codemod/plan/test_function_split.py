"""A function as two: where the source says it, and where it does not."""

from __future__ import annotations

from typing import Any

import libcst as cst
import pytest

from codemod.scripts import script
from uncork.codemod.plan.function_split import split_function
from uncork.codemod.syntax.changes import Change, apply_changes
from uncork.codemod.syntax.script_tree import ScriptTree
from uncork.core.base.errors import EditRefused
from uncork.core.evidence.stage import MapPrefix

LOAD = script(
    '''
    def load(path, label):
        """A photo."""
        # JPEG
        image = tf.io.decode_jpeg(tf.io.read_file(path))
        image = tf.image.resize(
            image, [8, 8])

        # other in each epoch
        image = tf.image.random_flip_left_right(image)
        return image, label
    '''
)


def split(text: str, last: int, rest: int, *, is_kept: bool = False) -> str:
    source = ScriptTree(text.encode(), "train.py")
    (function,) = source.nodes_of_type(cst.FunctionDef)
    prefix = MapPrefix(
        op_count=1,
        bytes_per_element=1,
        cpu_s_per_element=1.0,
        last_at=f"train.py:{last}",
        rest_at=f"train.py:{rest}",
    )
    found = split_function(source, function, prefix)

    def written(now: Any) -> Any:
        return found.written(now, is_kept=is_kept)

    return apply_changes(source, [Change(function, written)]).decode()


def test_statements_stay_as_they_are_on_both_sides_of_the_cut() -> None:
    assert split(LOAD, 6, 9) == script(
        '''
        def load_deterministic(path, label):
            """A photo."""
            # JPEG
            image = tf.io.decode_jpeg(tf.io.read_file(path))
            image = tf.image.resize(
                image, [8, 8])
            return image, label


        def load_random(image, label):
            # other in each epoch
            image = tf.image.random_flip_left_right(image)
            return image, label
        '''
    )


def test_the_whole_function_is_made_of_the_two_where_others_call_it() -> None:
    made = split(LOAD, 6, 9, is_kept=True)
    assert made.endswith(
        script(
            '''
            def load(path, label):
                """A photo."""
                return load_random(*load_deterministic(path, label))
            '''
        )
    )
    assert made.count("A photo") == 1


def test_one_tensor_crosses_alone() -> None:
    text = "def f(x):\n    x = a(x)\n    x = random(x)\n    return x\n"
    assert "return f_random(f_deterministic(x))" in split(text, 2, 3, is_kept=True)
    assert "    x = a(x)\n    return x\n" in split(text, 2, 3, is_kept=True)


def test_both_lines_in_one_plain_call_cut_before_it() -> None:
    """Checks of shapes that belong to a random call are deterministic."""
    assert split(LOAD, 9, 9) == split(LOAD, 6, 9)


def test_names_that_are_set_anew_behind_the_cut_do_not_cross_it() -> None:
    text = "def f(x):\n    y = a(x)\n    z = b(x)\n    y = random(z)\n    y += 1\n    return y\n"
    assert "def f_random(z):" in split(text, 3, 4)


BODY = "    x = a(x)\n    x = random(x)\n    return x\n"
NESTED = LOAD.replace("(image)\n    return", "(a(b(image)))\n    return")
REFUSED = {
    "both in one statement": (NESTED, 9, 9, "work of both"),
    "in turns": (LOAD, 9, 6, "alternate"),
    "nothing before": (LOAD, 4, 4, "work of both"),
    "a number of Python's": (
        "def f(x):\n    n = 3\n    x = a(x)\n    x = random(x, n)\n    return x\n",
        3,
        4,
        "n may be a Python value",
    ),
    "a shape": (
        "def f(x):\n    n = x.shape[0]\n    x = a(x)\n    x = random(x, n)\n    return x\n",
        3,
        4,
        "n may be",
    ),
    "a return in between": ("def f(x):\n    if x: return x\n" + BODY, 3, 4, "return at its end"),
    "a default": ("def f(x, y=1):\n" + BODY, 2, 3, "plain ones"),
    "more arguments": ("def f(*x):\n" + BODY, 2, 3, "plain ones"),
    "a decorator": ("@g\ndef f(x):\n" + BODY, 3, 4, "decorator"),
    "a variable of others": ("def f(x):\n    global n\n" + BODY, 3, 4, "global"),
    "a name that is taken": ("f_random = 1\ndef f(x):\n" + BODY, 3, 4, "already has"),
    "elsewhere": ("def f(x):\n" + BODY, 2, 30, "line 30 is not in f"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_source_does_not_say_is_refused(name: str) -> None:
    text, last, rest, reason = REFUSED[name]
    with pytest.raises(EditRefused, match=reason):
        split(text, last, rest)
