"""`spyre-ci compare` as it is typed: which runs it finds, what it prints, and what it refuses."""

from __future__ import annotations

import json
import os
import shlex
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ci.cli.app import run
from ci.record.result import Result
from ci.record.verdict import Verdict
from tests.json_documents import differences
from tests.past_runs import record
from tests.unit.report.compare.making import T0, add_catalog, add_setups, identity, results, write_run

ROOT = Path(__file__).parents[3]
NAMES = [f"test_{number % 4}.py::TestA::test_{number}" for number in range(40)]
OLD, NEW = Path("runs/old"), Path("runs/new")


@pytest.fixture(autouse=True)
def _two_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    passed = dict.fromkeys(NAMES, Verdict.PASSED)
    write_run(OLD, results(passed | {NAMES[1]: Verdict.FAILED}, seconds=2.0))
    now = results(passed | {NAMES[0]: Verdict.FAILED, NAMES[2]: Verdict.FLAKY}, seconds=2.2)
    now[9] = replace(now[9], seconds=30.0)
    write_run(NEW, now, device="cpu", started_at=T0 + 86400)
    os.utime(OLD / "run.json", (T0, T0))


def out(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_a_run_is_compared_with_the_one_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "latest-1"]) == 0
    said = out(capsys)
    for line in (
        "base old, new new",
        "differs: device: base spyre, new cpu",
        "1 newly failing",
        f"  {NAMES[0]}: passed in base",
        "1 newly flaky",
        "1 fixed",
        "1 test slower, beyond noise",
        f"  {NAMES[9]}: 30 s instead of 2.2 s (13.64×; base 2.0 s)",
        "the whole run is 1.10× slower",
    ):
        assert line in said, said


def test_which_runs_they_are_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "old", "new"]) == 0
    said = capsys.readouterr()
    assert sum("old" in line and "new" in line for line in (said.out + said.err).splitlines()) == 1


def test_a_message_makes_no_command_of_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    failed = [replace(one, message="##[error]x") for one in results({NAMES[0]: Verdict.FAILED})]
    write_run(Path("runs/odd"), failed)
    for words in (["compare", "old", "odd", "--json"], ["reproduce", NAMES[0], "odd", "--json"]):
        assert run(words) == 0
        said = out(capsys)
        assert "##[" not in said
        assert "##[error]x" in json.dumps(json.loads(said))


@pytest.mark.parametrize(
    "words", [["old", "new"], ["runs/old", str(NEW)], ["latest-1", "latest"], ["latest-1", "latest-0"]]
)
def test_runs_are_named_as_everywhere(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *words]) == 0
    assert "base old, new new" in out(capsys)


def test_an_artifact_is_a_run_too(capsys: pytest.CaptureFixture[str]) -> None:
    add_catalog(OLD, NAMES)
    add_catalog(NEW, [*NAMES, "test_9.py::test_new"])
    add_setups(OLD, dict.fromkeys((f"test_{n}.py" for n in range(12)), 2.0))
    add_setups(NEW, dict.fromkeys((f"test_{n}.py" for n in range(12)), 2.0) | {"test_3.py": 20.0})
    for folder in (OLD, NEW):
        with zipfile.ZipFile(f"{folder.name}.zip", "w") as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, f"ci/{path.relative_to(folder)}")
    assert run(["compare", "old.zip", "new.zip"]) == 0
    said = out(capsys)
    assert "base old (old.zip), new new (new.zip)" in said
    assert "1 added: not in base\n  test_9.py::test_new" in said
    assert "1 file slower to set up, beyond noise\n  test_3.py: 20 s instead of 2.0 s" in said


def test_runs_of_the_same_name_are_told_apart_by_how_they_were_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for where in ("a", "b"):
        write_run(Path(where, "ci"), results(dict.fromkeys(NAMES, Verdict.PASSED)))
    assert run(["compare", "a/ci", "b/ci"]) == 0
    assert "base a/ci, new b/ci" in out(capsys)


def test_a_run_that_was_cut_off_is_refused_with_the_command_that_finishes_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = Path("runs/it's $(off)").resolve()
    NEW.rename(folder)
    (folder / "summary.json").unlink()
    assert run(["compare", "old", str(folder)]) == 2
    said = capsys.readouterr().err
    quoted = shlex.quote(str(folder))
    assert f"`spyre-ci pytorch --resume {quoted}`" in said
    assert f"`spyre-ci report --run-dir {quoted}`" in said


def test_the_check_ends_with_1_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "old", "new", "--check"]) == 1
    assert out(capsys).endswith("check: worse: 1 newly failing, 1 newly flaky\n")
    assert run(["compare", "new", "old", "--check"]) == 1
    write_run(Path("runs/lost"), results(dict.fromkeys(NAMES, Verdict.NOT_RUN)))
    assert run(["compare", "old", "lost", "--check"]) == 3
    assert "check: unknown: 40 tests without an outcome in the new run" in out(capsys)
    write_run(Path("runs/good"), results(dict.fromkeys(NAMES, Verdict.PASSED)))
    assert run(["compare", "old", "good", "--check"]) == 0


