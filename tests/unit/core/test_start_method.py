from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import EXIT_USAGE, SettingsError
from ci.core.start_method import start_method

SYSTEMS = st.sampled_from(["linux", "darwin", "freebsd14"])


@pytest.mark.parametrize(
    ("wanted", "system", "method"),
    [
        ("auto", "linux", "fork"),
        ("auto", "darwin", "spawn"),
        ("fork", "linux", "fork"),
        ("spawn", "linux", "spawn"),
        ("spawn", "darwin", "spawn"),
    ],
)
def test_a_copy_is_made_where_it_is_safe_and_not_refused(wanted: str, system: str, method: str) -> None:
    assert start_method(wanted, system=system) == method


def test_a_copy_that_is_not_safe_is_refused_with_what_to_do() -> None:
    with pytest.raises(SettingsError) as caught:
        start_method("fork", system="darwin")
    assert caught.value.exit_code == EXIT_USAGE
    assert caught.value.where == "run.start_method"
    assert "'fork'" in caught.value.what
    assert "darwin" in caught.value.what
    assert caught.value.remedy == "give spawn, or leave it at auto, which is spawn here"


@given(wanted=st.sampled_from(["auto", "spawn"]), system=SYSTEMS)
def test_what_is_not_asked_for_by_name_is_never_refused(wanted: str, system: str) -> None:
    assert start_method(wanted, system=system) == (
        "fork" if (wanted, system) == ("auto", "linux") else "spawn"
    )
