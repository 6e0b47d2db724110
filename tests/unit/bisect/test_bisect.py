"""Ends of a history, builders' words, what a run says about a commit, and the texts of a result."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rich.console import Console

from ci.bisect.bisect import choose_ends, exit_code
from ci.bisect.build import BUILDERS, UntestableError, words_of
from ci.bisect.executor import decided
from ci.bisect.record import Candidate, Result, Try
from ci.bisect.report import issue_text, percent, result_lines
from ci.bisect.repository import pull_request
from ci.config import load_settings
from ci.config.bisect_model import Bisect
from ci.core.errors import CommandError
from ci.record.identity import RunIdentity
from ci.record.result import Result as RunResult
from ci.record.verdict import Verdict
from ci.report.history import History, past_outcomes
from ci.runner.child import HOME
from ci.runner.source import Source
from ci.steps.collect import worker_environment
from ci.steps.context import Context
from tests.past_runs import record
from tests.unit.bisect.kit import record_of

SHAS = [f"{one:040x}" for one in range(20)]
NASTY = "@everyone fixes #1 `x` | </code><script>alert(1)</script> ![a](https://e.example/x.png)\n::error::\x1b[31m"


def ends(history: str) -> tuple[int | None, int | None]:
    """`PPFP` over one SHA each; the positions of the ends."""
    good, bad = choose_ends((sha, sign == "P") for sha, sign in zip(SHAS, history, strict=False))
    return SHAS.index(good) if good else None, SHAS.index(bad) if bad else None


@pytest.mark.parametrize(
    ("history", "wanted"),
    [
        ("PPPPFFFF", (3, 4)), ("PPPPPPPPF", (7, 8)), ("PPFFFPP", (0, 2)), ("PPFF", (0, 2)), ("PF", (0, 1)),
        # A pass between failures may be luck.
        ("PPPPPPFPFPFF", (5, 6)), ("PFPFF", (0, 1)),
        ("PPPP", (3, None)), ("FFFF", (None, 0)), ("", (None, None)), ("F", (None, 0)),
    ],
)  # fmt: skip
def test_the_ends_of_a_history(history: str, wanted: tuple[int | None, int | None]) -> None:
    assert ends(history) == wanted


@given(st.text("PF", max_size=14))
def test_a_good_end_comes_before_a_bad_one(history: str) -> None:
    good, bad = ends(history)
    if good is not None and bad is not None:
        assert good < bad
        assert (history[good], history[bad]) == ("P", "F")


def test_only_commits_are_ends() -> None:
    odd = ["", "2.13.0+sha256.0123456789abcdef", "--upload-pack=x", "A" * 40]
    assert choose_ends((one, False) for one in odd) == ("", "")


def test_the_history_is_asked_by_schedule_and_device(tmp_path: Path) -> None:
    path, rows = tmp_path / "h.sqlite", [("nightly-main", "cpu"), ("pr", "cpu"), ("nightly-main", "spyre")]
    for number, (lane, device) in enumerate(rows, start=1):
        identity = RunIdentity(
            run=f"r{number}", run_id=number, run_attempt=1, device=device, pytorch_version="2", stage=1,
            pytorch_sha=SHAS[number], percent=5, started_at=1e9 - number, lane=lane,
        )  # fmt: skip
        result = RunResult(id="a.py::t\udc80", verdict=Verdict.FAILED, attempts=2)
        record(path, identity, [result], {})
    (one,) = past_outcomes(History(path), test="a.py::t\udc80", device="cpu", lane="nightly-main")
    assert (one.sha, one.verdict, one.attempts) == (SHAS[1], "failed", 2)


def test_values_are_put_into_words_and_nowhere_else() -> None:
    values = {"tree": "/t {out}", "out": "/o"}
    command = ["a", "--tree={tree}", "{out}/{tree}", "{other}", "${HOME}", "{{out}}"]
    assert words_of(command, values) == ["a", "--tree=/t {out}", "/o//t {out}", "{other}", "${HOME}", "{/o}"]
    named = Bisect.model_fields["builder"].annotation.__args__  # type: ignore[union-attr]  # a Literal
    assert set(named) == set(BUILDERS)


@pytest.mark.parametrize(
    ("path", "wanted"), [("/wheel:HOME", "/wheel:HOME"), ("/x", "HOME:/x"), ("", "HOME")]
)
def test_workers_import_what_was_built_before_what_is_installed(
    tmp_path: Path, path: str, wanted: str
) -> None:
    context = Context(
        settings=load_settings(path=None, environ={}, flags={}, cwd=tmp_path),
        environ={"PYTHONPATH": path.replace("HOME", str(HOME))},
        clock=lambda: 0.0,
        monotonic=lambda: 0.0,
        console=Console(),
        cores=1,
    )
    source = Source(where=None, tests=tmp_path / "test", version="", sha="")
    assert worker_environment(context, source)["PYTHONPATH"] == wanted.replace("HOME", str(HOME))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"builder": "wheel"}, "needs a `command`"), ({"builder": "image"}, "needs a `command`"),
        ({"confidence": 1}, "less than or equal to 0.9999"), ({"confidence": 0.3}, "greater than"),
        ({"workers": 0}, "greater than"), ({"image": "Up:Case"}, "pattern"),
        ({"command": ["a\0b"]}, "pattern"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Bisect.model_validate(wrong)


@pytest.mark.parametrize("verdict", Verdict)
def test_each_verdict_says_that_the_commit_is_good_or_bad_or_nothing(verdict: Verdict) -> None:
    result = RunResult(id="t", verdict=verdict, message="m")
    if verdict in {Verdict.PASSED, Verdict.XPASSED, Verdict.FAILED, Verdict.XFAILED}:
        assert decided(result, 0, "") is result
    else:
        kind = UntestableError if verdict is Verdict.SKIPPED else CommandError
        with pytest.raises(kind, match="m"):
            decided(result, 3, "")


@pytest.mark.parametrize(
    ("code", "output", "kind", "said"),
    [
        (2, "a\nspyre-ci: no such test\n  remedy: x", UntestableError, "no such test"),
        (3, "spyre-ci: every card is gone", CommandError, "every card is gone"),
        (1, "Traceback\nValueError: x", CommandError, "ValueError: x"), (137, "", CommandError, "no output"),
    ],
)  # fmt: skip
def test_a_run_without_a_result_is_refused_or_a_fault(
    code: int, output: str, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        decided(None, code, output)
    with pytest.raises(CommandError, match="killed"):  # the kernel chose it, perhaps for what another took
        decided(RunResult(id="t", verdict=Verdict.FAILED, cause="oom", message="killed"), 1, "")


@pytest.mark.parametrize(
    ("subject", "wanted"),
    [
        ("Fix (#123)", 123), ("Fix", None), ('Revert "Fix (#1)" (#22)', 22), ('Revert "Fix (#1)"', None),
        ("Fix #12", None), ("Fix (#0)", None), ("Fix (#99999999999)", None),
    ],
)  # fmt: skip
def test_the_pull_request_is_the_one_it_was_merged_by(subject: str, wanted: int | None) -> None:
    assert pull_request(subject) == wanted


@pytest.mark.parametrize(
    ("kind", "sure", "line", "code"),
    [
        ("found", True, "this commit broke the test: 99.5 % (asked for: 99.0 %)", 0),
        ("found", False, "not clear: this commit broke the test", 3),
        ("range", True, "one of these commits broke the test", 3),
        ("never", True, "the test does not fail at the bad end", 1),
        ("before", True, "the test already failed at the good end", 1),
    ],
)  # fmt: skip
def test_a_result_in_words_holds_what_others_wrote_as_data(
    kind: str, sure: bool, line: str, code: int
) -> None:
    told = record_of(63)
    told.test = f"test_a.py::T::{NASTY}```"
    told.tries = [Try(round=2, position=40, passed=False, message=NASTY)]
    told.skipped = {told.commits[3]: NASTY}
    one = Candidate(sha=SHAS[1], authored="2026-01-02", subject=NASTY, pull_request=123)
    result = Result(
        kind=kind, sure=sure, confidence=0.99, probability=0.995, count=2, candidates=[one]  # type: ignore[arg-type]  # a row of the table
    )  # fmt: skip
    lines, text = result_lines(told, result), issue_text(told, result)
    assert lines[0].startswith(line)
    assert exit_code(result) == code
    assert "  … and 1 more" in lines
    assert any(f"{told.commits[40][:12]} 0 passed, 1 failed" in one for one in lines)
    for wanted in (
        SHAS[1],
        "(pull request 123)",
        f"--good {told.commits[0]} --bad {told.commits[-1]}",
        lines[0],
    ):
        assert wanted in text
    bare = re.sub(r"(?s)(`{3,})\w+\n.*?\n\1|<code>.*?</code>|`[^`\n]*`", "", text)
    for bad in ("@everyone", "fixes #1", "<script>", "![a]", "::error", "\x1b"):
        assert bad not in bare, bad
    assert "\x1b" not in text + "".join(lines)


@pytest.mark.parametrize(
    ("chance", "wanted"), [(0.5, "50.0 %"), (1, "100.0 %"), (0.9999999, "more than 99.9 %")]
)
def test_a_probability_is_not_rounded_to_certainty(chance: float, wanted: str) -> None:
    assert percent(chance) == wanted
