"""Names of tests, images that are opened, files that are refused, and what running a test showed."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import EXIT_INCOMPLETE, EXIT_INTERRUPTED, BadFileError, MissingInputError, UsageError
from ci.record.events import ShardStart
from ci.record.failure_signature import Failure, compare
from ci.record.verdict import Verdict
from ci.report.reader import RunInfo
from ci.reproduce.evidence import Evidence
from ci.reproduce.names import find_test
from ci.reproduce.report import document, known_lines, outcome, ran_lines
from ci.reproduce.reproduce import Ran, exit_code_of, refuse_outside
from ci.reproduce.shell import choose_image

NODES = {
    "a.py::TestA::test_add[dtype=float32,op=add]": "test/a.py::TestASPYRE::test_add_spyre_float32",
    "a.py::TestA::test_add[dtype=float16,op=add]": "test/a.py::TestASPYRE::test_add_spyre_float16",
    "a.py::TestA::test_sub": "test/a.py::TestASPYRE::test_sub_spyre",
    "sub/b.py::test_sub": "",
}
ADD = next(iter(NODES))
FAILED, PASSED = Failure(verdict=Verdict.FAILED, message="E: x"), Failure(verdict=Verdict.PASSED)
IMAGE = f"quay.io/o/runtime@sha256:{'1' * 64}"


@pytest.mark.parametrize(
    "name",
    [ADD, NODES[ADD], "a.py::TestASPYRE::test_add_spyre_float32", "dtype=float32", "add_spyre_float32"],
)
def test_a_test_is_found_by_every_name_it_has(name: str) -> None:
    assert find_test(name, NODES, where="r") == ADD
    assert find_test("a", {"a": "", "ab": ""}, where="r") == "a"


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("add", UsageError, r"'add' is a part of 2 tests: 'a\.py::TestA.*float32.*float16"),
        ("t_", UsageError, "and 95 more"),
        ("a.py::TestA::test_sup", MissingInputError, "similar: a.py::TestA::test_sub"),
        ("zzz", MissingInputError, "as the run's report shows it"),
        ("", UsageError, "no test is named"), ("x" * 30_000, UsageError, "no test is named"),
    ],
)  # fmt: skip
def test_an_ambiguous_or_unknown_name_lists_those_near_it(
    name: str, kind: type[Exception], said: str
) -> None:
    nodes = {f"t_{number}": "" for number in range(100)} if name == "t_" else NODES
    with pytest.raises(kind, match=said):
        find_test(name, nodes, where="r")


@given(st.text(min_size=1), st.lists(st.text(min_size=1), unique=True))
def test_whatever_is_named_is_a_test_of_the_run_or_an_error(name: str, names: list[str]) -> None:
    with contextlib.suppress(UsageError, MissingInputError):
        assert find_test(name, dict.fromkeys(names, ""), where="r") in names


@pytest.mark.parametrize(
    ("recorded", "requested", "repository", "wanted"),
    [
        (IMAGE, None, "quay.io/o/runtime", (IMAGE, True)),
        # Another registry's is opened only if the user names it, and has no network then.
        (IMAGE, IMAGE, "quay.io/o/run", (IMAGE, False)),
        ("", "x", None, ("x", False)),
        ("", None, "quay.io/o/runtime", "recorded no image"),
        ("quay.io/o/runtime:latest", None, "quay.io/o/runtime", "recorded no image"),
        ("--privileged", None, "quay.io/o/runtime", "recorded no image"),
        (IMAGE, None, None, "is not from"),
        (IMAGE, None, "quay.io/o/runtime-evil", f"--image {IMAGE}"),
        (IMAGE, "", None, "is not an image"),
        (IMAGE, "--privileged", None, "is not an image"),
    ],
)
def test_only_a_trusted_image_is_opened(
    recorded: str, requested: str | None, repository: str | None, wanted: str | tuple[str, bool]
) -> None:
    if isinstance(wanted, tuple):
        assert choose_image(recorded, requested, repository, "r") == wanted
        return
    with pytest.raises(UsageError) as caught:
        choose_image(recorded, requested, repository, "r")
    assert wanted in str(caught.value)


@pytest.mark.parametrize("file", ["../evil.py", "/etc/x.py", "a/../../x.py", "a\0.py", "link.py"])
def test_a_file_outside_the_tree_is_refused(tmp_path: Path, file: str) -> None:
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    with pytest.raises(BadFileError, match="is not a test file of the tree"):
        refuse_outside(tmp_path, file, "")
    refuse_outside(tmp_path, "sub/test_y.py", "")


@pytest.mark.parametrize(
    ("failures", "known", "word", "code"),
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
def test_a_reproduction_has_one_word_and_one_exit_code(
    failures: list[Failure], known: Failure | None, word: str, code: int
) -> None:
    ends = [(one, "" if known is None else compare(known, one)) for one in failures]
    found = Evidence(id="a", failure=known)
    ran = Ran(folder="/r", ends=ends, exit_code=exit_code_of(failures))
    assert (outcome(found, ran), ran.exit_code) == (word, code)
    assert ran_lines(found, ran)[-1].startswith(f"{word}: ")
    assert document(found, ran)["ran"]["outcome"] == word
    if word in {"not reproduced", "no outcome"}:  # an interrupted try says nothing of the failure
        assert outcome(found, replace(ran, exit_code=EXIT_INTERRUPTED)) == "interrupted"


def test_nothing_of_a_hostile_test_moves_a_terminal() -> None:
    failure = Failure(verdict=Verdict.FAILED, message="\x1b[2J::error::\nx", cause="\x1b")
    bad = "\x1b"
    info = RunInfo(device=bad, pytorch_version=bad, pytorch_sha=bad, percent=1, run=bad)
    worker = ShardStart(card=bad, torch=bad, python=bad, image=bad, environ={bad: bad})
    found = Evidence(
        id="a\x1b]0;x\x07", info=info, worker=worker, at=bad, failure=failure, source=bad, device=bad,
        verdict="failed", notes=(bad,),
    )  # fmt: skip
    ran = Ran(folder="/r", ends=[(failure, "\x1b")], exit_code=1)
    for line in [*known_lines(found), *ran_lines(found, ran), found.command]:
        assert "\x1b" not in line
        assert "\n" not in line
