"""Replacing a component's commit, by a flag or a pull request's text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import MissingInputError, UsageError
from ci.image.model import Stack
from ci.image.override import FORM, Override, overridden, overrides_in, parse_override

from .stacks import TOP, resolved

SHA = "a" * 40
URL = "https://github.com/torch-spyre/flex.git"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    text = f"""{TOP}components:
  - {{name: flex, git: {{url: {URL}, ref: v1, steps: [make]}}}}
  - {{name: drivers, files: [a.deb]}}
"""
    return resolved(tmp_path, text).stack


def overrides_of(folder: Path, text: str | bytes) -> list[Override]:
    """Those of a pull request's text."""
    (folder / "text").write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return overrides_in(folder / "text")


def test_a_component_is_taken_from_elsewhere_and_built_as_before(stack: Stack) -> None:
    changed = overridden(stack, [parse_override(f"flex=git+https://github.com/me/flex.git@{SHA}")])
    before, after = ({one.name: one for one in found.components} for found in (stack, changed))
    git = before["flex"].git
    assert git is not None
    assert after["flex"].git == git.model_copy(update={"url": "https://github.com/me/flex.git", "ref": SHA})
    assert after["drivers"] == before["drivers"]


def test_a_pull_requests_text_may_name_several(tmp_path: Path) -> None:
    first, second = f"Test-With: flex=git+{URL}@{SHA}", "  test-with: senlib=git+git@host.example:a/b@x/y"
    # As it came, also where it is no UTF-8.
    text = f"Mends it.\r\n\r\n{first}\r\n{second}\n".encode() + b"caf\xe9\n"
    assert overrides_of(tmp_path, text) == [
        Override(name="flex", url=URL, ref=SHA),
        Override(name="senlib", url="git@host.example:a/b", ref="x/y"),
    ]
    assert overrides_of(tmp_path, "We Test-With: nothing") == []
    with pytest.raises(MissingInputError, match="there is no such file"):
        overrides_in(tmp_path / "nothing")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "flex",
        "flex=https://x/y@z",
        "flex=git+https://x/y",
        "flex=git+ext::sh -c id@x",
        "flex=git+https://x/$(id)@x",
        "flex=git+https://x/y`id`@x",
        "flex=git+https://x/y@--upload-pack=id",
        "flex=git+/etc@x",
        "FLEX=git+https://x/y@z",
        "flex=git+https://x/y@z; id",
    ],
)
def test_what_has_another_form_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        parse_override(text)
    assert caught.value.remedy in {f"write {FORM}", f"write {FORM}, without user and password"}
    with pytest.raises(UsageError):
        overrides_of(tmp_path, f"Test-With: {text}")


@given(st.text())
def test_a_text_gives_overrides_or_is_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    try:
        found = overrides_of(tmp_path_factory.mktemp("text"), f"Test-With:{text}")
    except UsageError:
        return
    for one in found:
        assert not set(one.url + one.ref) & set(" \t\r\n'\"$`\\")
        assert not one.ref.startswith("-")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([f"nothing=git+{URL}@x"], "there is no component 'nothing'"),
        ([f"drivers=git+{URL}@x"], "drivers is not built from a repository"),
        (["drivers=."], "drivers is not built from a repository"),
        ([f"flex=git+{URL}@x", "flex=."], "flex is replaced twice"),
    ],
)
def test_what_cannot_be_replaced_is_said(stack: Stack, tmp_path: Path, texts: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        overridden(stack, [parse_override(text, here=tmp_path) for text in texts])


def test_a_user_may_name_a_folder_of_this_machine(stack: Stack, tmp_path: Path) -> None:
    folder = parse_override("flex=../flex", here=tmp_path)
    assert folder == Override(name="flex", folder=tmp_path / "../flex")
    assert parse_override(f"flex=git+{URL}@{SHA}", here=tmp_path) == Override(name="flex", url=URL, ref=SHA)
    assert overridden(stack, [folder]) == stack


@pytest.mark.parametrize("text", ["flex", "flex=", "=.", "flex=https://example.com/x", "flex=git+x"])
def test_what_is_neither_is_told_with_both_forms(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        parse_override(text, here=tmp_path)
    assert caught.value.remedy == f"write {FORM} or NAME=FOLDER"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("flex=/etc", "'flex=/etc' is not an override"),
        ("flex=git+file:///srv/flex@main", "is on this machine, and a pull request may not name that"),
        ("flex=git+https://me:word@example.com/flex.git@main", "contains a user or a password"),
        ("flex=git+https://word@example.com/flex.git@main", "contains a user or a password"),
    ],
)
def test_a_pull_request_has_no_word_on_this_machine_and_shows_no_password(
    text: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        overrides_of(tmp_path, f"Test-With: {text}")
    assert said in caught.value.what
    assert "word@" not in str(caught.value)
