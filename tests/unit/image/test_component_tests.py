"""Which tests a stack has, what each is given, and what became of them."""

from __future__ import annotations

import itertools
import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import SettingsError, UsageError
from ci.device import environment
from ci.image.component_tests import EMULATE, JUNIT_DIR, ComponentTests, Device, chosen_tests, planned_tests
from ci.image.containerfile import render
from ci.image.resolved import ResolvedComponent, ResolvedPytorch, ResolvedStack, identity_of
from ci.image.stack import read_stack

STACK = """version: 1
name: runtime
base: {image: "registry.example/debian:bookworm"}
variants: {pinned: {version: 2.13.0}}
args: {JOBS: "2"}
components:
  - name: torch-spyre
    git: {url: "https://example.com/torch-spyre.git", steps: [make]}
    test: [pytest]
    test_on: runtime
    device_test: [pytest device]
  - name: flex
    args: {GREETING: hello}
    git: {url: "https://example.com/flex.git", steps: [make]}
    test: ['ctest > "$JUNIT_DIR/unit.xml"']
    test_minutes: 1.5
    test_memory_gib: 2
  - name: senlib
    git: {url: "https://example.com/senlib.git", steps: [make]}
"""


def resolved(folder: Path, text: str = STACK) -> ResolvedStack:
    path = folder / "stack.yaml"
    path.write_text(text)
    stack = read_stack(path)
    return ResolvedStack(
        stack=stack,
        variant="pinned",
        platform="linux/amd64",
        base_digest="sha256:" + "d" * 64,
        pytorch=ResolvedPytorch(requirement="torch==2.13.0"),
        components=tuple(ResolvedComponent(component=one, commit="a" * 40) for one in stack.components),
    )


def test_tests_run_where_built_then_on_the_runtime_image_then_with_a_device(tmp_path: Path) -> None:
    planned = planned_tests(resolved(tmp_path), Device())
    assert [one.title for one in planned] == ["flex (build)", "torch-spyre (runtime)", "torch-spyre (device)"]
    assert [one.stage for one in planned] == ["build-flex", "test-torch-spyre", "test-torch-spyre"]
    assert [one.promises_junit for one in planned] == [True, False, False]
    assert [one.timeout_s for one in planned] == [90, 1800, 1800]
    assert [one.memory_bytes for one in planned] == [2 * 2**30, None, None]
    first = planned[0].environment
    assert (first["PARAM_JOBS"], first["PARAM_GREETING"], first["JUNIT_DIR"]) == ("2", "hello", JUNIT_DIR)


def test_a_stage_is_rendered_for_what_runs_on_the_runtime_image_alone(tmp_path: Path) -> None:
    told = [line for line in render(resolved(tmp_path)).splitlines() if " AS test-" in line]
    assert told == ["FROM runtime AS test-torch-spyre"]
    only_device = STACK.replace("    test: [pytest]\n    test_on: runtime\n", "")
    assert "FROM runtime AS test-torch-spyre" in render(resolved(tmp_path, only_device))


def test_other_tests_are_another_tag(tmp_path: Path) -> None:
    tags = set()
    for text in (STACK, STACK.replace("[pytest device]", "[pytest other]"), STACK.replace("[pytest]", "[a]")):
        stack = resolved(tmp_path, text)
        tags.add(identity_of(stack, render(stack)))
    assert len(tags) == 3


def test_cards_are_handed_to_tests_with_a_device_alone(tmp_path: Path) -> None:
    *others, device = planned_tests(resolved(tmp_path), Device(cards=["/dev/vfio/1"]))
    assert device.devices == ("/dev/vfio/1",)
    assert device.before == ":"
    assert device.environment["SPYRE_CI_TEST_DEVICE"] == "cards"
    assert EMULATE not in device.environment
    for one in others:
        assert one.devices == ()
        assert "SPYRE_CI_TEST_DEVICE" not in one.environment


def test_without_cards_the_emulated_device_is_asked_for(tmp_path: Path) -> None:
    device = planned_tests(resolved(tmp_path), Device(refuse_ops=["aten::sin"]))[-1]
    assert device.environment[environment.EMULATE] == "1"
    assert device.environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"
    assert device.environment["SPYRE_CI_TEST_DEVICE"] == "emulated"
    assert '[["aten::sin"], []]' in device.before


def test_what_asks_for_variables_gets_those_of_the_emulated_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = planned_tests(resolved(tmp_path), Device(refuse_dtypes=["float64"]))[-1].before
    *_, code, refused = shlex.split(before.partition("$(")[2].partition(")  ")[0].rpartition(") ||")[0])
    monkeypatch.setattr("sys.argv", ["-c", refused])
    exec(code, {})  # noqa: S102  # the code that runs in the container
    said = capsys.readouterr().out.strip()
    exported = dict(
        word.split("=", 1)
        for word in shlex.split(said.replace(";", " "))
        if "=" in word and word[0].isupper()
    )
    assert exported == environment.device_environment("spyre", [], ["float64"])
    assert json.loads(exported["SPYRE_CI_DEVICE"])["refuse_dtypes"] == ["float64"]


def test_some_tests_are_chosen(tmp_path: Path) -> None:
    planned = planned_tests(resolved(tmp_path), Device())
    assert chosen_tests(planned) == planned
    assert [one.title for one in chosen_tests(planned, with_device=True)] == ["torch-spyre (device)"]
    assert [one.title for one in chosen_tests(planned, components=["flex"])] == ["flex (build)"]


@pytest.mark.parametrize(
    ("components", "with_device", "said"),
    [
        (["senlib"], False, "no component 'senlib' has tests"),
        (["flex"], True, "no component 'flex' has tests with a device"),
    ],
)
def test_a_component_without_tests_is_refused(
    tmp_path: Path, components: list[str], with_device: bool, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        chosen_tests(
            planned_tests(resolved(tmp_path), Device()), components=components, with_device=with_device
        )


def test_a_stack_without_tests_is_refused() -> None:
    with pytest.raises(UsageError, match="no component of the stack has tests"):
        chosen_tests([])


def test_a_component_without_a_repository_has_no_tests_with_a_device(tmp_path: Path) -> None:
    text = STACK.replace('git: {url: "https://example.com/senlib.git", steps: [make]}', "files: [a.whl]")
    with pytest.raises(SettingsError, match="has tests and no repository"):
        resolved(tmp_path, text + "    device_test: [a]\n")


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1))
def test_each_line_is_one_argument_of_a_shell_of_its_own(lines: list[str]) -> None:
    tests = ComponentTests(component="flex", kind="build", lines=tuple(lines), timeout_s=1)
    words = shlex.split(tests.script)
    found = [word for before, word in itertools.pairwise(words) if before == "-c"]
    assert found == lines
