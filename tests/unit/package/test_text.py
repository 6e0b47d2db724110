"""What others say, shown without doing anything."""

from __future__ import annotations

import pytest

from ci.package.text import harmless, harmless_line, without_index_secrets


def test_a_message_is_one_line() -> None:
    assert harmless("a\n  b\x1b[31mred\x1b[0m") == "a bred"


def test_a_line_of_output_keeps_its_blanks_and_commands_nobody() -> None:
    assert harmless_line("    assert 1 == 2") == "    assert 1 == 2"
    assert harmless_line("  ::add-mask::x") == "|   ::add-mask::x"
    assert harmless_line("##[group]x") == "# #[group]x"
    assert harmless_line("a\x1b]0;title\x07\x00b") == "a\\x00b"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://me:hunter2@index/simple", "cannot reach https://me:hunter2@index/simple"),
        ("https://me:hun/ter2@index/simple", "Failed to parse: host='me', port='hun', path=/ter2@index"),
        ("https://me:hun#ter2@index/simple", "Invalid port 'hun' in https://me:hun"),
        ("https://me:hun%2Fter2@index/simple", "hun/ter2 and hun%2Fter2"),
        ("https://me:a@hunter2@index/simple", "Name or service not known: hunter2"),
        ("https://hunter2@index/simple", "for hunter2"),
        ("https://plain/ https://me:hunter2@index/", "for hunter2"),
    ],
)
def test_what_pip_makes_of_a_password_is_not_shown(address: str, said: str) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        text = without_index_secrets(said, {name: address})
        assert not [part for part in ("hun", "ter2", "hunter2") if part in text]


def test_without_a_password_nothing_is_hidden() -> None:
    text = "no matching distribution at https://index/simple"
    assert without_index_secrets(text, {"PIP_INDEX_URL": "https://index/simple"}) == text
    assert without_index_secrets(text, {}) == text
