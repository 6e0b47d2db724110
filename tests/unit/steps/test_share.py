"""A share, as users name it."""

from __future__ import annotations

import pytest

from ci.core.errors import UsageError
from ci.steps.share import known_tier


def test_an_unknown_tier_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no tier 'pull'") as caught:
        known_tier("pull")
    assert "known: pr, nightly, weekly" in str(caught.value)
