from __future__ import annotations

import pytest

from .properties import drawn

test_every_legal_edit_is_exact = pytest.mark.timeout(1500)(drawn(1))
