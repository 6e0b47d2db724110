from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.core.errors import BadFileError
from ci.webhooks.heads import Head, Note
from ci.webhooks.poll_state import Page, PollerBusyError, StateFile, working_alone


def test_a_state_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "deep" / "polls.json")
    one = file.state.of("o/r")
    one.pages["p"] = Page(etag='W/"x"', more=False, heads=(Head(sha="a" * 40, branch="main", number=3),))
    one.known["pull_requests"] = {"a" * 40: Note(how="started", gone_at=5)}
    file.write()
    assert StateFile(tmp_path / "deep" / "polls.json").state == file.state


def test_what_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "polls.json"
    file = StateFile(path)
    file.write()
    path.unlink()
    file.write()
    assert not path.exists()
    file.state.of("o/r")
    file.write()
    assert path.exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "cannot be read as JSON"),
        ('{"schema": "spyre-ci/plan/1"}', "schema is 'spyre-ci/plan/1'"),
        (
            '{"schema": "spyre-ci/polls/1", "repositories": {"o/r": {"known": {"branches": {"a": {}}}}}}',
            "is no state of a poller: repositories.o/r.known.branches.a.how: Field required",
        ),
        ('{"schema": "spyre-ci/polls/1", "x": 1}', "is no state of a poller: x: Extra inputs"),
    ],
)
def test_a_file_that_holds_something_else_is_not_overwritten(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "polls.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadFileError, match=told):
        StateFile(path)
    assert path.read_text(encoding="utf-8") == text


def test_the_file_says_its_schema(tmp_path: Path) -> None:
    StateFile(tmp_path / "polls.json").write()
    assert json.loads((tmp_path / "polls.json").read_text(encoding="utf-8"))["schema"] == "spyre-ci/polls/1"


def test_two_pollers_do_not_work_with_one_state(tmp_path: Path) -> None:
    path = tmp_path / "polls.json"
    with working_alone(path):
        with pytest.raises(PollerBusyError, match="another poller is at work") as caught, working_alone(path):
            pass
        assert caught.value.exit_code == 3
        with working_alone(tmp_path / "other.json"):
            pass
    with working_alone(path):
        pass
