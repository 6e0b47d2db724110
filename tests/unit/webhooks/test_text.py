"""What is printed of strangers' names and of addresses with tokens."""

from __future__ import annotations

import json

from ci.core.errors import SettingsError
from ci.webhooks.difference import Change, Deed, Field, Seen
from ci.webhooks.hub import Delivery
from ci.webhooks.model import Repository
from ci.webhooks.setting_up import Compared, exit_code
from ci.webhooks.text import as_json, change_lines, done_lines, seen_lines

BAD = "x\n::error::y\r\x1b[2J##[group]"
TOKEN = "very-secret-token-of-a-job"
HOOK = Seen(
    id=7, url=f"https://j.example.com/h?token={TOKEN}", events=frozenset({BAD}), content_type=BAD,
    insecure_ssl=True, active=False, has_secret=False, last=BAD,
)  # fmt: skip


def compared() -> Compared:
    change = Change(
        deed=Deed.UPDATE, url=HOOK.url, hook_id=7, fields=(Field(name="events", seen=BAD, wished="push"),)
    )
    extra = Change(deed=Deed.EXTRA, url=BAD, hook_id=8, why="the file does not name it")
    one = Compared(repository=Repository(repository="o/r", host="ghe"), seen=(HOOK,), changes=(change, extra))
    one.pinged[7] = Delivery(event=BAD, at=BAD, status=BAD, code=500)
    return one


def test_no_line_commands_a_terminal_or_a_ci_or_shows_a_token() -> None:
    one = compared()
    one.done.append(one.changes[0])
    failed = Compared(repository=one.repository, error=SettingsError(BAD, where=BAD, remedy=BAD))
    lines = [*seen_lines(one), *change_lines(one), *done_lines(one), *change_lines(failed)]
    text = "\n".join(lines) + json.dumps(as_json(one))
    assert TOKEN not in text
    assert "\x1b" not in text
    assert "\r" not in text
    assert "##[" not in "\n".join(lines)
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]


def test_a_hook_that_is_not_safe_says_so_in_capitals() -> None:
    (_, line) = seen_lines(compared())
    for told in ("NOT ACTIVE", "CERTIFICATE NOT CHECKED", "WITHOUT A SECRET"):
        assert told in line


def test_every_failure_has_its_remedy() -> None:
    failed = Compared(
        repository=Repository(repository="o/r"), error=SettingsError("no", where="X", remedy="do")
    )
    assert list(change_lines(failed)) == ["o/r: FAILED: X: no\n    remedy: do"]


def test_the_exit_code_of_a_whole() -> None:
    fine, differs = Compared(repository=Repository(repository="o/a")), compared()
    differs.pinged.clear()
    bad = Compared(repository=Repository(repository="o/b"), error=SettingsError("no"))
    assert exit_code([fine, differs]) == 0
    assert exit_code([fine, differs], differing=True) == 1
    assert exit_code([fine, differs, bad], differing=True) == 2
    assert exit_code([compared()]) == 1
    assert exit_code([]) == 0
