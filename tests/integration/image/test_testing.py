"""Components' tests in containers of a real engine: their results come out, however the containers end."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import zipfile
from typing import Any
from xml.etree import ElementTree as ET  # files of this test's own

import pytest
from docker.models.containers import Container

from ci.core.containers import LABEL
from tests.calls import Said

from .conftest import ROOT, World, wheel

pytestmark = pytest.mark.nightly

GOOD = '<testsuite><testcase classname="flex" name="works" time="0.1"/></testsuite>'
BAD = (
    '<testsuite><testcase classname="flex" name="works"/>'
    '<testcase classname="flex" name="adds"><failure message="2 is not 3">where</failure></testcase>'
    "</testsuite>"
)
WRITES_GOOD = 'cp good.xml "$JUNIT_DIR/unit.xml"'


def give(world: World, **keys: Any) -> None:
    """Give the component `flex` keys, and sources that its tests use."""
    if not (world.repository / "good.xml").exists():
        world.commit({"good.xml": GOOD, "bad.xml": BAD})
    world.flex(**keys)


def run_tests(world: World, *words: str, code: int | None = None, **environ: str) -> Said:
    return world.image("test", "--results", str(world.folder / "out"), *words, code=code, **environ)


def ours(world: World, kind: str = "build") -> tuple[str, str]:
    """Message and text of the one error of our own JUnit file."""
    path = world.folder / "out" / "flex" / kind / "spyre-ci.xml"
    (error,) = ET.parse(path).getroot().iter("error")  # noqa: S314  # as above
    return error.get("message", ""), error.text or ""


def untagged(world: World) -> bool:
    return not world.client.api.images(name=world.name)


@pytest.mark.soak
@pytest.mark.parametrize("how", ["kill", "remove"])
def test_a_container_killed_from_outside_is_told(world: World, how: str) -> None:
    give(world, test=[WRITES_GOOD, f"echo waiting {world.run}; sleep 600"])
    thread = threading.Thread(target=end_container, args=(world, how))
    thread.start()
    result = run_tests(world, code=1)
    thread.join()
    assert "was killed by SIGKILL (exit code 137)" in result.output
    message, text = ours(world)
    assert ("SIGKILL" in message, text) == (True, f"waiting {world.run}")
    if how == "kill":
        assert (world.folder / "out" / "flex" / "build" / "junit" / "unit.xml").read_text() == GOOD


def of_this_test(world: World) -> list[Container]:
    """The containers of its tests; others use the engine too."""
    found = world.client.api.containers(all=True, filters={"label": LABEL})
    return [world.client.containers.get(one["Id"]) for one in found if world.run in one["Command"]]


def end_container(world: World, how: str) -> None:
    """End the container of tests once it waits."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        for one in of_this_test(world):
            if b"waiting" in one.logs():
                one.remove(force=True) if how == "remove" else one.kill()
                return
        time.sleep(0.1)


GROWS = "import time; print('growing', flush=True); x = bytearray(600 * 2**20); time.sleep(1)"
BESIDE = 'python -c "import senlib, torch; assert senlib.answer == 42"; id -u; echo x > new.txt; mkdir made'


@pytest.mark.soak
@pytest.mark.parametrize(
    ("keys", "code", "said", "counted"),
    [
        (
            {"test": [WRITES_GOOD, "echo waiting; sleep 600"], "test_minutes": 0.05},
            1,
            "took longer than 3.0 s and was stopped (test_minutes)",
            "FAILED flex (build): 1 passed, 0 failed",
        ),
        (
            {"test": [WRITES_GOOD, f'python3 -c "{GROWS}"'], "test_memory_gib": 0.05},
            1,
            "ran out of memory at its limit of 0.05 GiB (exit code 137)",
            "FAILED flex (build): 1 passed, 0 failed",
        ),
        # A first failure does not hide what comes after.
        (
            {"test": ["exit 7", 'cp bad.xml "$JUNIT_DIR/unit.xml"; exit 1']},
            1,
            "flex | exit code 7 of: exit 7",
            "FAILED flex (build): 1 passed, 1 failed",
        ),
        (
            {"test": [BESIDE, WRITES_GOOD], "test_on": "runtime"},
            0,
            "flex | 10001",
            "ok flex (runtime): 1 passed, 0 failed",
        ),
    ],
)
def test_what_came_of_tests_is_said_and_comes_out(
    world: World, *, keys: dict[str, Any], code: int, said: str, counted: str
) -> None:
    give(world, **keys)
    began = time.monotonic()
    output = run_tests(world, code=code).output
    assert said in output
    assert counted in output
    assert ("remedy: fix them; to try by hand: docker run --rm -it --network none" in output) is bool(code)
    assert time.monotonic() - began < 120


