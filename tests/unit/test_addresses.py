from __future__ import annotations

import pytest

from ci.addresses import without_credentials, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git+https://me:s3cret@git.example/x@main", "git+https://git.example/x@main"),
        ("two http://s3cret@a/ and ftp://u:s3cret@b", "two http://a/ and ftp://b"),
        ("git+ssh://git@host/x", "git+ssh://git@host/x"),
        ("https://git.example/x@main", "https://git.example/x@main"),
    ],
)
def test_credentials_are_taken_out_of_addresses(text: str, shown: str) -> None:
    assert without_credentials(text) == without_secrets(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://hud/x?token=s3cret", "https://hud/x?***"),
        ("(url: /callback?token=s3cret) (Caused by …)", "(url: /callback?***) (Caused by …)"),
        ("is a/b there? yes", "is a/b there? yes"),
    ],
)
def test_queries_are_taken_out_of_addresses(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
