from __future__ import annotations

from pipeline.properties import drawn

test_every_legal_edit_is_exact = drawn(1)