def test_an_interrupted_run_leaves_no_container_and_says_so(world: World) -> None:
    give(world, test=[WRITES_GOOD, f"echo waiting {world.run}; sleep 600"])
    words = [sys.executable, "-m", "ci.cli", "image", "test", "--results", "out"]
    running = subprocess.Popen(words, cwd=world.folder, env=world.environ, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    for line in running.stderr:
        if f"| waiting {world.run}" in line:
            break
    running.terminate()
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert "was interrupted" in ours(world)[0]
    assert of_this_test(world) == []


def test_tests_with_a_device_get_the_variables_of_the_emulated_one(world: World) -> None:
    # What says which variables the emulated device wants, as spyre-ci has it.
    made = wheel(world.folder.parent / "index" / "spyre-ci", "spyre_ci", "0.1.0", "")
    with zipfile.ZipFile(made, "a") as packed:
        for name in ("ci/__init__.py", "ci/device/__init__.py", "ci/device/environment.py"):
            packed.write(ROOT / name, name)
    check = (
        "import os, json; e = os.environ; print(e['TORCH_TEST_DEVICES']); "
        "assert e['SPYRE_CI_TEST_DEVICE'] == 'emulated' and e['SPYRE_CI_EMULATE'] == '1'; "
        "assert json.loads(e['SPYRE_CI_DEVICE']) == {'refuse_ops': ['aten::sin'], 'refuse_dtypes': []}"
    )
    # A folder of the sources that is named as ours is in nobody's way.
    world.commit({"ci/__init__.py": "raise ImportError\n"})
    give(world, device_test=[f'cd /; python -c "{check}"', WRITES_GOOD], development=["spyre-ci"])
    result = run_tests(world, "--on-device", SPYRE_CI__DEVICE__REFUSE_OPS="[aten::sin]", code=0)
    assert "flex | /opt/spyre/venv/lib/" in result.err
    assert "/site-packages/ci/device/test_base.py" in result.err
    assert "ok flex (device): 1 passed" in result.output


@pytest.mark.soak
def test_without_spyre_ci_no_device_is_emulated_and_that_is_said(world: World) -> None:
    give(world, device_test=[WRITES_GOOD])
    result = run_tests(world, "--on-device", code=1)
    assert "add it under `development`, or set image.devices to use cards" in result.output
    assert "No module named 'ci'" in ours(world, "device")[1]


@pytest.mark.soak
def test_tests_with_a_device_get_the_cards_of_the_settings(world: World) -> None:
    give(world, device_test=['test -e /dev/kmsg; test "$SPYRE_CI_TEST_DEVICE" = cards', WRITES_GOOD])
    result = run_tests(world, SPYRE_CI__IMAGE__DEVICES="[/dev/kmsg]", code=0)
    assert "ok flex (device): 1 passed" in result.output
    refused = run_tests(world, SPYRE_CI__IMAGE__DEVICES="[/dev/nowhere]", code=2)
    assert "the container engine reports" in refused.output
    assert "/dev/nowhere" in ours(world, "device")[0]


def test_a_real_pytest_tells_of_its_failures(world: World) -> None:
    world.commit(
        {"test_flex.py": "def test_good(): pass\n\n\ndef test_bad():\n    assert 'spyre' == 'cpu'\n"}
    )
    world.edit("packages: [", "build_packages: [python3-pytest], packages: [")
    give(world, test=['/usr/bin/python3 -m pytest --junit-xml="$JUNIT_DIR/unit.xml"'])
    result = run_tests(world, code=1)
    assert "flex (build) test_flex::test_bad: AssertionError: assert 'spyre' == 'cpu'" in result.output
    assert "flex (build): 1 passed, 1 failed" in result.output


@pytest.mark.soak
def test_a_stage_that_cannot_be_built_is_told_before_any_test_runs(world: World) -> None:
    give(world, test=[WRITES_GOOD], device_test=[WRITES_GOOD], development=["nothing-of-that-name"])
    result = world.image("build", "--push", "--results", "out", code=1)
    assert "nothing-of-that-name" in result.output
    assert not (world.folder / "out").exists()
    assert untagged(world)
