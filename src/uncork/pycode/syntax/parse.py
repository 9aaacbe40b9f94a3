"""What in a user's source is scikit-learn's: its ``fit`` trains no network.

The tree of a user's source, read without a word.

From Python 3.12 on the parser itself warns of unknown escapes. Python says so once, with the file's
name, when it runs the script; each look of ours would say it again, of ``<unknown>``.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from typing import Final

# What makes an estimator of scikit-learn's of a network.
_WRAPS_KERAS: Final = re.compile("SKLearn|scikeras|KerasClass|KerasRegr")


def find_sklearn_names(tree: ast.AST) -> frozenset[str]:
    r"""Names of scikit-learn's classes, and of what is plainly made of them and nothing else.

    Args:
        tree: Of a whole file; of one that wraps networks for scikit-learn no name is told.

    Example:
        >>> text = "from sklearn.svm import SVC\nmodel = SVC()\nother = build()"
        >>> sorted(find_sklearn_names(ast.parse(text)))
        ['SVC', 'model']
    """
    imported: set[str] = set()
    made: Counter[str] = Counter()
    given: Counter[str] = Counter()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                full = {alias.asname or alias.name: alias.name for alias in names}
                imported |= {k.partition(".")[0] for k, v in full.items() if _is_sklearn(v)}
            case ast.ImportFrom(module=str(module), names=names) if _is_sklearn(module):
                imported |= {alias.asname or alias.name for alias in names}
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                given[name] += 1
    for node in ast.walk(tree):
        match node:
            case ast.Assign(value=ast.Call(func=called)) if root_name(called) in imported:
                made.update(each.id for each in node.targets if isinstance(each, ast.Name))
            case ast.Name(id=name) | ast.alias(name=name) if _WRAPS_KERAS.search(name):
                return frozenset()  # what it fits may hold networks
    plain = {name for name, times in made.items() if times == given[name]}
    return frozenset(plain | {name for name in imported if not given[name]})


def root_name(node: ast.AST) -> str:
    """``scaler`` of ``scaler.fit``, ``pre`` of ``pre.StandardScaler().fit``; ``""`` of others."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def _is_sklearn(module: str) -> bool:
    return module.partition(".")[0] == "sklearn"


def parse_source(source: str | bytes) -> ast.Module:
    """The tree of a source.

    Args:
        source: Bytes are decoded as Python decodes a file.

    Raises:
        SyntaxError: It is no Python.
        ValueError: It has null bytes.

    Example:
        >>> [type(each).__name__ for each in parse_source("import re").body]
        ['Import']
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)
