"""The datasets of a custom loop under a plan: each is edited once, and read again and again."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from uncork.core.errors import EditRefused
from uncork.core.plan import Plan
from uncork.core.step_edit import on_device
from uncork.engine.files_room import FirstReaders, planned_dataset
from uncork.engine.pipelines import enough_memory, keeps
from uncork.pipeline import MadeThere, Pipeline, read

# Alike and of use again: those of folds or domains, taken in turn.
_MOST: Final = 8
# Where an edited dataset, and each copy of it, remembers what makes its elements on a device.
_THERE: Final = "_uncork_there"


class PlannedData:
    """Edits what the plan knows, and hands on all else.

    A script may make its dataset anew for each pass. What a plan keeps of one would then never be
    read again, and would fill the memory: after a few of them the loop goes on as written.

    Args:
        plan: With edits of the pipeline, or of where its last maps are done.
        refuse: Told why a dataset is read as written, and where.
        strict: No room for a cache in files is such a reason.

    Attributes:
        met: A dataset that the plan knows was reached.
    """

    def __init__(
        self, plan: Plan, refuse: Callable[[EditRefused, str], None], *, strict: bool = False
    ) -> None:
        self._strict = strict
        self.met = False
        self._plan = plan
        self._refuse = refuse
        self._readers = FirstReaders(plan)
        # By the id of the original, which is held as well: another one must not get its id.
        self._edited: dict[int, tuple[Any, Any]] = {}
        self._read_again = self._given_up = False

    def of(self, dataset: Any, at: str) -> Any:
        """What to iterate over instead."""
        known = self._edited.pop(id(dataset), None)
        if known is not None:
            self._read_again = True
            self._edited[id(dataset)] = known  # the last that was of use
            return self._readers.of(*known)
        pipeline = None if self._given_up else self._known(dataset)
        if pipeline is None:
            return dataset
        self.met = True
        if len(self._edited) == _MOST and self._is_of_no_use(at):
            return dataset
        edited = dataset
        try:
            enough_memory(self._plan, pipeline)
            edited = self._as_planned(pipeline, at)
        except EditRefused as refusal:
            self._refuse(refusal, at)
        if len(self._edited) == _MOST:
            del self._edited[next(iter(self._edited))]
        self._edited[id(dataset)] = (dataset, edited)
        return self._readers.of(dataset, edited)

    def iterator(self, dataset: Any, iterate: Callable[[Any], Any]) -> Any:
        """Over what :meth:`of` has returned.

        Args:
            dataset: That.
            iterate: Gives TensorFlow's own iterator over a dataset.
        """
        there: MadeThere | None = vars(dataset).get(_THERE)
        return iterate(dataset) if there is None else there.iterator(iterate, dataset)

    def _as_planned(self, pipeline: Pipeline, at: str) -> Any:
        moved = on_device(self._plan.step_edits)
        edited = planned_dataset(self._plan, pipeline, at, strict=self._strict)
        if moved is not None:
            there = MadeThere(read(edited), moved.expects, moved.placement)
            edited = copy.copy(edited)  # it may be the script's own
            vars(edited)[_THERE] = there
        return edited

    def _known(self, dataset: Any) -> Pipeline | None:
        """What the plan was made for; None for all else, whatever it is."""
        with suppress(EditRefused):
            pipeline = read(dataset)
            if pipeline.digest == self._plan.before.workload.pipeline:
                return pipeline
        return None

    def _is_of_no_use(self, at: str) -> bool:
        """Many datasets were alike, something is kept of each, and none was read again."""
        if self._read_again or not keeps(self._plan):
            return False
        self._given_up = True
        self._edited.clear()
        sys.stderr.write(
            f"uncork: {at} goes on as written: the script makes its dataset anew for each pass, so "
            "what the plan keeps of one is never read again; make it once, before the loop over "
            "epochs\n"
        )
        return True
