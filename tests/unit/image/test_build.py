"""Following what an engine says of a build."""

from __future__ import annotations

from typing import Any

import pytest

from ci.core.errors import CommandError, DiskFullError, UsageError
from ci.image import steps
from ci.image.build import BuildStepError, _followed, harmless, shown_step
from ci.image.containerfile import run
from ci.image.engine import engine_error
from ci.image.push import OtherImageError, check_expected, checked_tags, version_tags
from ci.image.steps import SETTINGS


def stream(*texts: str) -> list[dict[str, Any]]:
    return [{"stream": text} for text in texts]


def test_steps_are_told_with_their_times() -> None:
    lines: list[str] = []
    times = iter([0.0, 0.0, 5.0, 12.0])
    said = [
        *stream("Step 1/3 : FROM debian", "\n", " ---> abc\n"),
        *stream(f"Step 2/3 : {run('make all')}", "\n", " ---> Running in 99\n", "compiling\n"),
        *stream("Removing intermediate container 99\n", " ---> def\n"),
        *stream("Step 3/3 : USER 1", "\n", " ---> Using cache\n"),
        {"aux": {"ID": "sha256:1"}},
    ]
    built = _followed(iter(said), lines.append, lambda: next(times))
    assert lines == [
        "[1/3] FROM debian  (0 s before)",
        "[2/3] RUN make all  (5 s before)",
        "    compiling",
        "[3/3] USER 1  (7 s before)",
    ]
    assert (built.image, built.ran, built.cached) == ("sha256:1", 3, 1)


def test_a_step_that_fails_is_told_with_its_last_lines_and_the_image_before_it() -> None:
    said = [
        *stream("Step 1/2 : FROM debian", "\n", " ---> abc\n"),
        *stream(f"Step 2/2 : {run('make all')}", "\n", *[f"line {number}\n" for number in range(50)]),
        {"error": "The command … returned a non-zero code: 7", "errorDetail": {"code": 7}},
    ]
    with pytest.raises(BuildStepError) as caught:
        _followed(iter(said), lambda _: None, lambda: 0.0)
    assert caught.value.what.startswith("a step ended with code 7: make all\n  | line 30\n")
    assert caught.value.what.endswith("  | line 49")
    assert caught.value.remedy == "try it by hand: docker run --rm -it --network host abc bash"
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("said", "kind", "what"),
    [
        ("write /x: no space left on device", DiskFullError, "the container engine's disk is full"),
        ("COPY failed: no such file", CommandError, "the container engine refuses: COPY failed"),
        ("denied for https://me:secret@host/", CommandError, "refuses: denied for https://"),
    ],
)
def test_what_an_engine_refuses_is_said_without_secrets(said: str, kind: type[Exception], what: str) -> None:
    error = engine_error(said)
    assert isinstance(error, kind)
    assert what in str(error)
    assert "secret" not in str(error)


def test_a_step_is_shown_as_people_write_it() -> None:
    assert shown_step(run('echo "a"')) == 'RUN echo "a"'
    assert shown_step(run(f"{SETTINGS}; make all")) == "RUN make all"
    assert shown_step("COPY a b") == "COPY a b"
    assert shown_step("RUN [broken") == "RUN [broken"


def test_a_release_has_three_tags() -> None:
    assert version_tags("1.20.3") == ["1.20.3", "1.20", "1"]


@pytest.mark.parametrize("version", ["1", "1.2", "01.2.3", "1.2.3rc1", "v1.2.3", "1.2.3.4", ""])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match="is no version"):
        version_tags(version)


def test_tags_that_move_are_no_versions() -> None:
    assert checked_tags(["latest", "pr-123"]) == ["latest", "pr-123"]
    with pytest.raises(UsageError, match=r"'1\.2' is a version"):
        checked_tags(["1.2"])
    with pytest.raises(UsageError, match="is no tag"):
        checked_tags(["a b"])


def test_a_components_step_is_shown_without_what_is_put_before_it() -> None:
    assert shown_step(run(steps.with_settings("make all"))) == "RUN make all"
    assert shown_step(run(steps.install_packages("apt", ["gcc"]))).startswith("RUN export DEBIAN_FRONTEND")


