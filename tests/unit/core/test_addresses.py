from __future__ import annotations

import time

import pytest

from ci.core.addresses import says_password, shown, without_credentials, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git+https://me:s3cret@git.example/x@main", "git+https://git.example/x@main"),
        ("two http://s3cret@a/ and ftp://u:s3cret@b", "two http://a/ and ftp://b"),
        ("git+ssh://git@host/x", "git+ssh://git@host/x"),
        ("https://git.example/x@main", "https://git.example/x@main"),
        ("git+https://git.example:8443/x@main", "git+https://git.example:8443/x@main"),
        ("git+https://me:s3/cret@git.example/x", "git+https://git.example/x"),
        ("at http://me:s3@cret@a/b, then", "at http://a/b, then"),
        ("http://s3?cret#x@a/b", "http://a/b"),
        ("redis://:1234/s3cret@host/0 is gone", "redis://host/0 is gone"),
        ("rediss://u:s3/c@ret@host/0", "rediss://host/0"),
        ("ssh://git:s3cret@host/x", "ssh://git@host/x"),
        ("unix:///run/a@b.sock", "unix:///run/a@b.sock"),
        ("https://me:hun ter2@host/x.git", "https://host/x.git"),
        ("https://me:hun t/e@r 2@host/x.git", "https://host/x.git"),
        ("https://:a b@host/x.git", "https://host/x.git"),
        ("ssh://git:hun ter2@host/x.git", "ssh://git@host/x.git"),
        ("http://localhost:8080 is away, ask me@x", "http://localhost:8080 is away, ask me@x"),
        ("http://a:b/ and http://c:d@e/", "http://a:b/ and http://e/"),
    ],
)
def test_credentials_are_taken_out_of_addresses(text: str, shown: str) -> None:
    assert without_credentials(text) == without_secrets(text) == shown


@pytest.mark.parametrize(
    ("text", "without_queries", "kept"),
    [
        ("https://hud/x?token=s3cret", "https://hud/x?***", "https://hud/x?token=***"),
        (
            "(url: /callback?token=s3cret) (by …)",
            "(url: /callback?***) (by …)",
            "(url: /callback?token=***) (by …)",
        ),
        ("is a/b there? yes", "is a/b there? yes", "is a/b there? yes"),
        (
            "redis://host/0?db=1&password=s3cret&x=2",
            "redis://host/0?***",
            "redis://host/0?db=1&password=***&x=2",
        ),
        ("https://a/b?Access_Token=s3cret)", "https://a/b?***)", "https://a/b?Access_Token=***)"),
        ("https://a/b?page=2", "https://a/b?***", "https://a/b?page=2"),
    ],
)
def test_queries_are_taken_out_or_what_in_them_is_called_a_secret(
    text: str, without_queries: str, kept: str
) -> None:
    assert (without_secrets(text), without_credentials(text)) == (without_queries, kept)


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("redis://:s3cret@host/0", "redis://host/0"),
        ("rediss://ci:s3/c@re?t#@host:6379", "rediss://host:6379"),
        ("redis://:s3 cret/x@host/0", "redis://host/0"),
        ("redis://host/0?password=s3cret", "redis://host/0?***"),
        ("unix://u:s3cret@/run/x.sock", "unix:///run/x.sock"),
        ("redis://host?p%61ssword=s3cret", "redis://host?***"),
        ("redis://host?db=1;ssl_password=s3cret", "redis://host?***"),
    ],
)
def test_a_password_in_an_address_is_seen_and_not_shown(address: str, kept: str) -> None:
    assert says_password(address)
    assert shown(address) == kept


@pytest.mark.parametrize(
    "address",
    ["redis://ci@host:6379/0", "/shared/a:b@c", "redis://host:6379/0?db=1", "unix:///run/a@b.sock", ""],
)
def test_an_address_without_a_password_is_told_from_one_with_it(address: str) -> None:
    assert not says_password(address)


def test_a_long_text_is_looked_at_in_a_moment() -> None:
    begun = time.monotonic()
    for text in (
        "redis://" * 20_000, "://:" * 40_000, "://a:b/" * 20_000, "?pass" * 30_000, "unix://:" * 20_000,
        "http://a:b " * 20_000, "http://a:" + "b " * 50_000, "://:" * 20_000 + " ",
    ):  # fmt: skip
        assert len(without_secrets(text)) <= len(text) + 10
    assert time.monotonic() - begun < 20
