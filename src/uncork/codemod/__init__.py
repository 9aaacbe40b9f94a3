"""What a plan, or Keras 3, changes of a script, written into its text.

Needs LibCST (``pip install 'uncork[diff]'``): nothing above imports it before a patch is asked for.
"""

from uncork.source.keras3 import patch_to_keras3
from uncork.source.patch import Patch, Unsaid
from uncork.source.said import patch_of_plan

__all__ = ["Patch", "Unsaid", "patch_of_plan", "patch_to_keras3"]
