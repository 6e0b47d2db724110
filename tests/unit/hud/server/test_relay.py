"""What signed requests were answered, for as long as their signatures hold."""

from __future__ import annotations

from pathlib import Path

from ci.hud.hmac_auth import WINDOW_S
from ci.hud.server.relay import answered, note_answer
from ci.store.store import Store

NOW = 1_785_000_000.0


def test_an_answer_is_known_again_after_a_restart_and_by_another_process(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "hud.sqlite"), Store(tmp_path / "hud.sqlite")
    with first.transaction() as connection:
        assert answered(connection, "s") is None
        note_answer(connection, "s", {"ok": True}, at=NOW)
    first.close()
    with second.transaction() as connection:
        assert answered(connection, "s") == {"ok": True}
        assert answered(connection, "") is None
        note_answer(connection, "", {"ok": True}, at=NOW)
        assert answered(connection, "") is None
    second.close()


def test_answers_are_forgotten_once_no_signature_of_then_can_hold(tmp_path: Path) -> None:
    store = Store(tmp_path / "hud.sqlite")
    for at in range(0, 4 * WINDOW_S, 10):
        with store.transaction() as connection:
            note_answer(connection, f"s{at}", at, at=NOW + at)
            # Dated ahead by the window, it still holds two windows after it came.
            assert answered(connection, f"s{max(0, at - 2 * WINDOW_S)}") is not None
            (kept,) = connection.execute("SELECT count(*) FROM signed_request").fetchone()
            assert kept <= 2 * WINDOW_S / 10 + 1
    store.close()
