"""What is said of tests by their results and by the way their container ended."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET  # files of this test's own

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.containers import Ended
from ci.core.errors import UsageError
from ci.image.component_tests import NO_DEVICE, ComponentTests, Kind
from ci.image.outcome import (
    Found,
    Outcome,
    failure_text,
    problems_of,
    put_results,
    read_results,
    results_folder,
)


def given_tests(*lines: str, kind: Kind = "build", memory: int | None = None) -> ComponentTests:
    environment = {"SPYRE_CI_TEST_DEVICE": "emulated"} if kind == "device" else {}
    return ComponentTests(
        component="flex",
        kind=kind,
        lines=lines or ('pytest --junit-xml="$JUNIT_DIR/unit.xml"',),
        timeout_s=90,
        memory_bytes=memory,
        environment=environment,
    )


def found(
    passed: int = 0, failed: int = 0, skipped: int = 0, files: int | None = None, **damaged: str
) -> Found:
    there = int(bool(passed + failed + skipped)) if files is None else files
    failing = tuple(f"test_{number}: no" for number in range(min(failed, 30)))
    return Found(passed=passed, failed=failed, skipped=skipped, failing=failing, files=there, damaged=damaged)


@pytest.mark.parametrize(
    ("ended", "results", "said"),
    [
        (Ended(exit_code=0), found(3), []),
        (Ended(exit_code=0), found(3, skipped=2), []),
        (Ended(exit_code=0), found(skipped=2), []),
        (Ended(exit_code=1), found(3, 1), []),
        (Ended(exit_code=0), found(3, 1), ["ended with exit code 0, though 1 test of its JUnit failed"]),
        (Ended(exit_code=1), found(3), ["ended with exit code 1, though no test of its JUnit failed"]),
        (Ended(exit_code=0), found(), ["wrote no JUnit into $JUNIT_DIR"]),
        (Ended(exit_code=0), found(files=1), ["ran no tests: its JUnit holds none"]),
        (Ended(exit_code=5), found(), ["ran no tests (exit code 5)"]),
        (Ended(exit_code=5), found(files=1), ["ran no tests (exit code 5)"]),
        (Ended(exit_code=4), found(), ["ended with exit code 4, without a test in its JUnit"]),
        (Ended(exit_code=137), found(), ["was killed by SIGKILL (exit code 137)"]),
        (Ended(exit_code=139), found(3), ["was killed by SIGSEGV (exit code 139)"]),
        (Ended(exit_code=255), found(3), ["was killed by signal 127 (exit code 255)"]),
        (Ended(exit_code=137, out_of_memory=True), found(), ["ran out of memory (exit code 137)"]),
        (Ended(exit_code=0, out_of_memory=True), found(3), []),
        (
            Ended(exit_code=137, timed_out=True),
            found(3),
            ["took longer than 1 min 30 s and was ended (test_minutes)"],
        ),
        (Ended(exit_code=0), found(3, a="is cut"), ["a is cut"]),
        (
            Ended(exit_code=137),
            found(3, a="is cut"),
            ["was killed by SIGKILL (exit code 137)", "a is cut"],
        ),
    ],
)
def test_problems(ended: Ended, results: Found, said: list[str]) -> None:
    assert problems_of(given_tests(), ended, results) == said


def test_memory_is_told_with_its_limit() -> None:
    (said,) = problems_of(given_tests(memory=2**30), Ended(exit_code=1, out_of_memory=True), found(2, 1))
    assert said == "ran out of memory, of which it had 1 GiB (exit code 1)"


def test_lines_that_promise_no_junit_are_told_by_their_code() -> None:
    assert problems_of(given_tests("make check"), Ended(exit_code=0), found()) == []
    assert problems_of(given_tests("make check"), Ended(exit_code=2), found()) == [
        "ended with exit code 2, with no JUnit"
    ]


def test_a_device_that_is_not_there_is_told() -> None:
    device = given_tests(kind="device")
    (said,) = problems_of(device, Ended(exit_code=NO_DEVICE), found())
    assert "name spyre-ci under `development`" in said
    assert problems_of(device, Ended(exit_code=0), found(skipped=2)) == [
        "skipped all of its 2 tests: none saw a device"
    ]
    assert problems_of(given_tests(), Ended(exit_code=NO_DEVICE), found(3)) == [
        f"ended with exit code {NO_DEVICE}, though no test of its JUnit failed"
    ]


ENDED = st.builds(Ended, exit_code=st.integers(0, 255), timed_out=st.booleans(), out_of_memory=st.booleans())
FOUND = st.builds(
    Found,
    passed=st.integers(0, 3),
    failed=st.integers(0, 3),
    skipped=st.integers(0, 3),
    files=st.integers(0, 2),
    damaged=st.sampled_from([{}, {"a": "is cut"}]),
)


@given(ENDED, FOUND)
def test_nothing_but_a_code_of_0_and_results_without_a_failure_is_good(ended: Ended, results: Found) -> None:
    outcome = outcome_of(results, *problems_of(given_tests(), ended, results))
    forced = bool(ended.exit_code) or ended.timed_out
    ran = results.passed + results.skipped > 0
    assert outcome.is_good is (not forced and not results.damaged and not results.failed and ran)


def outcome_of(results: Found, *problems: str, kind: Kind = "build") -> Outcome:
    return Outcome(
        tests=given_tests(kind=kind), found=results, problems=problems, seconds=3.21, exit_code=0, last=()
    )


def test_an_outcome_is_a_line_with_its_seconds() -> None:
    assert str(outcome_of(found(1200, 0, 3))) == "flex (build): 1,200 passed, 0 failed, 3 skipped in 3.2 s"
    assert str(outcome_of(found(1), "a\x1b[31m", "b")) == (
        "flex (build): 1 passed, 0 failed, 0 skipped in 3.2 s; a; b"
    )


def test_what_failed_is_told_with_counts_and_names() -> None:
    bad = outcome_of(found(5, 30), "was killed", kind="runtime")
    first, line, *named, rest = failure_text([bad]).split("\n  | ")
    assert (first, line) == ("tests did not pass: flex (runtime)", str(bad))
    assert "5 passed, 30 failed" in line
    assert named[0] == "flex (runtime) test_0: no"
    assert (len(named), rest) == (20, "… and 10 more")


TESTS = ComponentTests(component="flex", kind="build", lines=("a",), timeout_s=1)
CASES = (
    '<testsuites><testsuite><testcase name="a"/><testcase classname="C" name="b"><failure message="no"/>'
    '</testcase><testcase name="c"><error>gone\nfar</error></testcase>'
    '<testcase name="d"><skipped/></testcase>'
    "</testsuite></testsuites>"
)
BOMB = '<!DOCTYPE a [<!ENTITY x "y"><!ENTITY z "&x;&x;">]><testsuite><testcase name="&z;"/></testsuite>'


def folder_of(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "taken"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.xml").write_text(text)
    return folder


def outcome(found: Found, *problems: str, last: tuple[str, ...] = ()) -> Outcome:
    return Outcome(tests=TESTS, found=found, problems=problems, seconds=2, exit_code=1, last=last)


def test_results_of_any_runner_are_counted(tmp_path: Path) -> None:
    found = read_results(folder_of(tmp_path, one=CASES, two="<testsuite><testcase name='e'/></testsuite>"))
    assert (found.passed, found.failed, found.skipped, found.files, found.tests) == (2, 2, 1, 2, 5)
    assert found.failing == ("C::b: no", "c: gone")
    assert found.damaged == {}


def test_nothing_written_is_nothing_found(tmp_path: Path) -> None:
    assert read_results(tmp_path / "nowhere") == Found(damaged={})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CASES[:120], "is no whole XML after 2 test cases"),
        ("", "is no whole XML"),
        (BOMB, "declares entities or a document type"),
        ("<coverage/>", "is no JUnit: it begins with <coverage>"),
        (f"<testsuite>{'<a>' * 100}", "elements stand more than 64 deep"),
        (f'<testsuite><testcase name="{"a" * (3 << 20)}"/></testsuite>', "a tag has more than"),
    ],
)
def test_a_damaged_or_hostile_file_is_told(tmp_path: Path, text: str, why: str) -> None:
    found = read_results(folder_of(tmp_path, one=text))
    assert why in found.damaged["one.xml"]
    assert found.files == 0


@given(st.binary(max_size=200))
def test_whatever_a_file_holds_is_read_or_told(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("taken")
    (folder / "a.xml").write_bytes(data)
    found = read_results(folder)
    assert found.files + len(found.damaged) == 1


def test_many_failures_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    case = '<testcase name="a"><failure message="no"/></testcase>'
    found = read_results(folder_of(tmp_path, one=f"<testsuite>{case * 1000}</testsuite>"))
    assert (found.failed, len(found.failing)) == (1000, 20)


def test_results_are_put_with_a_note(tmp_path: Path) -> None:
    folder = results_folder(tmp_path / "out", TESTS)
    taken = folder_of(tmp_path, one=CASES)
    put_results(folder, taken, outcome(read_results(taken)))
    assert sorted(path.name for path in folder.rglob("*")) == ["junit", "one.xml", "outcome.json"]
    assert json.loads((folder / "outcome.json").read_text())["failed"] == 2
    assert results_folder(tmp_path / "out", TESTS) == folder


def test_what_stands_there_and_is_no_result_is_left(tmp_path: Path) -> None:
    (tmp_path / "flex" / "build").mkdir(parents=True)
    with pytest.raises(UsageError, match="stands where results belong"):
        results_folder(tmp_path, TESTS)


def test_a_damaged_file_is_kept_and_one_of_ours_says_so(tmp_path: Path) -> None:
    folder, taken = tmp_path / "out", folder_of(tmp_path, one=CASES[:120], two=CASES)
    found = read_results(taken)
    damaged = f"one.xml {found.damaged['one.xml']}"
    put_results(folder, taken, outcome(found, damaged))
    assert (folder / "damaged" / "one.xml").read_text() == CASES[:120]
    assert [path.name for path in (folder / "junit").iterdir()] == ["two.xml"]
    assert errors(folder / "spyre-ci.xml") == [damaged]


def test_what_no_file_says_stands_in_one_of_ours(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    put_results(
        folder, tmp_path / "nowhere", outcome(Found(damaged={}), "was killed\0", last=("on\x1b[1m", "way"))
    )
    assert errors(folder / "spyre-ci.xml") == ["was killed\\x00"]
    (error,) = ET.parse(folder / "spyre-ci.xml").getroot().iter("error")  # noqa: S314  # as above
    assert error.text == "on\nway"
    assert read_results(folder).failed == 1


def test_tests_without_junit_that_passed_have_a_result_too(tmp_path: Path) -> None:
    put_results(tmp_path / "out", tmp_path / "nowhere", outcome(Found(damaged={})))
    found = read_results(tmp_path / "out")
    assert (found.passed, found.tests) == (1, 1)


def errors(path: Path) -> list[str]:
    return [one.get("message", "") for one in ET.parse(path).getroot().iter("error")]  # noqa: S314  # as above
