"""A share, as users name it."""

from __future__ import annotations

import pytest

from ci.core.errors import UsageError
from ci.steps.share import known_bucket


def test_an_unknown_bucket_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no bucket 'pull'") as caught:
        known_bucket("pull")
    assert "known: pr, nightly, weekly" in str(caught.value)
