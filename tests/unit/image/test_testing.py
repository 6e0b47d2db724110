"""What is said of tests by their results and by the way their container ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET  # files of this test's own

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.containers import Ended
from ci.core.errors import UsageError
from ci.image.component_tests import NO_DEVICE, ComponentTests, Kind
from ci.image.testing import (
    Found,
    Outcome,
    failure_text,
    problems_of,
    put_results,
    read_results,
    results_folder,
)
from ci.record.junit_reader import Counts


def made_tests(
    line: str = 'pytest --junit-xml="$JUNIT_DIR/unit.xml"', *, kind: Kind = "build", memory: int | None = None
) -> ComponentTests:
    environment = {"SPYRE_CI_TEST_DEVICE": "emulated"} if kind == "device" else {}
    return ComponentTests(
        component="flex",
        kind=kind,
        lines=(line,),
        timeout_s=90,
        memory_bytes=memory,
        environment=environment,
    )


def found(
    passed: int = 0, failed: int = 0, skipped: int = 0, files: int | None = None, **damaged: str
) -> Found:
    failing = [f"test_{number}: no" for number in range(min(failed, 30))]
    counts = Counts(passed=passed, failed=failed, skipped=skipped, failing=failing)
    return Found(counts=counts, files=int(bool(counts.tests)) if files is None else files, damaged=damaged)


def code(number: int, *, out_of_memory: bool = False, timed_out: bool = False) -> Ended:
    return Ended(exit_code=number, out_of_memory=out_of_memory, timed_out=timed_out)


NO_EMULATION = (
    "the emulated device is part of spyre-ci, which the test image lacks: add it under `development`, "
    "or set image.devices to use cards"
)
BUILD, NO_JUNIT, DEVICE = made_tests(), made_tests("make check"), made_tests(kind="device")


@pytest.mark.parametrize(
    ("tests", "ended", "results", "said"),
    [
        (BUILD, code(0), found(3), []),
        (BUILD, code(0), found(3, skipped=2), []),
        (BUILD, code(0), found(skipped=2), []),
        (BUILD, code(1), found(3, 1), []),
        (BUILD, code(0), found(3, 1), ["ended with exit code 0, but 1 test in its JUnit failed"]),
        (BUILD, code(1), found(3), ["ended with exit code 1, but no test in its JUnit failed"]),
        (BUILD, code(0), found(), ["wrote no JUnit into $JUNIT_DIR"]),
        (BUILD, code(0), found(files=1), ["ran no tests: there is none in its JUnit"]),
        (BUILD, code(5), found(), ["ended with exit code 5, without a test in its JUnit"]),
        (BUILD, code(4), found(files=1), ["ended with exit code 4, without a test in its JUnit"]),
        (BUILD, code(137), found(), ["was killed by SIGKILL (exit code 137)"]),
        (BUILD, code(139), found(3), ["was killed by SIGSEGV (exit code 139)"]),
        (BUILD, code(255), found(3), ["was killed by signal 127 (exit code 255)"]),
        (BUILD, code(137, out_of_memory=True), found(), ["ran out of memory (exit code 137)"]),
        (
            made_tests(memory=2**30),
            code(1, out_of_memory=True),
            found(2, 1),
            ["ran out of memory at its limit of 1 GiB (exit code 1)"],
        ),
        (BUILD, code(0, out_of_memory=True), found(3), []),
        (
            BUILD,
            code(137, timed_out=True),
            found(3),
            ["took longer than 1 min 30 s and was stopped (test_minutes)"],
        ),
        (BUILD, code(0), found(3, a="is cut"), ["a is cut"]),
        (BUILD, code(1), found(a="is cut"), ["a is cut"]),
        (BUILD, code(137), found(3, a="is cut"), ["was killed by SIGKILL (exit code 137)", "a is cut"]),
        (NO_JUNIT, code(0), found(), []),
        (NO_JUNIT, code(2), found(), ["ended with exit code 2, without a test in its JUnit"]),
        (
            DEVICE,
            code(NO_DEVICE),
            found(),
            [NO_EMULATION],
        ),
        (DEVICE, code(0), found(skipped=2), ["skipped all of its 2 tests: none found a device"]),
        (BUILD, code(78), found(3), ["ended with exit code 78, but no test in its JUnit failed"]),
    ],
)
def test_problems(tests: ComponentTests, ended: Ended, results: Found, said: list[str]) -> None:
    assert list(problems_of(tests, ended, results)) == said


def outcome_of(
    results: Found, problems: Sequence[str] = (), *, kind: Kind = "build", last: tuple[str, ...] = ()
) -> Outcome:
    ended = Ended(exit_code=1, last=last)
    return Outcome(tests=made_tests(kind=kind), found=results, problems=problems, seconds=3.21, ended=ended)


@given(
    st.builds(Ended, exit_code=st.integers(0, 255), timed_out=st.booleans(), out_of_memory=st.booleans()),
    st.builds(
        found, *[st.integers(0, 3)] * 3, files=st.integers(0, 2), a=st.sampled_from([None, "is cut"])
    ).map(lambda one: one if one.damaged["a"] else Found(counts=one.counts, files=one.files)),
)
def test_nothing_but_a_code_of_0_and_results_without_a_failure_is_good(ended: Ended, results: Found) -> None:
    outcome = outcome_of(results, list(problems_of(BUILD, ended, results)))
    forced = bool(ended.exit_code) or ended.timed_out
    ran = results.counts.passed + results.counts.skipped > 0
    assert outcome.is_good is (not forced and not results.damaged and not results.counts.failed and ran)


def test_what_failed_is_told_in_a_line_with_counts_seconds_and_names() -> None:
    assert str(outcome_of(found(1200, 0, 3))) == "flex (build): 1,200 passed, 0 failed, 3 skipped in 3.2 s"
    assert str(outcome_of(found(1), ["a\x1b[31m", "b"])).endswith(" 0 skipped in 3.2 s; a; b")
    bad = outcome_of(found(5, 30), ["was killed"], kind="runtime")
    first, line, *named, rest = failure_text([bad]).split("\n  | ")
    assert (first, line) == ("tests did not pass: flex (runtime)", str(bad))
    assert "5 passed, 30 failed" in line
    assert named[0] == "flex (runtime) test_0: no"
    assert (len(named), rest) == (20, "… and 10 more")


CASES = (
    '<testsuites><testsuite><testcase name="a"/><testcase classname="C" name="b"><failure message="no"/>'
    '</testcase><testcase name="c"><error>gone\nfar</error></testcase>'
    '<testcase name="d"><skipped/></testcase>'
    "</testsuite></testsuites>"
)


def folder_of(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "taken"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.xml").write_text(text)
    return folder


def test_results_of_any_runner_are_counted_and_the_first_failures_named(tmp_path: Path) -> None:
    assert read_results(tmp_path / "nowhere") == Found()
    read = read_results(folder_of(tmp_path, one=CASES, two="<testsuite><testcase name='e'/></testsuite>"))
    assert read == Found(
        counts=Counts(passed=2, failed=2, skipped=1, failing=["C::b: no", "c: gone"]), files=2
    )
    case = '<testcase name="a"><failure message="no"/></testcase>'
    read = read_results(folder_of(tmp_path, one=f"<testsuite>{case * 1000}</testsuite>"))
    assert (read.counts.failed, len(read.counts.failing)) == (1000, 20)


@given(st.one_of(st.binary(max_size=200), st.sampled_from([b"<coverage/>", CASES[:120].encode()])))
def test_whatever_a_file_holds_is_read_or_told(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("taken")
    (folder / "a.xml").write_bytes(data)
    read = read_results(folder)
    assert read.files + len(read.damaged) == 1


def errors(path: Path) -> list[tuple[str, str]]:
    """Message and text of each error in a JUnit file."""
    found = ET.parse(path).getroot().iter("error")  # noqa: S314  # as above
    return [(one.get("message", ""), one.text or "") for one in found]


def test_results_are_put_with_a_note_and_damaged_ones_apart(tmp_path: Path) -> None:
    folder, taken = results_folder(tmp_path / "out", BUILD), folder_of(tmp_path, one=CASES)
    put_results(folder, taken, outcome_of(read_results(taken)))
    assert sorted(path.name for path in folder.rglob("*")) == ["junit", "one.xml", "spyre-ci.xml"]
    assert errors(folder / "spyre-ci.xml") == []
    assert results_folder(tmp_path / "out", BUILD) == folder

    folder, taken = tmp_path / "other", folder_of(tmp_path, one=CASES[:120], two=CASES)
    read = read_results(taken)
    put_results(folder, taken, outcome_of(read, [f"one.xml {read.damaged['one.xml']}"]))
    assert (folder / "damaged" / "one.xml").read_text() == CASES[:120]
    assert [path.name for path in (folder / "junit").iterdir()] == ["two.xml"]
    ((message, _),) = errors(folder / "spyre-ci.xml")
    assert message.startswith("one.xml is incomplete XML after 2 test cases")


def test_what_stands_there_and_is_no_result_is_left(tmp_path: Path) -> None:
    (tmp_path / "flex" / "build").mkdir(parents=True)
    with pytest.raises(UsageError, match="is not a folder of results"):
        results_folder(tmp_path, BUILD)


def test_what_no_file_says_stands_in_one_of_ours(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    put_results(
        folder,
        tmp_path / "nowhere",
        outcome_of(Found(), ["was killed\0"], last=("on\x1b[1m", "https://u:pw@h/x")),
    )
    assert errors(folder / "spyre-ci.xml") == [("was killed\\x00", "on\nhttps://h/x")]
    assert read_results(folder).counts.failed == 1
    # So does that tests without JUnit passed.
    put_results(tmp_path / "passed", tmp_path / "nowhere", outcome_of(Found()))
    assert read_results(tmp_path / "passed").counts == Counts(passed=1)
