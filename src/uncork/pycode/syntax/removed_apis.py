"""APIs that older tutorials on fast training use, and what replaces them now.

A script that still writes it fails with an error that names what is missing, and not what to write.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

_POLICY: Final = 'keras.mixed_precision.set_global_policy("mixed_float16")'
# What the error says, as a pattern; what to write.
_INSTEAD: Final = (
    (
        r"no attribute 'get_scaled_loss'",
        "Keras 3 has no get_scaled_loss: take the gradients of optimizer.scale_loss(loss)",
    ),
    (
        r"no attribute 'get_unscaled_gradients'",
        "Keras 3 has no get_unscaled_gradients: remove the call, because apply_gradients "
        "of a LossScaleOptimizer unscales the gradients itself",
    ),
    (
        r"'LossScaleOptimizer' object has no attribute 'loss_scale'",
        "Keras 3 has no loss_scale: use optimizer.dynamic_scale",
    ),
    (
        r"mixed_precision' has no attribute 'experimental'|"
        r"cannot import name 'experimental' from '[\w.]*mixed_precision",
        f"mixed precision is not experimental any more: {_POLICY}",
    ),
    (
        r"no attribute 'enable_mixed_precision_graph_rewrite'",
        f"TensorFlow has no graph rewrite any more: {_POLICY}, and a LossScaleOptimizer "
        "in your own training loop",
    ),
    (
        r"Shuffle.*buffer_size must be greater than zero",
        "shuffle takes a number of elements, not AUTOTUNE: for example 1,000, or "
        "len(dataset) for all of them",
    ),
    (
        r"fit\(\) got an unexpected keyword argument "
        r"'(workers|use_multiprocessing|max_queue_size)'",
        "fit of Keras 3 has no argument \\1: pass it to the data, by "
        "super().__init__(\\1=...) in a keras.utils.PyDataset",
    ),
    (
        r"no attribute '(fit|evaluate|predict)_generator'",
        r"Keras 3 has no \1_generator: \1 takes generators, too",
    ),
    (
        r"no attribute 'multi_gpu_model'",
        "TensorFlow has no multi_gpu_model any more: create and compile the model under "
        "tf.distribute.MirroredStrategy().scope()",
    ),
    (
        r"no attribute 'experimental_run_v2'",
        "experimental_run_v2 is called strategy.run now",
    ),
    (
        r"unexpected keyword argument 'experimental_steps_per_execution'",
        "experimental_steps_per_execution is called steps_per_execution now",
    ),
)

# Of the patterns, those whose places `uncork diff` rewrites.
_WRITTEN: Final = re.compile(
    r"get_scaled_loss|get_unscaled_gradients|mixed_precision' has no attribute 'experimental'|"
    r"cannot import name 'experimental' from '[\w.]*mixed_precision|"
    r"'(workers|use_multiprocessing|max_queue_size)'|(fit|evaluate|predict)_generator|"
    r"experimental_run_v2|experimental_steps_per_execution"
)


def suggest_replacement(error: str, script: str = "") -> str:
    """What to write instead of the removed API that an error names; empty where unknown.

    Args:
        error: Message of the exception, in one line or many.
        script: Path of the script that failed, to name the command that creates a patch.

    Example:
        >>> suggest_replacement("'MirroredStrategy' object has no attribute 'experimental_run_v2'")
        'experimental_run_v2 is called strategy.run now'
        >>> suggest_replacement("no attribute 'experimental_run_v2'", "train.py")
        'experimental_run_v2 is called strategy.run now; as a patch: uncork diff train.py'
        >>> suggest_replacement("division by zero")
        ''
    """
    for pattern, told in _INSTEAD:
        found = re.search(pattern, error)
        if found:
            written = script and _WRITTEN.search(found.group())
            patch = f"; as a patch: uncork diff {shlex.quote(script)}" if written else ""
            return found.expand(told) + patch
    return ""
