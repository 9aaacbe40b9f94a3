"""The tf.data engine: read a pipeline, measure it, change it, and make twins to prove the change.

Everything works on the user's Dataset objects. Nothing is traced twice, no source array is copied,
tables and Python functions survive, and no random state of the script is touched.
"""

from uncork.pipeline.ahead import rewritten_by_default
from uncork.pipeline.apart import apart
from uncork.pipeline.continuing import continued
from uncork.pipeline.costs import measure
from uncork.pipeline.digests import ElementDigests, EpochDigests, Failure, element_digests
from uncork.pipeline.disk_cache import files_complete, fill, from_disk, without_place_holders
from uncork.pipeline.disk_folder import check_folder
from uncork.pipeline.disk_speed import disk_at
from uncork.pipeline.edits import apply
from uncork.pipeline.effects import is_deterministic, runs_python
from uncork.pipeline.files import redirected
from uncork.pipeline.gathering import gathered_arrays
from uncork.pipeline.kept_calls import a_pass_begins
from uncork.pipeline.last_maps import LastMaps, last_maps, named_maps
from uncork.pipeline.made_there import MadeThere
from uncork.pipeline.named_files import bytes_named, cold_files
from uncork.pipeline.order import in_order, leaves_order_open
from uncork.pipeline.parted import parted_anew
from uncork.pipeline.python_calls import keeps_python
from uncork.pipeline.seeded import python_state, seeded, state_kept
from uncork.pipeline.shortened import shortened
from uncork.pipeline.source_lines import record_source_lines, source_line
from uncork.pipeline.splitting import Split, split
from uncork.pipeline.supply import Supplied, supply
from uncork.pipeline.tree import Node, Pipeline, read

__all__ = [
    "ElementDigests",
    "EpochDigests",
    "Failure",
    "LastMaps",
    "MadeThere",
    "Node",
    "Pipeline",
    "Split",
    "Supplied",
    "a_pass_begins",
    "apart",
    "apply",
    "bytes_named",
    "check_folder",
    "cold_files",
    "continued",
    "disk_at",
    "element_digests",
    "files_complete",
    "fill",
    "from_disk",
    "gathered_arrays",
    "in_order",
    "is_deterministic",
    "keeps_python",
    "last_maps",
    "leaves_order_open",
    "measure",
    "named_maps",
    "parted_anew",
    "python_state",
    "read",
    "record_source_lines",
    "redirected",
    "rewritten_by_default",
    "runs_python",
    "seeded",
    "shortened",
    "source_line",
    "split",
    "state_kept",
    "supply",
    "without_place_holders",
]
