"""Batches of a loop that are made on the device of its step: how they are fed, and proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee, find_loosest_guarantee
from uncork.core.edits.step import find_map_on_device
from uncork.pipeline.transforms.device_iterator import DeviceMappedPipeline
from uncork.training.variant import Variant

# Batches that are compared, at most, and bytes that they may take: more than a step records.
_COMPARED: Final = 128
_COMPARED_BYTES: Final = 256 << 20

Call = tuple[tuple[Any, ...], dict[str, Any]]


def device_batches_of(variant: Variant) -> DeviceMappedPipeline | None:
    """What makes the batches of a version of a loop on a device; None where its pipeline does.

    Raises:
        EditRefused: Its pipeline does not end with these maps, or there is no such device.
    """
    edit = find_map_on_device(variant.step_edits)
    if edit is None or variant.pipeline is None:
        return None
    return DeviceMappedPipeline(variant.pipeline, edit.expected_digest, edit.placement)


def epoch_iterator_of(variant: Variant) -> Callable[[], Iterator[Any]]:
    """Makes an iterator over one epoch of a version's batches, as a loop is given them.

    Raises:
        EditRefused: As :func:`device_batches_of`.
    """
    assert variant.pipeline is not None
    there, dataset = device_batches_of(variant), variant.pipeline.dataset
    return (lambda: iter(dataset)) if there is None else there.create_iterator


class DeviceBatchComparison:
    """Batches as the pipeline makes them, and each as it is made on the device.

    Args:
        device_batches: Makes them on the device.

    Attributes:
        compared_count: Of batches that were compared.
        has_difference: One of them is not the same, bit for bit.
    """

    def __init__(self, device_batches: DeviceMappedPipeline) -> None:
        self.compared_count, self.has_difference = 0, False
        self._there = device_batches
        self._bytes = 0
        # A tensor that the loop was given, by its id; with it, what its batch was made from, and
        # which tensor of the batch it is.
        self._given: dict[int, tuple[Any, Any, int]] = {}

    def epoch(self) -> Iterator[Any]:
        """The batches as the pipeline makes them, for the loop to call its step with."""
        for given, made in self._there.pair_with_host_results():
            if self.compared_count < _COMPARED and self._bytes < _COMPARED_BYTES:
                self._compare(given, made)
            yield made

    def _compare(self, given: Any, made: Any) -> None:
        here, there = tf.nest.flatten(made), tf.nest.flatten(self._there.map_element(given))
        self.has_difference |= not all(map(_is_same, here, there))
        self.compared_count += 1
        for number, part in enumerate(here):
            self._bytes += int(part.shape.num_elements() * part.dtype.size)
            self._given[id(part)] = part, given, number

    def add_to_proof(self, proof: Proof, kind: Guarantee) -> Proof:
        """What a proof of the step comes to, the batches themselves considered.

        Args:
            proof: Of the step, called with what is made there.
            kind: That was to be proved.
        """
        how = "differ" if self.has_difference else "are equal bit for bit"
        told = (
            f"{self.compared_count} batches created on the device and on the host {how}; "
            f"{proof.detail}"
        )
        if not self.has_difference:
            return replace(proof, detail=told)
        if kind == "exact":
            return replace(proof, passed=False, detail=told)
        return replace(proof, kind=find_loosest_guarantee(proof.kind, "rounding"), detail=told)

    def device_arguments(self, call: Call) -> Call:
        """Arguments of a recorded call of the step, as it is called of what is made there.

        Raises:
            EditRefused: The step is given something else than what stands in a batch, which the
                loop may have made of it.
        """
        made: dict[int, list[Any]] = {}

        def argument(leaf: Any) -> Any:
            known = self._given.get(id(leaf))
            if known is None:
                _check(leaf)
                return leaf
            _, given, number = known
            if id(given) not in made:
                made[id(given)] = tf.nest.flatten(self._there.map_element(given))
            return made[id(given)][number]

        found: Call = tf.nest.map_structure(argument, call)
        if not made:
            raise _refusal("nothing of a batch")
        return found


def _is_same(here: Any, there: Any) -> bool:
    if (here.dtype, here.shape) != (there.dtype, there.shape):
        return False
    return bool(here.numpy().tobytes() == there.numpy().tobytes())


def _check(leaf: Any) -> None:
    """Whole numbers, the number of a step say, are not made of a batch."""
    if not isinstance(leaf, tf.Tensor | np.ndarray):
        return
    if tuple(leaf.shape) or not tf.as_dtype(leaf.dtype).is_integer:
        raise _refusal("a value that is not in its batches")


def _refusal(received: str) -> EditRefused:
    return EditRefused(
        f"the loop calls its step with {received}: its changes of a batch would run on the host",
        "a step that is called with unmodified batches",
        "change the batch in a map of the dataset, or in the step",
    )
