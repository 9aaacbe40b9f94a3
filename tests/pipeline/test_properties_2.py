from __future__ import annotations

import pytest

from pipeline.properties import drawn

test_every_legal_edit_is_exact = pytest.mark.deep(drawn(2))
