"""The quarantine file: what it may say, what it covers, and how its entries fare in a run."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import MissingInputError, SettingsError
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.quarantine import MAX_DAYS, Quarantine, day_of, load_quarantine
from ci.report.quarantine_note import QuarantineNote, quarantine_results
from test_selection.files import convert

A, B, C = "a.py::T::one[dtype=int8,op=add]", "a.py::T::two", "sub/b.py::T::one"
LAST = "2026-03-31"
TODAY = date(2026, 3, 1)
GOOD = {"reason": "a  known\nflake", "issue": "https://e.test/1", "owner": "@kernels", "expires": LAST}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    file = path / "quarantine.yaml"
    file.write_text(yaml.safe_dump({"quarantine": [{**GOOD, **row} for row in rows]}), encoding="utf-8")
    return file


def load(path: Path, *rows: dict[str, Any]) -> Quarantine:
    return load_quarantine(write(path, *rows), today=TODAY)


def result(name: str, verdict: Verdict = Verdict.FAILED) -> Result:
    return Result(id=name, verdict=verdict, file=name.partition("::")[0], attempts=1)


def fare(
    quarantine: Quarantine, *results: Result, today: date = date(2026, 3, 31), catalog: Any = None
) -> tuple[dict[str, Result], QuarantineNote]:
    marked, note = quarantine_results(results, quarantine, today=today, catalog=catalog)
    assert [one.id for one in marked] == [one.id for one in results]
    assert [one.verdict for one in marked] == [one.verdict for one in results]
    return {one.id: one for one in marked}, note


def states(note: QuarantineNote) -> list[str]:
    return [one.state for one in note.entries]


def test_an_entry_covers_a_test_by_its_id_and_by_a_pattern_over_it(tmp_path: Path) -> None:
    found = load(tmp_path, {"test": A}, {"pattern": "a.py::T::*"}, {"pattern": "/^sub/"}).covering([A, B, C])
    assert {name: [one.named for one in entries] for name, entries in found.items()} == {
        A: [A, "a.py::T::*"], B: ["a.py::T::*"], C: ["/^sub/"],
    }  # fmt: skip


def test_a_pattern_is_a_glob_over_the_whole_id(tmp_path: Path) -> None:
    quarantine = load(tmp_path, {"pattern": "T::two"}, {"pattern": "*::one"}, {"pattern": "**::one"})
    assert {name: [one.named for one in got] for name, got in quarantine.covering([A, B, C]).items()} == {
        C: ["**::one"]
    }


def test_a_mark_says_why_where_who_and_until_when(tmp_path: Path) -> None:
    found, _ = fare(load(tmp_path, {"test": A}), result(A))
    assert str(found[A].quarantine) == f"a known flake (https://e.test/1, @kernels, until {LAST})"
    assert getattr(found[A].quarantine, "where", None) == "quarantine.yaml:2"


@pytest.mark.parametrize("day", [LAST, date(2026, 3, 31)])
def test_a_day_may_be_quoted_or_not(tmp_path: Path, day: object) -> None:
    (entry,) = load(tmp_path, {"test": A, "expires": day}).entries
    assert entry.expires == date(2026, 3, 31)


def test_an_entry_protects_through_its_last_day(tmp_path: Path) -> None:
    quarantine = load(tmp_path, {"test": A})
    found, note = fare(quarantine, result(A))
    assert (found[A].forgiven, note.forgiven, note.expired) == (True, 1, ())
    found, note = fare(quarantine, result(A), today=date(2026, 4, 1))
    assert (found[A].forgiven, note.forgiven, note.expired) == (False, 0, ("quarantine.yaml:2",))


def test_a_day_is_one_of_utc() -> None:
    assert day_of(0.0) == date(1970, 1, 1)
    assert day_of(86_399.9) == date(1970, 1, 1)


def test_an_entry_that_holds_protects_where_another_has_expired(tmp_path: Path) -> None:
    quarantine = load(tmp_path, {"test": A, "expires": "2020-01-01"}, {"pattern": "a.py::**", "owner": "me"})
    found, note = fare(quarantine, result(A))
    assert getattr(found[A].quarantine, "owner", None) == "me"
    assert states(note) == ["expired", "holds"]


def test_an_expired_entry_that_covers_nothing_of_the_run_does_not_redden(tmp_path: Path) -> None:
    _, note = fare(load(tmp_path, {"test": A, "expires": "2020-01-01"}), result(B))
    assert (states(note), note.expired) == (["expired"], ())


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        (Verdict.PASSED, "passing"), (Verdict.FAILED, "holds"), (Verdict.FLAKY, "holds"),
        (Verdict.XFAILED, "holds"), (Verdict.SKIPPED, "idle"), (Verdict.NOT_RUN, "idle"),
        (Verdict.HARDWARE, "idle"), (Verdict.INFRASTRUCTURE, "idle"),
    ],
)  # fmt: skip
def test_what_an_entry_is_told_of_hangs_on_what_its_tests_came_to(
    tmp_path: Path, verdict: Verdict, state: str
) -> None:
    _, note = fare(load(tmp_path, {"test": A}), result(A, verdict))
    assert states(note) == [state]


def test_only_a_failure_is_forgiven(tmp_path: Path) -> None:
    quarantine = load(tmp_path, {"pattern": "a.py::**"})
    forgiven = {one: fare(quarantine, result(A, one))[0][A].forgiven for one in Verdict}
    assert [one for one, so in forgiven.items() if so] == [Verdict.FAILED]


def test_an_entry_is_passing_only_where_all_it_covers_passed(tmp_path: Path) -> None:
    quarantine = load(tmp_path, {"pattern": "a.py::**"})
    assert states(fare(quarantine, result(A, Verdict.PASSED), result(B))[1]) == ["holds"]
    both = [result(A, Verdict.PASSED), result(B, Verdict.PASSED)]
    assert states(fare(quarantine, *both)[1]) == ["passing"]


def test_an_entry_that_names_no_test_is_told_where_its_file_was_collected(tmp_path: Path) -> None:
    quarantine = load(
        tmp_path, {"test": "a.py::T::gone"}, {"test": "z.py::gone"}, {"pattern": "y/*"}, {"test": C}
    )
    _, note = fare(quarantine, result(A), catalog=lambda: {A, B, C})
    assert states(note) == ["unmatched", "idle", "unmatched", "idle"]
    assert states(fare(quarantine, result(A))[1]) == ["idle"] * 4
    assert states(fare(quarantine, result(A), catalog=lambda: None)[1]) == ["idle"] * 4


def test_the_catalog_is_not_asked_for_where_every_entry_covers_something(tmp_path: Path) -> None:
    def refuse() -> set[str]:
        raise AssertionError

    fare(load(tmp_path, {"test": A}), result(A), catalog=refuse)


def test_the_note_comes_back_from_a_file(tmp_path: Path) -> None:
    _, note = fare(load(tmp_path, {"test": A}, {"pattern": "/xyz/"}), result(A))
    assert note is not None
    assert convert(json.loads(json.dumps(asdict(note))), QuarantineNote, where="x", remedy="") == note


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"tset": A}, ["unknown key 'tset'", "did you mean 'test'?"]),
        ({}, ["neither test nor pattern", "give it one"]),
        ({"test": A, "pattern": "x"}, ["both test and pattern"]),
        ({"test": "no id"}, ["'no id' is not a test id", "use `pattern`"]),
        ({"test": 3}, ["test is 3, not text"]),
        ({"pattern": "/(/"}, ["'/(/' is not a regular expression", "fix the pattern"]),
        ({"pattern": ""}, ["pattern is '', not text"]),
        ({"pattern": "**"}, ["'**' covers every test", "name a file"]),
        ({"pattern": "/.*/"}, ["covers every test"]),
        (
            {"test": A, "expires": "2026-08-29"},
            [
                "expires is 2026-08-29, 181 days from 2026-03-01 on",
                "a day up to 2026-08-28, 180 days on",
            ],
        ),
        ({"test": A, "expires": date(9999, 12, 31)}, ["expires is 9999-12-31, 2,912,"]),
        ({"test": A, "reason": None}, ["reason is None"]),
        ({"test": A, "owner": " "}, ["owner is ' '"]),
        ({"test": A, "issue": "#17"}, ["issue is '#17', not a web address"]),
        ({"test": A, "issue": "javascript:alert(1)"}, ["not a web address"]),
        ({"test": A, "expires": "soon"}, ["expires is 'soon', not a day", "write it as 2026-12-31"]),
        ({"test": A, "expires": "2026-06-31"}, ["expires is '2026-06-31', not a day"]),
        ({"test": A, "expires": None}, ["expires is None"]),
        ({"test": A, "expires": 20260101}, ["expires is 20260101"]),
        ({"test": A, "expires": "20260101"}, ["expires is '20260101'"]),
    ],
)
def test_what_cannot_be_taken_is_told_with_its_line_and_the_remedy(
    tmp_path: Path, row: dict[str, Any], said: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, row)
    assert caught.value.where is not None
    assert caught.value.where.startswith(f"{tmp_path}/quarantine.yaml:")
    assert caught.value.remedy
    for text in said:
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("quarantine: {}\n", ":1: quarantine is {}, not a list"),
        ("quarantine: [x]\n", ":1: quarantine holds 'x', not a table of keys"),
        ("entries: []\n", ":1: unknown key 'entries'"),
        ("- x\n", ":1: holds a list, not a table of keys"),
        (
            "quarantine:\n- expires: 2026-06-31\n",
            ":2: '2026-06-31' is not a date: day is out of range for month",
        ),
        (
            "quarantine:\n- expires: 2026-01-01T10:00:00\n  test: a.py::x\n",
            ":2: expires is '2026-01-01T10:00:00'",
        ),
        ("a: [", "is not YAML"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "q.yaml").write_text(text)
    with pytest.raises(SettingsError, match=r"q\.yaml") as caught:
        load_quarantine(tmp_path / "q.yaml", today=TODAY)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "test_*",
        "*::*",
        "**::*",
        "**::test_*",
        "*::Test*",
        "**[[]*",
        "*dtype=float16*",
        "**float*",
        "test_[m-z]*",
        "**/**",
        "*.py::*",
        "?*",
        "/./",
        "/test_/",
        "/^test/",
        "/::/",
        "/a|e/",
        "/dtype=/",
        "/_[a-m]/",
        "/(?i)TEST/",
    ],
)
def test_a_pattern_over_tests_that_have_nothing_in_common_is_refused_and_told(
    tmp_path: Path, pattern: str
) -> None:
    with pytest.raises(
        SettingsError, match=r"covers (every test|tests that have nothing in common)"
    ) as caught:
        load(tmp_path, {"pattern": pattern})
    assert pattern in str(caught.value)
    assert "name a file, class or template" in str(caught.value)


def test_the_two_tests_that_a_wide_pattern_covers_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, {"pattern": "test_[tuv]*"})
    assert (
        "such as test_unary_ufuncs.py::TestUnaryUfuncs::test_nan_to_num[dtype=bfloat16] and "
        "test_view_ops.py::TestOldViewOps::test_transpose_vs_numpy[dtype=float16]"
    ) in str(caught.value)


@pytest.mark.parametrize(
    "pattern",
    [
        "test_ops.py::*",
        "**/test_ops.py::*",
        "distributed/**",
        "**::TestCommon::*",
        "*::TestLinalg::test_inverse*",
        "**::test_out[[]*",
        "**op=kron*",
        "/TestOpInfo::test_.*_grad/",
        "/^test_torch\\.py::/",
        "/Conv[123]d/",
    ],
)
def test_a_pattern_of_one_file_class_template_or_operator_is_taken(tmp_path: Path, pattern: str) -> None:
    (entry,) = load(tmp_path, {"pattern": pattern}).entries
    assert entry.named == pattern


def test_the_last_day_may_be_as_far_as_it_may(tmp_path: Path) -> None:
    (entry,) = load(tmp_path, {"test": A, "expires": "2026-08-28"}).entries
    assert (entry.expires - TODAY).days == MAX_DAYS


def test_a_catastrophic_pattern_neither_holds_up_the_reading_nor_the_report(tmp_path: Path) -> None:
    long = f"a.py::T::{'x' * 5000}!"
    quarantine = load(tmp_path, {"pattern": "/(x+x+)+y/"}, {"pattern": "*x*x*x*x*x*x*x*x*x*x*y"})
    assert quarantine.covering([long]) == {}


def test_an_entry_that_stands_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, {"test": A}, {"test": B}, {"test": A})
    assert f"test {A!r} is listed twice, first at quarantine.yaml:2" in str(caught.value)


def test_an_empty_file_quarantines_nothing_and_a_missing_one_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")
    assert load_quarantine(tmp_path / "empty.yaml", today=TODAY).entries == ()
    with pytest.raises(MissingInputError):
        load_quarantine(tmp_path / "none.yaml", today=TODAY)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("q") / "q.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load_quarantine(path, today=TODAY)
    except SettingsError as error:
        assert error.remedy  # noqa: PT017  # either may happen
