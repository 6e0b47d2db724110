"""What others say, shown without doing anything."""

from __future__ import annotations

from ci.package.text import harmless, harmless_line


def test_a_message_is_one_line() -> None:
    assert harmless("a\n  b\x1b[31mred\x1b[0m") == "a bred"


def test_a_line_of_output_keeps_its_blanks_and_commands_nobody() -> None:
    assert harmless_line("    assert 1 == 2") == "    assert 1 == 2"
    assert harmless_line("  ::add-mask::x") == "|   ::add-mask::x"
    assert harmless_line("##[group]x") == "# #[group]x"
    assert harmless_line("a\x1b]0;title\x07\x00b") == "a\\x00b"
