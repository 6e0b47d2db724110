"""Workers as processes of their own, with runs that are."""

from __future__ import annotations

from tests.integration.lanes.desk import Desk, lane


def test_what_is_due_runs_once_and_is_in_the_history(desk: Desk) -> None:
    desk.lanes(good=lane("code-0"))
    code, out, said = desk.call("run", "--once")
    assert (code, said) == (0, "")
    (begun,) = desk.begun()
    assert (begun["session"], begun["cwd"]) == ("code-0", str(desk.folder))
    (run,) = desk.history()
    assert (run["lane"], run["standing"], run["attempts"][0]["exit_code"]) == ("good", "passed", 0)
    print(out)
