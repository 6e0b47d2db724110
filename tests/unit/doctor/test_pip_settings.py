"""Where pip looks, as `pip config list` prints it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ci.doctor.pip_settings import USUAL, PipSettings, of_environ, of_listing


def test_nothing_said_is_the_usual_index() -> None:
    assert of_listing([]) == of_environ({}) == PipSettings()
    assert PipSettings().indexes == (USUAL,)


def test_the_environment_wins_over_the_verb_and_that_over_all() -> None:
    lines = [
        ":env:.index-url='https://env/simple'",
        "global.index-url='https://global/simple'",
        "install.index-url='https://install/simple'",
        "global.extra-index-url='https://b/simple\\nhttps://c/simple'",
        "install.find-links='/w /x'",
        "global.cert='/ca.pem'",
        "global.trusted-host='a b:8080'",
        "freeze.index-url='https://no'",
        "global.no-index=",
        "nonsense",
        "global.proxy=__import__('os')",
    ]
    assert of_listing(lines) == PipSettings(
        indexes=("https://env/simple", "https://b/simple", "https://c/simple"),
        links=("/w", "/x"),
        certificates="/ca.pem",
        trusted=("a", "b:8080"),
    )


def test_variables_are_read_where_there_is_no_pip() -> None:
    found = of_environ(
        {"PIP_INDEX_URL": "https://u:p@a/simple", "PIP_NO_INDEX": "1", "PIPX": "x", "PIP_PROXY": ""}
    )
    assert (found.indexes, found.alone) == (("https://u:p@a/simple",), True)


def test_an_index_that_is_named_twice_is_asked_once() -> None:
    assert of_environ(
        {"PIP_INDEX_URL": "https://a", "PIP_EXTRA_INDEX_URL": "https://b https://a"}
    ).indexes == (
        "https://a",
        "https://b",
    )


@given(st.lists(st.text()))
def test_no_listing_makes_it_fall_over(lines: list[str]) -> None:
    assert of_listing(["global.index-url='https://a'", *lines]).indexes
