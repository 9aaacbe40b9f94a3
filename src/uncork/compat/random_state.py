"""The global random states of everything that a training script draws from."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from uncork.compat.keras3.backend import global_seed_generator
from uncork.compat.tf import eager_context


def random_state() -> tuple[Any, ...]:
    """Python's, NumPy's, TensorFlow's and Keras's global random states."""
    generator = global_seed_generator()
    seed = None if generator is None else generator.state.numpy()
    tf_state = (eager_context.global_seed(), eager_context.op_seed_state())
    return random.getstate(), np.random.get_state(), tf_state, generator, seed


def set_random_state(state: tuple[Any, ...]) -> None:
    """Give back what :func:`random_state` took."""
    python, numpy, (global_seed, tf_rng), generator, seed = state
    random.setstate(python)
    np.random.set_state(numpy)
    if eager_context.global_seed() != global_seed:  # setting it resets all seeded kernels
        eager_context.set_global_seed(global_seed)
    eager_context.set_op_seed_state(tf_rng)
    if generator is None:
        generator = global_seed_generator()
    if generator is not None and seed is not None:
        generator.state.assign(seed)


def without_process_state(state: tuple[Any, ...]) -> tuple[Any, ...]:
    """What :func:`random_state` took, for another process; that one's generators get the seeds."""
    python, numpy, tf_state, _, seed = state
    return python, numpy, tf_state, None, seed
