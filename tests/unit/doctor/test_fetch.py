"""What the network said, in its own words and without what may be secret."""

from __future__ import annotations

import pytest

from ci.doctor.fetch import FetchError, Way, fetch


@pytest.mark.parametrize("url", ["ftp://a/b", "http://", "nothing"])
def test_what_cannot_be_asked_is_told(url: str) -> None:
    with pytest.raises(FetchError, match="it cannot be asked"):
        fetch(url, Way(), limit_s=30, clock=lambda: 0.0)


def test_an_error_holds_no_password() -> None:
    assert str(FetchError("at https://me:hunter2@h/x?key=abc it ends")) == "at https://h/x?*** it ends"
