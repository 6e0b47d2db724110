"""Texts of journals are cut to what a report can hold, and say where they are whole."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ci.record.events import CardLost, End, Start
from ci.record.excerpts import LAST_CHARS, LONGEST, TOTAL, Excerpts
from ci.record.journal import journal_path, read_journals
from ci.record.journal_line import line_of
from tests.journal_rows import rows_of

MOST = LONGEST["detail"]


def failure(number: int, detail: str) -> End:
    return End(t=1.0 + number, id=f"a.py::t{number}", outcome="failed", detail=detail)


def kept_of(excerpts: Excerpts, event: End, where: str = "j") -> str:
    excerpts.cut(event, where)
    return event.detail


def test_a_text_that_is_too_long_keeps_its_head_and_its_tail() -> None:
    text = "first line\n" + "x" * 100_000 + "\nlast line"
    kept = kept_of(Excerpts(), failure(0, text), "journal/0-1.jsonl")
    assert kept.startswith("first line\nxxx")
    assert kept.endswith("xxx\nlast line")
    cut = len(text) - MOST
    assert f"\n[{cut:,} characters cut; the full text is in journal/0-1.jsonl]\n" in kept
    assert MOST < len(kept) < MOST + 100


def test_a_message_is_cut_too_and_an_event_without_any_stays() -> None:
    event = CardLost(message="m" * 10_000)
    Excerpts().cut(event, "j")
    assert len(event.message) < LONGEST["message"] + 100
    assert Excerpts().cut(Start(id="a"), "j") == Start(id="a")


def test_beyond_the_total_only_the_last_lines_are_kept() -> None:
    excerpts = Excerpts(room=1500)
    kept = [kept_of(excerpts, failure(n, "a\n" * 400 + f"the end of {n}")) for n in range(4)]
    assert kept[0] == "a\n" * 400 + "the end of 0"
    assert kept[1:] == [
        f"[796 characters cut; the full text is in j]\na\na\nthe end of {n}" for n in range(1, 4)
    ]


@given(st.lists(st.text(max_size=400) | st.builds(lambda n: "y" * n, st.integers(0, 40_000)), max_size=20))
def test_all_texts_together_have_a_bounded_length(texts: list[str]) -> None:
    excerpts = Excerpts(room=20_000)
    kept = [kept_of(excerpts, failure(n, text)) for n, text in enumerate(texts)]
    assert sum(map(len, kept)) <= 20_000 + len(kept) * (LAST_CHARS + 100)
    for text, short in zip(texts, kept, strict=True):
        assert short == text or len(text) > LAST_CHARS


def write(path: Path, events: list[End]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(line_of, events)))


def test_the_journals_of_a_run_share_one_room_in_their_order_and_stay_whole_on_disk(tmp_path: Path) -> None:
    each = TOTAL // MOST // 2 + 100
    for shard in (1, 0):
        write(journal_path(tmp_path, shard, 1), [failure(n, "z" * MOST) for n in range(each)])
    before = [path.read_bytes() for path in sorted((tmp_path / "journal").iterdir())]
    first, second = read_journals(tmp_path)
    lengths = [[len(event["detail"]) for event in rows_of(one.events)] for one in (first, second)]
    assert set(lengths[0]) == {MOST}
    assert lengths[1][0] == MOST
    assert lengths[1][-1] < LAST_CHARS + 100
    assert sum(map(sum, lengths)) < TOTAL + 2 * each * (LAST_CHARS + 100)
    assert "the full text is in journal/1-1.jsonl" in rows_of(second.events)[-1]["detail"]
    assert [path.read_bytes() for path in sorted((tmp_path / "journal").iterdir())] == before


def test_of_a_message_the_beginning_is_kept_by_which_decisions_are_made() -> None:
    text = "[XPASS(strict)] " + "because " * 100
    event = CardLost(message=text)
    Excerpts(room=0).cut(event, "0-1.jsonl")
    kept = event.message
    assert kept.startswith("[XPASS(strict)] because")
    assert "characters cut; the full text is in 0-1.jsonl" in kept
