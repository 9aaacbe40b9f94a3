"""Run a user's unmodified script and reach its training calls.

Nothing here imports TensorFlow or Keras: hooks wait for the script to do so, and the environment
that it sets first stays in force.
"""

from uncork.capture.calls import FitCall, Listener, LoopCall, LoopEvidence, PassThrough, StepCall
from uncork.capture.datasets import datasets_in, with_datasets
from uncork.capture.file_hooks import keep_files
from uncork.capture.hooks import listening
from uncork.capture.own_files import OwnFiles
from uncork.capture.putting_back import PutBack, last_signals, put_back
from uncork.capture.quiet import HeldSaves, hold_saves
from uncork.capture.script import run_script, show
from uncork.capture.stop import StopScript

__all__ = [
    "FitCall",
    "HeldSaves",
    "Listener",
    "LoopCall",
    "LoopEvidence",
    "OwnFiles",
    "PassThrough",
    "PutBack",
    "StepCall",
    "StopScript",
    "datasets_in",
    "hold_saves",
    "keep_files",
    "last_signals",
    "listening",
    "put_back",
    "run_script",
    "show",
    "with_datasets",
]
