"""What older tutorials on fast training tell people to write, and what takes its place now.

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
        "Keras 3 has no get_unscaled_gradients: leave the call out, for apply_gradients of a "
        "LossScaleOptimizer unscales by itself",
    ),
    (
        r"'LossScaleOptimizer' object has no attribute 'loss_scale'",
        "Keras 3 has no loss_scale: it is optimizer.dynamic_scale",
    ),
    (
        r"mixed_precision' has no attribute 'experimental'|"
        r"cannot import name 'experimental' from '[\w.]*mixed_precision",
        f"mixed precision is no experiment any more: {_POLICY}",
    ),
    (
        r"no attribute 'enable_mixed_precision_graph_rewrite'",
        f"the graph rewrite is gone from TensorFlow: {_POLICY}, and a LossScaleOptimizer in a loop "
        "of your own",
    ),
    (
        r"Shuffle.*buffer_size must be greater than zero",
        "shuffle takes a number of elements, and no AUTOTUNE: 1,000, say, or len(dataset) for all",
    ),
    (
        r"fit\(\) got an unexpected keyword argument "
        r"'(workers|use_multiprocessing|max_queue_size)'",
        r"fit of Keras 3 takes no \1: give it to the data, super().__init__(\1=...) of a "
        "keras.utils.PyDataset",
    ),
    (
        r"no attribute '(fit|evaluate|predict)_generator'",
        r"Keras 3 has no \1_generator: \1 takes generators, too",
    ),
    (
        r"no attribute 'multi_gpu_model'",
        "multi_gpu_model is gone: make and compile the model under "
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
    """What to write in place of what an error says is gone; nothing where that is not known.

    Args:
        error: As the exception says it, in one line or many.
        script: Path of what failed: where a patch of it can be had, that is told, too.

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
