from __future__ import annotations

import pytest

from ci.core.errors import CommandError
from ci.core.extras import wanted


def test_a_library_that_is_not_installed_is_told_with_the_extra_that_has_it() -> None:
    with (
        pytest.raises(CommandError, match="not installed: github") as caught,
        wanted("x wants", extra="github"),
    ):
        raise ModuleNotFoundError("No module named 'github'", name="github")
    assert "spyre-ci[github]" in (caught.value.remedy or "")
