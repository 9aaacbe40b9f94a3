"""The datasets of a custom loop under a plan: each is edited once, and read again and again."""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

from uncork.core.base.errors import EditRefused
from uncork.core.documents.plan import Plan
from uncork.core.edits.step import find_map_on_device
from uncork.engine.apply.disk_cache_space import DiskCacheReaders, planned_dataset
from uncork.engine.apply.memory_budget import check_cache_memory, has_cache
from uncork.engine.apply.plan_notices import PlanNotices
from uncork.pipeline.ir.tree import Pipeline, read_pipeline
from uncork.pipeline.transforms.device_iterator import DeviceMappedPipeline
from uncork.pycode.purity.memoized_function import note_data_pass_start

# Alike and of use again: those of folds or domains, taken in turn.
_MOST: Final = 8
# Of them, datasets that may live at once before Python is asked to look for those in nobody's use.
_ALIVE: Final = 3
# Where a dataset remembers which it is, and what was made of it.
_EDITED: Final = "_uncork_edited"
# Where an edited dataset, and each copy of it, remembers what makes its elements on a device.
_THERE: Final = "_uncork_there"


class PlannedDatasets:
    """Edits what the plan knows, and hands on all else.

    A script may make its dataset anew for each pass. What a plan keeps of one would then never be
    read again, and would fill the memory: after a few of them the loop goes on as written.

    Args:
        plan: With edits of the pipeline, or of where its last maps are done.
        notices: Told why a dataset is read as written, and where.

    Attributes:
        is_reached: A dataset that the plan knows was reached.
    """

    def __init__(self, plan: Plan, notices: PlanNotices) -> None:
        self.is_reached = False
        self._plan = plan
        self._notices = notices
        self._readers = DiskCacheReaders(plan)
        # Those that are still there: what was made of one goes when it does.
        self._alike: WeakSet[Any] = WeakSet()
        self._handed_out: WeakSet[Any] = WeakSet()
        self._count = 0
        self._read_again = self._given_up = False

    def dataset_for(self, dataset: Any, at: str) -> Any:
        """What to iterate over instead."""
        given, edited = vars(dataset).get(_EDITED, (None, None))
        if given == id(dataset):  # a copy of one that was edited has its fields, too
            self._read_again = True
            return self._handed(dataset, edited)
        pipeline = None if self._given_up else self._known(dataset)
        if pipeline is None:
            return dataset
        self.is_reached = True
        self._count += 1
        if self._count > _MOST and self._is_of_no_use(at):
            return dataset
        edited = dataset
        try:
            check_cache_memory(self._plan, pipeline)
            edited = self._as_planned(pipeline, at)
        except EditRefused as refusal:
            self._notices.training_refused(refusal, at, has_begun=self._count > 1)
        if len(self._alike) >= _ALIVE:
            gc.collect()  # what was made of them holds on to them
        self._alike.add(dataset)
        vars(dataset)[_EDITED] = id(dataset), edited
        return self._handed(dataset, edited)

    def has_returned(self, dataset: Any) -> bool:
        """It is what :meth:`dataset_for` gave for one that the plan knows."""
        return dataset in self._handed_out

    def _handed(self, dataset: Any, edited: Any) -> Any:
        note_data_pass_start()
        found = self._readers.dataset_for(dataset, edited)
        self._handed_out.add(found)
        return found

    def iterator(self, dataset: Any, iterate: Callable[[Any], Any]) -> Any:
        """Over what :meth:`dataset_for` has returned.

        Args:
            dataset: That.
            iterate: Gives TensorFlow's own iterator over a dataset.
        """
        there: DeviceMappedPipeline | None = vars(dataset).get(_THERE)
        return iterate(dataset) if there is None else there.create_iterator(iterate, dataset)

    def _as_planned(self, pipeline: Pipeline, at: str) -> Any:
        moved = find_map_on_device(self._plan.step_edits)
        edited = planned_dataset(self._plan, pipeline, at, strict=self._notices.strict)
        if moved is not None:
            there = DeviceMappedPipeline(
                read_pipeline(edited), moved.expected_digest, moved.placement
            )
            edited = copy.copy(edited)  # it may be the script's own
            vars(edited)[_THERE] = there
        return edited

    def _known(self, dataset: Any) -> Pipeline | None:
        """What the plan was made for; None for all else, whatever it is."""
        with suppress(EditRefused):
            pipeline = read_pipeline(dataset)
            if pipeline.digest == self._plan.before.workload.pipeline_digest:
                return pipeline
        return None

    def _is_of_no_use(self, at: str) -> bool:
        """Many datasets were alike, something is kept of each, and none was read again."""
        if self._read_again or not has_cache(self._plan):
            return False
        self._given_up = True
        for each in self._alike:
            vars(each).pop(_EDITED, None)
        sys.stderr.write(
            f"uncork: {at} continues unmodified: the script creates a new dataset for each pass, "
            "so "
            "the plan's cache is never read again; create the dataset once, before the loop over "
            "epochs\n"
        )
        return True
