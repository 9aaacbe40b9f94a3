"""What Python code of the user's can get at, changes and draws: seen by watching it run."""

from uncork.watch.beside import CHANGES, watched
from uncork.watch.code import functions, is_users_class
from uncork.watch.dependence import Dependence, dependence
from uncork.watch.draws import (
    Draws,
    PythonDraws,
    drawn_alike,
    draws_kept,
    in_class,
    loader_draws,
    telling_draws,
)
from uncork.watch.guards import Guards, UnguardedError
from uncork.watch.origin import only_call, only_change, origin
from uncork.watch.outside import outside
from uncork.watch.random_states import apart_from_process, random_state, set_random_state
from uncork.watch.reach import (
    function_digest,
    loader_digest,
    named_code_digest,
    reached,
    reached_by,
    state_digest,
    value_digest,
)

__all__ = [
    "CHANGES",
    "Dependence",
    "Draws",
    "Guards",
    "PythonDraws",
    "UnguardedError",
    "apart_from_process",
    "dependence",
    "drawn_alike",
    "draws_kept",
    "function_digest",
    "functions",
    "in_class",
    "is_users_class",
    "loader_digest",
    "loader_draws",
    "named_code_digest",
    "only_call",
    "only_change",
    "origin",
    "outside",
    "random_state",
    "reached",
    "reached_by",
    "set_random_state",
    "state_digest",
    "telling_draws",
    "value_digest",
    "watched",
]
