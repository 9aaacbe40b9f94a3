"""Is this the machine that a plan was made on, and can it do what the plan asks?"""

from __future__ import annotations

import keras
import tensorflow as tf

from uncork.core.base.errors import EditRefused, PlanRefused
from uncork.core.base.machine import Machine
from uncork.core.documents.plan import INTRA_OP_THREADS_VARIABLE, Plan
from uncork.core.edits.step import DtypePolicy
from uncork.measure.machine.allocator import is_keeping_freed_memory
from uncork.measure.machine.devices import (
    accelerators,
    configured_intra_op_threads,
    has_native_bfloat16,
    has_native_float16,
)
from uncork.measure.machine.probe import jax_version, probe_host


def machine_differences(plan_machine: Machine) -> tuple[str, ...]:
    """What differs here from the machine of a plan: what it proved may not hold to the last bit.

    Args:
        plan_machine: Where the plan was proved.

    Example:
        >>> here = probe_host(accelerators())
        >>> machine_differences(here)
        ()
    """
    return plan_machine.changes_to(probe_host(accelerators()))


def check_machine(plan: Plan) -> None:
    """Refuse a plan that was proved on another machine, or with another TensorFlow or Keras.

    Raises:
        PlanRefused: With all that differs.
    """
    changed = machine_differences(plan.machine)
    if changed:
        raise PlanRefused(
            "the plan was proven on another machine:" + "".join(f"\n    {c}" for c in changed),
            "the machine and the versions of the tuning",
            "run 'uncork tune' again to make a plan for this one",
        )


def library_differences(plan_machine: Machine) -> tuple[str, ...]:
    """Which of TensorFlow and Keras is another release here than a plan was proved with.

    Args:
        plan_machine: Where.
    """
    here = {"TensorFlow": tf.__version__, "Keras": keras.__version__}
    was = {"TensorFlow": plan_machine.tensorflow, "Keras": plan_machine.keras}
    return tuple(f"{name} {was[name]}" for name in here if was[name] and was[name] != here[name])


def check_backend(plan: Plan) -> None:
    """Refuse a plan whose backend is not the one that Keras runs on by now.

    Raises:
        EditRefused: The script has chosen another one itself, or JAX is another one.
    """
    wanted, found = plan.backend, keras.backend.backend()
    if wanted is not None and found != wanted.backend:
        raise EditRefused(
            f"Keras runs on its {found} backend",
            f"its {wanted.backend} backend, as when the script was tuned",
            "remove KERAS_BACKEND from the script, or tune again",
        )
    if wanted is not None and jax_version() != wanted.backend_version:
        raise EditRefused(
            f"JAX is {jax_version() or 'not installed'}",
            f"JAX {wanted.backend_version}, as when the plan was proven",
            f"pip install jax=={wanted.backend_version}, or tune again",
        )


def check_threads(plan: Plan) -> None:
    """Refuse a plan whose threads are not those that TensorFlow has begun with.

    Raises:
        EditRefused: The script has chosen others, or this process was not started for the plan.
    """
    wanted = plan.intra_op_threads
    if wanted and (found := configured_intra_op_threads()) != wanted:
        number = f"{found} threads" if found else "a number of threads that it chooses itself"
        raise EditRefused(
            f"TensorFlow runs each kernel on {number}",
            f"{wanted}, as when the script was tuned",
            f"start the script with 'uncork run', or with {INTRA_OP_THREADS_VARIABLE}={wanted}, "
            "and "
            "do not set "
            "tf.config.threading in the script",
        )


def check_memory(plan: Plan) -> None:
    """Refuse a plan that wants freed memory kept in a process that was not started so.

    Raises:
        EditRefused: Threads have begun, and go on with the memory that they have.
    """
    if plan.keeps_freed_memory and not is_keeping_freed_memory():
        raise EditRefused(
            "this process returns freed memory to the operating system",
            "a process that keeps freed memory, as when the script was tuned",
            "start the script with 'uncork run'",
        )


def check_precision(plan: Plan) -> None:
    """Refuse a precision that this machine can only imitate, many times slower.

    Raises:
        EditRefused: The plan wants bfloat16 or float16, and there is none.
    """
    wanted = {edit.policy for edit in plan.step_edits if isinstance(edit, DtypePolicy)}
    natively = {"mixed_bfloat16": has_native_bfloat16, "mixed_float16": has_native_float16}
    for policy, is_native in natively.items():
        if policy in wanted and is_native() is False:
            kind = policy.removeprefix("mixed_")
            made_on = next(iter(plan.machine.devices), "") or plan.machine.cpu_model
            raise EditRefused(
                f"the plan computes in {kind}, which this machine only emulates",
                f"native {kind}, as on {made_on or 'the machine where it was made'}",
                "run 'uncork tune' again on this machine",
            )
