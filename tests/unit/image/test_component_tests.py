"""Which tests a stack has, what each is given, and what became of them."""

from __future__ import annotations

import itertools
import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config.run_model import Device
from ci.core.errors import UsageError
from ci.device import environment
from ci.image.component_tests import EMULATE, JUNIT_DIR, ComponentTests, chosen_tests, planned_tests

from .stacks import TOP, resolved

STACK = f"""{TOP}args: {{JOBS: "2"}}
components:
  - name: torch-spyre
    git: {{url: "https://example.com/torch-spyre.git", steps: [make]}}
    test: [pytest]
    test_on: runtime
    device_test: [pytest device]
  - name: flex
    args: {{GREETING: hello}}
    git: {{url: "https://example.com/flex.git", steps: [make]}}
    test: ['ctest > "$JUNIT_DIR/unit.xml"']
    test_minutes: 1.5
    test_memory_gib: 2
  - name: senlib
    git: {{url: "https://example.com/senlib.git", steps: [make]}}
"""


def planned(folder: Path, *cards: str, **refused: list[str]) -> list[ComponentTests]:
    return planned_tests(resolved(folder, STACK).stack, cards=cards, device=Device.model_validate(refused))


def test_tests_run_where_built_then_on_the_runtime_image_then_with_a_device(tmp_path: Path) -> None:
    every = planned(tmp_path)
    assert [one.title for one in every] == ["flex (build)", "torch-spyre (runtime)", "torch-spyre (device)"]
    assert [one.stage for one in every] == ["build-flex", "test-torch-spyre", "test-torch-spyre"]
    assert [one.promises_junit for one in every] == [True, False, False]
    assert [one.timeout_s for one in every] == [90, 1800, 1800]
    assert [one.memory_bytes for one in every] == [2 * 2**30, None, None]
    first = every[0].environment
    assert (first["PARAM_JOBS"], first["PARAM_GREETING"], first["JUNIT_DIR"]) == ("2", "hello", JUNIT_DIR)


def test_cards_are_handed_to_tests_with_a_device_alone(tmp_path: Path) -> None:
    *others, device = planned(tmp_path, "/dev/vfio/1")
    assert device.devices == ("/dev/vfio/1",)
    assert device.before == ":"
    assert device.environment["SPYRE_CI_TEST_DEVICE"] == "cards"
    assert EMULATE not in device.environment
    for one in others:
        assert one.devices == ()
        assert "SPYRE_CI_TEST_DEVICE" not in one.environment


def test_without_cards_the_emulated_device_is_asked_for(tmp_path: Path) -> None:
    device = planned(tmp_path, refuse_ops=["aten::sin"])[-1]
    assert device.environment[environment.EMULATE] == "1"
    assert device.environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"
    assert device.environment["SPYRE_CI_TEST_DEVICE"] == "emulated"
    assert '[["aten::sin"], []]' in device.before


def test_what_asks_for_variables_gets_those_of_the_emulated_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = planned(tmp_path, refuse_dtypes=["float64"])[-1].before
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
    every = planned(tmp_path)
    assert chosen_tests(every) == every
    assert [one.title for one in chosen_tests(every, with_device=True)] == ["torch-spyre (device)"]
    assert [one.title for one in chosen_tests(every, components=["flex"])] == ["flex (build)"]
    for components, with_device, said in (
        (["senlib"], False, "no component 'senlib' has tests"),
        (["flex"], True, "no component 'flex' has tests with a device"),
    ):
        with pytest.raises(UsageError, match=said):
            chosen_tests(every, components=components, with_device=with_device)
    with pytest.raises(UsageError, match="no component of the stack has tests"):
        chosen_tests([])


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1))
def test_each_line_is_one_argument_of_a_shell_of_its_own(lines: list[str]) -> None:
    tests = ComponentTests(component="flex", kind="build", lines=tuple(lines), timeout_s=1)
    words = shlex.split(tests.script)
    found = [word for before, word in itertools.pairwise(words) if before == "-c"]
    assert found == lines