def test_json_is_one_document_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "old", "new", "--json", "--check", "--html", "page.html"]) == 1
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert differences("compare", document) == []
    assert document["check"] == {"exit_code": 1, "said": "worse: 1 newly failing, 1 newly flaky"}
    assert document["times"]["slower"]["found"][0]["name"] == NAMES[9]
    assert "check: worse" in said.err
    assert NAMES[9] in Path("page.html").read_text()


def test_markdown_is_printed_alone_and_commands_no_ci(capsys: pytest.CaptureFixture[str]) -> None:
    bad = results({"a.py::t##[error]x": Verdict.FAILED, **dict.fromkeys(NAMES, Verdict.PASSED)})
    write_run(Path("runs/bad"), bad)
    assert run(["compare", "old", "bad", "--markdown"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("#### Compared with `old`\n")
    assert "##[" not in said.out
    assert said.err == ""


def test_tests_that_varied_as_much_before_are_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    history = Path(".spyre-ci/store.sqlite")

    def remember(number: int, seconds: float, moment: float) -> None:
        who = identity(f"past-{number}", run_id=100 + number, started_at=moment)
        record(history, who, [Result(id=NAMES[9], verdict=Verdict.PASSED, seconds=seconds)], {})

    # What it took since says nothing of what was usual.
    for number in range(10, 20):
        remember(number, 40.0, T0 + 3600 + number)
    assert run(["compare", "old", "new"]) == 0
    assert "1 test slower" in out(capsys)
    for number in range(6):
        remember(number, 2.0 if number % 2 else 30.0, T0 - 3600 - number)
    assert run(["compare", "old", "new"]) == 0
    said = out(capsys)
    assert "slower, by more" not in said
    assert "1 test no further off than they vary in the history" in said


def test_a_catalog_that_cannot_be_read_costs_only_what_it_would_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    add_catalog(OLD, NAMES)
    (NEW / "catalog.jsonl.gz").write_bytes(b"no gzip")
    assert run(["compare", "old", "new"]) == 0
    assert "new: its catalog is not used: cannot be unpacked" in out(capsys)


def _cut_off() -> None:
    (NEW / "summary.json").unlink()


def _no_results() -> None:
    (NEW / "results.jsonl.gz").unlink()


def _no_run() -> None:
    for path in NEW.iterdir():
        path.unlink()


def _other_schema() -> None:
    content = json.loads((NEW / "summary.json").read_text())
    (NEW / "summary.json").write_text(json.dumps(content | {"schema": "spyre-ci/summary/2"}))


def _torn() -> None:
    path = NEW / "results.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-40])


def _no_zip() -> None:
    Path("x.zip").write_bytes(b"PK no")


def _empty_zip() -> None:
    with zipfile.ZipFile("x.zip", "w") as archive:
        archive.writestr("readme", "x")


def _escaping_zip() -> None:
    with zipfile.ZipFile("x.zip", "w") as archive:
        archive.writestr("../summary.json", "x")


def _nothing() -> None:
    pass


@pytest.mark.parametrize(
    ("breaking", "words", "code", "message"),
    [
        (_nothing, ["compare", "nowhere", "new"], 2, "there is no run 'nowhere'"),
        (_nothing, ["compare", "latest-2", "new"], 2, "there is no run latest-2: only 2 with summary.json"),
        (_nothing, ["compare", "new", "latest"], 2, "'new' and 'latest' are the same run"),
        (
            _nothing,
            ["compare", "old", "new", "--json", "--markdown"],
            2,
            "both --markdown and --json are given",
        ),
        (_cut_off, ["compare", "old", "new"], 2, "the run has no summary.json: it still runs, was cut off"),
        (_no_results, ["compare", "old", "new"], 2, "the run has no results.jsonl.gz"),
        (_no_run, ["compare", "old", "new"], 2, "there is no summary.json, so this is no run folder"),
        (_other_schema, ["compare", "old", "new"], 2, "schema is 'spyre-ci/summary/2', not"),
        (_torn, ["compare", "old", "new"], 2, "results.jsonl.gz: is truncated"),
        (_no_zip, ["compare", "x.zip", "new"], 2, "x.zip: is no archive that can be read"),
        (_empty_zip, ["compare", "x.zip", "new"], 2, "x.zip: contains no summary.json"),
        (_escaping_zip, ["compare", "x.zip", "new"], 2, "x.zip: contains a path that leads outside"),
    ],
)
def test_what_cannot_be_compared_is_told(
    breaking: Callable[[], None],
    words: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    breaking()
    assert run([*words, "--html", "page.html"]) == code
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == "" or "comparing" in said.out
    assert not Path("page.html").exists()