@pytest.mark.parametrize(
    "line",
    [
        "cp: error writing 'x': No space left on device",
        "E: You don't have enough free space in /var/cache/apt/archives/.",
        "Error: At least 12MB more space needed on the / filesystem.",
    ],
)
def test_a_step_for_which_the_disk_is_too_small_is_told_as_a_full_disk(line: str) -> None:
    said = [
        *stream("Step 1/1 : RUN make", "\n", f"{line}\n"),
        {"error": "The command … returned a non-zero code: 1", "errorDetail": {"code": 1}},
    ]
    with pytest.raises(DiskFullError, match="the container engine's disk is full"):
        _followed(iter(said), lambda _: None, lambda: 0.0)


def test_podmans_words_are_understood() -> None:
    lines: list[str] = []
    said = [
        *stream("[1/3] STEP 1/2: FROM debian AS base\n", "[1/3] STEP 2/2: ENV A=b\n"),
        *stream(f"--> Using cache {'e' * 64}\n", "--> eeeeeeeeeee\n"),
        *stream(f"[3/3] STEP 1/1: {run('make all')}\n", "compiling\n", "--> fffffffffff\n", "[3/3] COMMIT\n"),
        {"aux": {"ID": "sha256:1"}},
    ]
    built = _followed(iter(said), lines.append, lambda: 0.0)
    assert lines == [
        "[1/2] FROM debian AS base  (0 s before)",
        "[2/2] ENV A=b  (0 s before)",
        "[1/1] RUN make all  (0 s before)",
        "    compiling",
        "    [3/3] COMMIT",
    ]
    assert (built.image, built.ran, built.cached) == ("sha256:1", 3, 1)


def test_a_step_that_fails_in_podman_is_told_with_its_code() -> None:
    error = 'building at STEP "RUN make": while running runtime: exit status 7\n'
    said = [
        *stream("[1/1] STEP 1/2: FROM debian\n", "--> abcdefabcde\n", f"[1/1] STEP 2/2: {run('make all')}\n"),
        *stream("no rule\n"),
        {"errorDetail": {"message": error}, "error": error},
    ]
    with pytest.raises(BuildStepError) as caught:
        _followed(iter(said), lambda _: None, lambda: 0.0)
    assert caught.value.what == "a step ended with code 7: make all\n  | no rule"
    assert "abcdefabcde" in str(caught.value.remedy)


def test_what_a_step_says_is_shown_as_it_is_and_does_nothing() -> None:
    assert harmless("\x1b[31mred\x1b[0m") == "red"
    assert harmless("https_proxy=http://robot:word@proxy:1") == "https_proxy=http://proxy:1"
    assert harmless("  ::add-mask::x") == "|   ::add-mask::x"
    assert "##[" not in harmless("##[error]x")
    assert harmless("std::vector<int>") == "std::vector<int>"


def test_what_looks_like_a_step_and_is_none_is_output() -> None:
    said = [
        *stream("Step 1/2 : FROM debian", "\n", " ---> abc\n", f"Step 2/2 : {run('make all')}", "\n"),
        *stream("Step 9/9 : LABEL x=y\n", "broken\n"),
        {"error": "The command … returned a non-zero code: 3", "errorDetail": {"code": 3}},
    ]
    with pytest.raises(BuildStepError, match="a step ended with code 3: make all") as caught:
        _followed(iter(said), lambda _: None, lambda: 0.0)
    assert "Step 9/9" in caught.value.what


@pytest.mark.parametrize("tag", [f"stack-{'0' * 20}", "untested-x", "wheel-1", "cache-amd64"])
def test_a_tag_that_names_what_an_image_is_built_of_moves_nowhere(tag: str) -> None:
    with pytest.raises(UsageError, match="would be taken for the name of another image"):
        checked_tags([tag])


TESTED = f"sha256:{'1' * 64}"


@pytest.mark.parametrize("expected", [TESTED, f"quay.example/runtime:stack-1@{TESTED}"])
def test_the_very_image_that_is_expected_is_taken(expected: str) -> None:
    check_expected("quay.example/runtime:stack-1", TESTED, expected)


@pytest.mark.parametrize(
    ("there", "said"), [(f"sha256:{'2' * 64}", f"is sha256:{'2' * 64}"), (None, "is not in the registry")]
)
def test_another_image_than_the_expected_one_is_refused(there: str | None, said: str) -> None:
    with pytest.raises(OtherImageError) as caught:
        check_expected("r:stack-1", there, TESTED)
    assert caught.value.what == f"r:stack-1 {said}, and {TESTED} was expected"
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("expected", ["", "latest", "r:1", f"{TESTED}0", f"{TESTED}\n"])
def test_what_is_expected_is_a_digest(expected: str) -> None:
    with pytest.raises(UsageError, match="names no digest"):
        check_expected("r:stack-1", TESTED, expected)
