"""What run folders tell of a test, and what is made of it on the command line."""

from __future__ import annotations

import gzip
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ci.reproduce.read_evidence as reading
from ci.cli.app import run
from ci.core.errors import EXIT_INCOMPLETE, EXIT_INTERRUPTED, BadFileError, MissingInputError
from ci.record.failure_signature import Failure, compare
from ci.record.identity import read_identity, write_identity
from ci.record.verdict import Verdict
from ci.reproduce.evidence import Evidence
from ci.reproduce.read_evidence import read_evidence
from ci.reproduce.reproduce import exit_code_of, refuse_outside
from ci.reproduce.words import Again, Ran, document, outcome, ran_lines, told_lines
from ci.steps.folder import RunFolder
from test_selection.plan import read_plan, write_plan
from tests.json_documents import differences
from tests.pipeline_runs import report_folder, zipped

ROOT = Path(__file__).parent.parent.parent.parent
OUTCOMES = {"test_0.py::T::good": "passed", "test_0.py::T::bad": "failed", "test_1.py::T::now": "flaky"}
FAILED, PASSED = Failure(verdict=Verdict.FAILED, message="E: x"), Failure(verdict=Verdict.PASSED)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    made = report_folder(tmp_path / "runs" / "ci", OUTCOMES)
    write_plan(made / "plan.json", replace(read_plan(made / "plan.json"), seed=7))
    write_identity(made, replace(read_identity(made), provider="github", run_id=42, run_attempt=3))
    return made


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["reproduce", "--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert differences("reproduce", found) == []
    return found


@pytest.mark.parametrize("named", ["ci", "latest", "runs/ci", "github-42.3"])
def test_a_run_is_found_by_every_name_it_has(
    folder: Path, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, "T::bad", named)
    assert (found["at"], found["ref"]) == (str(folder), "github-42.3")
    assert (found["verdict"], found["message"]) == ("failed", "AssertionError: 1 != 2")


def test_run_and_test_may_stand_the_other_way_round(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "latest", "--", "test_0.py::T::bad")["at"] == str(folder)


def test_an_artifact_is_read_as_data(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "a.zip"
    packed.write_bytes(zipped(folder, below="ci/", extra={"ci/evil.py": b"raise SystemExit"}))
    assert told(capsys, "T::bad", "--from", str(packed))["verdict"] == "failed"
    assert told(capsys, "T::bad", "--from", str(folder.parent))["verdict"] == "failed"
    assert not list(tmp_path.rglob("evil.py"))


def test_an_archive_that_leads_elsewhere_is_refused(folder: Path, tmp_path: Path) -> None:
    packed = tmp_path / "a.zip"
    packed.write_bytes(zipped(folder, extra={"../../evil.json": b"{}"}))
    assert run(["reproduce", "T::bad", "--from", str(packed)]) == 2
    (folder / "source.json").unlink(missing_ok=True)
    (folder / "source.json").symlink_to("/etc/passwd")
    assert run(["reproduce", "T::bad", "--from", str(folder)]) == 2


def test_a_folder_that_lies_elsewhere_than_below_runs_is_a_stranger_s(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = folder.rename(tmp_path / "elsewhere")
    assert told(capsys, "T::bad", str(elsewhere))["at"] == str(elsewhere)
    (elsewhere / "source.json").symlink_to("/etc/passwd")
    assert run(["reproduce", "T::bad", str(elsewhere)]) == 2
    assert "is a link" in capsys.readouterr().err
    # Also where it is a link below `runs` that leads there.
    folder.symlink_to(elsewhere)
    assert run(["reproduce", "T::bad", "ci"]) == 2


@pytest.mark.parametrize("name", ["results.jsonl.gz", "catalog.jsonl.gz"])
def test_what_unpacks_to_more_than_agreed_is_refused_before_it_is_read(
    folder: Path,
    tmp_path: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(reading, "MAX_PLAIN", 1 << 22)
    (folder / name).write_bytes(gzip.compress(b"{}\n" + b'{"a": 1}\n' * (1 << 19)))
    packed = tmp_path / "a.zip"
    packed.write_bytes(zipped(folder))
    for words in (["--from", str(packed)], ["--from", str(folder)]):
        assert run(["reproduce", "T::bad", *words]) == 2
        assert "has more than 4,194,304 bytes" in capsys.readouterr().err
    # One's own run is read as it is.
    assert run(["reproduce", "T::bad", "ci"]) == (0 if name.startswith("catalog") else 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["T::bad", "nothing"], "there is no run 'nothing'"),
        (["T::bad", "github-1.1"], "give --from FILE"),
        (["T::bad", "https://github.com/o/r/pull/1"], "is no page of a run"),
        (["bad", "http://[::1]:8000/jobs"], "http://[::1]:8000/jobs is no page of a run"),
        (["T::bad", "latest", "--from", "x.zip"], "both RUN 'latest' and --from x.zip"),
        (["T::bad", "--from", "x.zip"], "there is no such archive"),
        (["T::bad", "--from", "."], "holds no run.json"),
        (["T::bad", "latest", "--attempt", "9"], "no attempt 9"),
        (["T::bad", "--tries", "3"], "--tries without --run"),
        (["T::bad", "--with-before"], "--with-before without --run"),
        (["T::bad", "--image", "x"], "--image without --shell"),
        (["T::bad", "--shell", "--run"], "and --run are given"),
        (["T::bad", "--shell", "ci"], "is none of image.repository, which is not set"),
        (["nonsense", "--seed", "7"], "is not a test id"),
        (["T::bad", "--seed", "-1"], "run.seed"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_cannot_be_done_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.usefixtures("folder")
def test_a_shell_that_is_never_opened_leaves_no_copy(tmp_path: Path) -> None:
    assert run(["reproduce", "T::bad", "--shell", "ci"]) == 2
    assert list((tmp_path / ".spyre-ci" / "reproduce").iterdir()) == []


@pytest.mark.usefixtures("folder")
def test_a_line_whose_run_is_elsewhere_says_enough(capsys: pytest.CaptureFixture[str]) -> None:
    name = "test_9.py::T::x"
    found = told(capsys, "--seed", "7", "--attempt", "2", "--device", "cpu", "--", name, "github-9.1")
    assert (found["id"], found["run"], found["attempt"], found["device"]) == (name, None, 2, "cpu")
    assert any("nothing to compare with" in note for note in found["notes"])


def test_a_device_that_is_none_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_identity(folder, replace(read_identity(folder), device="../../x"))
    assert run(["reproduce", "T::bad", "ci"]) == 2
    assert "the run's device is '../../x'" in capsys.readouterr().err
    assert run(["reproduce", "T::bad", "ci", "--device", "cpu"]) == 0


def test_what_lies_elsewhere_than_our_runs_is_a_stranger_s(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = folder.rename(tmp_path / "fetched")
    assert run(["reproduce", "--run", "T::bad", str(moved)]) == 2
    assert "which a stranger names" in " ".join(capsys.readouterr().err.split())
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize("file", ["../evil.py", "/etc/x.py", "a/../../x.py", "x.sh", "a\0.py"])
def test_a_file_that_is_none_of_the_tree_s_is_refused(tmp_path: Path, file: str) -> None:
    with pytest.raises(BadFileError, match="is no test file of the tree"):
        refuse_outside(tmp_path, file, "")


def test_a_link_out_of_the_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.py").symlink_to("/etc/passwd")
    with pytest.raises(BadFileError):
        refuse_outside(tmp_path, "x.py", "")
    refuse_outside(tmp_path, "sub/test_y.py", "")


@pytest.mark.parametrize(
    ("ends", "known", "word", "code"),
    [
        ([FAILED], FAILED, "reproduced", 1),
        ([PASSED, FAILED], FAILED, "reproduced", 1),
        ([PASSED], FAILED, "not reproduced", 0),
        ([PASSED], PASSED, "not reproduced", 0),
        ([FAILED], PASSED, "failed", 1),
        ([FAILED], None, "failed", 1),
        ([replace(FAILED, message="E: y")], FAILED, "failed differently", 1),
        ([replace(FAILED, verdict=Verdict.HARDWARE)], FAILED, "failed differently", EXIT_INCOMPLETE),
        ([Failure(verdict=Verdict.NOT_RUN)], FAILED, "no outcome", EXIT_INCOMPLETE),
        ([PASSED, Failure(verdict=Verdict.INFRASTRUCTURE)], FAILED, "no outcome", EXIT_INCOMPLETE),
        ([Failure(verdict=Verdict.SKIPPED)], FAILED, "not reproduced", 0),
        ([], FAILED, "no outcome", EXIT_INCOMPLETE),
    ],
)
def test_what_came_of_it_is_one_word_and_one_code(
    ends: list[Failure], known: Failure | None, word: str, code: int
) -> None:
    tries = tuple(Again(end=one, differs="" if known is None else compare(known, one)) for one in ends)
    found = Evidence(id="a", end=known)
    ran = Ran(folder="/r", tries=tries, exit_code=exit_code_of(tries))
    assert (outcome(found, ran), ran.exit_code) == (word, code)
    assert ran_lines(found, ran)[-1].startswith(f"{word}: ")
    assert differences("reproduce", document(found, ran, ())) == []


def test_nothing_of_a_hostile_test_moves_a_terminal() -> None:
    end = Failure(verdict=Verdict.FAILED, message="\x1b[2J::error::\nx", cause="\x1b")
    found = Evidence(id="a\x1b]0;x\x07", run="\x1b[1m", at="\x1b", end=end, source="\x1b", image="\x1b")
    ran = Ran(folder="/r", tries=(Again(end=end, differs="\x1b"),), exit_code=1)
    for line in [*told_lines(found), *ran_lines(found, ran), found.command]:
        assert "\x1b" not in line
        assert "\n" not in line


def test_a_folder_of_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=r"neither run\.json nor a summary"):
        read_evidence(RunFolder(path=tmp_path), "x", attempt=0, own=True, at="x")


def test_a_zip_that_is_none_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.zip").write_bytes(b"PK")
    assert run(["reproduce", "x", "--from", "a.zip"]) == 2
    with zipfile.ZipFile("b.zip", "w") as archive:
        archive.writestr("x", "y")
    assert run(["reproduce", "x", "--from", "b.zip"]) == 2


def test_a_try_that_somebody_ended_says_nothing_of_the_failure() -> None:
    passed = Again(end=PASSED, differs="x")
    for tries in ((), (passed,)):
        ran = Ran(folder="/r", tries=tries, exit_code=EXIT_INTERRUPTED)
        assert outcome(Evidence(id="a", end=FAILED), ran) == "interrupted"
        assert "it did not fail" not in ran_lines(Evidence(id="a", end=FAILED), ran)[-1]
