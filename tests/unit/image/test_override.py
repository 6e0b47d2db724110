"""Replacing a component's commit, by a flag or a pull request's text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import MissingInputError, UsageError
from ci.image.model import Stack
from ci.image.override import Override, overridden, overrides_in, parse_override, parse_with, read_text
from ci.image.stack import read_stack

SHA = "a" * 40
URL = "https://github.com/torch-spyre/flex.git"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    path = tmp_path / "stack.yaml"
    path.write_text(f"""version: 1
name: runtime
base: {{image: debian:bookworm}}
variants: {{pinned: {{version: 2.13.0}}}}
components:
  - {{name: flex, git: {{url: {URL}, ref: v1, steps: [make]}}}}
  - {{name: drivers, files: [a.deb]}}
""")
    return read_stack(path)


def test_a_component_is_taken_from_elsewhere_and_built_as_before(stack: Stack) -> None:
    changed = overridden(stack, [parse_override(f"flex=git+https://github.com/me/flex.git@{SHA}")])
    flex = changed.component("flex")
    assert flex is not None
    assert flex.git is not None
    assert (flex.git.url, flex.git.ref) == ("https://github.com/me/flex.git", SHA)
    assert flex.git.steps == ("make",)
    assert changed.component("drivers") == stack.component("drivers")


def test_a_pull_requests_text_may_name_several() -> None:
    first, second = f"Test-With: flex=git+{URL}@{SHA}", "  test-with: senlib=git+git@host.example:a/b@x/y"
    text = f"Mends it.\r\n\r\n{first}\r\n{second}\n"
    assert overrides_in(text) == [
        Override(name="flex", url=URL, ref=SHA),
        Override(name="senlib", url="git@host.example:a/b", ref="x/y"),
    ]
    assert overrides_in("We Test-With: nothing") == []


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
def test_what_has_another_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_override(text)
    assert "NAME=git+URL@REF" in (caught.value.remedy or "")
    with pytest.raises(UsageError):
        overrides_in(f"Test-With: {text}")


@given(st.text())
def test_a_text_gives_overrides_or_is_refused(text: str) -> None:
    try:
        found = overrides_in(f"Test-With:{text}")
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
        ([f"flex=git+{URL}@x", f"flex=git+{URL}@y"], "flex is replaced twice"),
    ],
)
def test_what_cannot_be_replaced_is_said(stack: Stack, texts: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        overridden(stack, map(parse_override, texts))


def test_a_user_may_name_a_folder_of_this_machine(stack: Stack, tmp_path: Path) -> None:
    assert parse_with("flex=../flex", here=tmp_path) == Override(name="flex", folder=tmp_path / "../flex")
    assert parse_with(f"flex=git+{URL}@{SHA}", here=tmp_path) == Override(name="flex", url=URL, ref=SHA)
    changed = overridden(stack, [parse_with("flex=.", here=tmp_path)])
    assert changed == stack


def test_a_pull_requests_text_names_no_folder() -> None:
    with pytest.raises(UsageError, match="is no override") as caught:
        overrides_in("Test-With: flex=/etc")
    assert caught.value.remedy == "write NAME=git+URL@REF"


@pytest.mark.parametrize("text", ["flex", "flex=", "=.", "flex=https://example.com/x", "flex=git+x"])
def test_what_is_neither_is_told_with_both_forms(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        parse_with(text, here=tmp_path)
    assert "NAME=git+URL@REF" in str(caught.value.remedy)


def test_a_folder_replaces_only_what_is_built_from_a_repository(stack: Stack, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="drivers is not built from a repository"):
        overridden(stack, [parse_with("drivers=.", here=tmp_path)])


def test_a_pull_requests_text_is_read_as_it_came(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"caf\xe9\nTest-With: flex=git+" + URL.encode() + b"@main\n")
    assert overrides_in(read_text(tmp_path / "text")) == [Override(name="flex", url=URL, ref="main")]
    with pytest.raises(MissingInputError, match="there is no such file"):
        read_text(tmp_path / "nothing")


@pytest.mark.parametrize("word", ["me:word@", "word@"])
def test_an_address_with_a_user_is_refused_unseen(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_override(f"flex=git+https://{word}example.com/flex.git@main")
    assert "holds a user or a password" in caught.value.what
    assert word not in str(caught.value)


def test_a_pull_request_has_no_word_on_this_machines_repositories() -> None:
    with pytest.raises(UsageError, match="is on this machine"):
        overrides_in("Test-With: flex=git+file:///srv/flex@main")
