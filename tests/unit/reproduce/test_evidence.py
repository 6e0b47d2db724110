"""What run folders and artifacts know of a test, and what is made of it on the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.cli.app import run
from ci.record.identity import read_identity, write_identity
from ci.record.journal import Journal
from ci.record.reproduction import FILE, KIND, content_of
from ci.record.verdict import Verdict
from ci.reproduce.evidence import chosen, tries_of
from test_selection.files import write_json
from test_selection.plan import read_plan, write_plan
from tests.journal_rows import events_from
from tests.pipeline_runs import report_folder, zipped

OUTCOMES = {"test_0.py::T::good": "passed", "test_0.py::T::bad": "failed", "test_1.py::T::now": "flaky"}
START: dict[str, Any] = {
    "e": "shard_start", "card": "spyre:0", "back_end": "b", "torch": "2.13.0", "python": "3.12.1", "seed": 7,
    "image": "", "environ": {"OMP_NUM_THREADS": "1"}, "threads": 2,
}  # fmt: skip
GROUP = {"e": "group_start", "file": "a.py"}
EVENTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["e", "id", "seed", "try", "as", "outcome", "cause", "message", "environ", "threads"]),
    st.sampled_from(
        ["start", "end", "crash", "shard_start", "group_start", "a", None, 3, -1, [], {}, {"A": "b"}, 2**70]
    ),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CI's run below the folder of runs, and one in which a test of it was reproduced."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    made = report_folder(tmp_path / "runs" / "ci", OUTCOMES)
    write_plan(made / "plan.json", replace(read_plan(made / "plan.json"), seed=7))
    again = tmp_path / "runs" / "again"
    again.mkdir()
    write_json(again / FILE, KIND, content_of("t", "ci", None))
    for one in (made, again):
        identity = replace(read_identity(made), provider="github", run_id=42, run_attempt=3)
        write_identity(one, identity)
    return made


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["reproduce", "--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    "words",
    [
        ["T::bad", "ci"], ["T::bad", "latest"], ["T::bad", "runs/ci"],
        ["latest", "--", "test_0.py::T::bad"], ["T::bad"], ["T::bad", "a.zip"],
    ],
)  # fmt: skip
def test_a_run_is_found_by_every_name_it_has(
    folder: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    packed = zipped(folder, below="ci/", extra={"ci/evil.py": b"raise SystemExit"})
    Path("a.zip").write_bytes(packed)
    found = told(capsys, *words)
    assert found["at"] == ("a.zip" if "a.zip" in words else str(folder))
    assert (found["id"], found["verdict"]) == ("test_0.py::T::bad", "failed")
    assert found["failure"]["message"] == "AssertionError: 1 != 2"
    assert not list(Path.cwd().rglob("evil.py"))
    assert list(Path(".spyre-ci/reproduce").glob("*")) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["T::bad", "nothing"], "there is no run 'nothing'"),
        (["T::bad", "github-1.1"], "there is no run 'github-1.1'"),
        (["T::bad", "."], "there is no summary.json"),
        (["T::bad", "latest", "--attempt", "9"], "no attempt 9"),
        (["T::bad", "--tries", "3", "--pdb"], "--run and --pdb are given"),
        (["T::good", "--with-before"], "nothing ran before the test"),
        (["T::bad", "--image", "x", "--run"], "--run and --shell are given"),
        (["T::bad", "--shell", "--run"], "--run and --shell are given"),
        (["T::bad", "--shell", "ci"], "is not from image.repository, which is not set"),
        (["T::bad", "--shell", "--image", "-v/:/host"], "is not an image"),
        (["nonsense", "--seed", "7"], "is not a test id"),
        (["T::bad", "--seed", "-1"], "run.seed"),
        (["T::bad", "elsewhere.zip"], "contains a path that leads outside"),
        (["T::bad", "broken.zip"], "is no archive that can be read"),
        (["--run", "T::bad", "moved"], "which only an untrusted file says"),
    ],
)
def test_what_cannot_be_done_is_refused(
    folder: Path,
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("elsewhere.zip").write_bytes(zipped(folder, extra={"../../evil.json": b"{}"}))
    Path("broken.zip").write_bytes(b"PK")
    if "moved" in words:  # a folder elsewhere than below `runs` is untrusted, too
        folder.rename("moved")
    assert run(["reproduce", *words]) == 2
    captured = capsys.readouterr()
    assert said in " ".join(captured.err.split())
    assert "remedy: " in captured.err
    assert list(Path(".spyre-ci/reproduce").glob("*")) == []  # nothing is left of a shell or an archive


@pytest.mark.usefixtures("folder")
def test_a_line_whose_run_is_elsewhere_says_enough(capsys: pytest.CaptureFixture[str]) -> None:
    name = "test_9.py::T::x"
    found = told(capsys, "--seed", "7", "--attempt", "2", "--device", "cpu", "--", name, "github-9.1")
    assert (found["id"], found["at"], found["attempt"], found["device"]) == (name, "", 2, "cpu")
    assert any("no failure to compare with" in note for note in found["notes"])


def test_a_device_that_is_not_a_name_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    summary["identity"]["device"] = "../../x"
    (folder / "summary.json").write_text(json.dumps(summary))
    assert run(["reproduce", "T::bad", "ci"]) == 2
    assert "the run's device is '../../x'" in capsys.readouterr().err
    assert run(["reproduce", "T::bad", "ci", "--device", "cpu"]) == 0


def journal(*events: dict[str, Any]) -> Journal:
    return Journal(path=Path("0-1.jsonl"), shard=0, attempt=1, events=events_from(events))


def start(name: str, **more: Any) -> dict[str, Any]:
    return {"e": "start", "id": name, **more}


def end(name: str, outcome: str = "passed", **more: Any) -> dict[str, Any]:
    return {"e": "end", "id": name, "outcome": outcome, **more}


def test_a_try_is_told_with_its_seed_its_worker_and_what_ran_before_it() -> None:
    (found,) = tries_of(
        "c",
        [
            journal(
                START, GROUP, start("z"), end("z"), GROUP, start("a"), end("a"),
                start("b", **{"as": 3}), end("b"), start("c", seed=5), end("c", "failed", message="x"),
            )
        ],
    )  # fmt: skip
    assert (found.one.seeded_as, found.one.seed, found.before) == (1, 5, (("a", 1), ("b", 3)))
    assert (found.failure.verdict, found.failure.message, found.failure.bad) == (Verdict.FAILED, "x", True)
    assert (found.worker.card, found.worker.threads, found.worker.seed) == ("spyre:0", 2, 7)


def test_a_crash_a_card_s_fault_and_a_lost_worker_are_told_apart() -> None:
    crash = {"e": "crash", "id": "a", "cause": "signal", "message": "SIGSEGV"}
    fault = {"e": "crash", "id": "a", "cause": "hardware", "message": "reset"}
    lost = {"e": "worker_lost", "id": "a", "message": "killed"}
    found = tries_of(
        "a", [journal(START, GROUP, start("a"), crash, GROUP, start("a"), fault, start("a"), lost)]
    )
    assert [(one.failure.verdict.value, one.failure.cause) for one in found] == [
        ("failed", "signal"), ("hardware", ""), ("infrastructure", "")
    ]  # fmt: skip
    assert found[1].before == ()  # a crash is the end of its process


def test_the_last_try_that_failed_is_reproduced_unless_another_is_named() -> None:
    found = tries_of(
        "a", [journal(START, start("a"), end("a", "failed"), start("a", **{"try": 2}), end("a"))]
    )
    one, two = chosen(found, 0), chosen(found, 2)
    assert one is not None
    assert two is not None
    assert (one.one.seeded_as, two.one.seeded_as) == (1, 2)
    assert chosen(found, 3) is None
    assert chosen([], 0) is None


@given(st.lists(EVENTS))
def test_whatever_a_journal_holds_it_is_read(events: list[dict[str, Any]]) -> None:
    for found in tries_of("a", [journal(*events)]):
        assert found.one.seeded_as >= 1
        assert found.one.seed is None or 0 <= found.one.seed < 2**32
