"""A project's own tests: what was installed is what is tested, and nothing is written into the checkout."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci.cli.app import run
from tests.repositories import commit

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "made-up"
version = "1.2.3"

[dependency-groups]
test = ["pytest"]

[tool.setuptools]
packages = ["made_up"]
"""
FILES = {
    "pyproject.toml": PYPROJECT,
    "made_up/__init__.py": "VALUE = 1\n",
    "tests/unit/test_it.py": (
        "import made_up\n\n\n"
        "def test_value():\n    assert made_up.VALUE == 1\n\n\n"
        "def test_is_installed():\n    assert 'site-packages' in made_up.__file__\n"
    ),
}


def project(folder: Path, files: Mapping[str, str]) -> Path:
    commit(folder, files)
    return folder


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPYRE_CI__STATE", str(tmp_path / "state"))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def unit(
    capsys: pytest.CaptureFixture[str], folder: Path, *words: str, records: Path
) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(["package", "unit", "--records", str(records), str(folder), *words])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.nightly
def test_what_was_installed_is_tested_and_the_checkout_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project(tmp_path / "p", FILES)
    before = {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}
    records = tmp_path / "records"
    code, out, said = unit(capsys, folder, "--json", records=records)
    assert code == 0, said
    assert json.loads(out)["counts"] == {"passed": 2, "failed": 0, "skipped": 0, "failing": []}
    assert "2 passed" in said  # as it came
    record = json.loads((records / "unit.json").read_text())
    assert (record["passed"], record["pytest_exit_code"], record["exit_code"]) == (True, 0, 0)
    assert (records / "unit.xml").is_file()
    assert {path: path.lstat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.nightly
def test_failures_crashes_and_nothing_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        **FILES,
        "tests/unit/test_it.py": (
            "import os, pytest\n\n\n"
            "def test_fails():\n    print('::error::mine')\n    assert 1 == 2\n\n\n"
            "def test_crashes():\n    os.abort()\n\n\n"
            "@pytest.mark.skip\ndef test_skips():\n    pass\n"
        ),
    }
    folder = project(tmp_path / "p", files)
    records = tmp_path / "records"
    code, out, said = unit(capsys, folder, records=records)
    assert code == 3
    assert "killed by SIGABRT" in out
    assert "\n::error" not in f"\n{said}"
    record = json.loads((records / "unit.json").read_text())
    assert (record["passed"], record["pytest_exit_code"], record["counts"]) == (False, -6, None)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("does", "told"),
    [
        (
            "os._exit(0)",
            "unit.xml is not readable as JUnit XML: there is no such file; see the tests' output",
        ),
        ("time.sleep(60)", "(package.tests.timeout_s)"),
    ],
)
def test_tests_that_leave_no_results_say_what_to_look_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], does: str, told: str
) -> None:
    files = {
        **FILES,
        "tests/unit/test_it.py": f"import os, time\n\ndef test_it():\n    {does}\n",
        "spyre-ci.yaml": "package: {tests: {timeout_s: 5}}\n",
    }
    code, out, _ = unit(capsys, project(tmp_path / "p", files), records=tmp_path / "records")
    assert code == 3
    assert told in out


@pytest.mark.nightly
def test_tests_with_the_marker_of_cards_are_left_out_also_where_it_is_not_registered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = '[tool.pytest.ini_options]\naddopts = ["--strict-markers"]\n'
    marked = "import pytest\n\n\n@pytest.mark.device\ndef test_card():\n    assert False\n\n\n"
    files = {
        "pyproject.toml": PYPROJECT + strict,
        "made_up/__init__.py": "",
        "tests/test_it.py": f"{marked}def test_plain():\n    pass\n\n\ndef test_bad():\n    assert 1 == 2\n",
    }
    code, out, said = unit(capsys, project(tmp_path / "p", files), records=tmp_path / "records")
    assert (code, out) == (1, "1 test passed, 1 failed, 0 skipped\n"), said


@pytest.mark.nightly
def test_a_project_that_cannot_be_installed_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = PYPROJECT.replace('packages = ["made_up"]', 'packages = ["not_here"]')
    code, _, said = unit(
        capsys, project(tmp_path / "p", {**FILES, "pyproject.toml": broken}), records=tmp_path
    )
    assert code == 3
    assert "the project cannot be installed with what its tests need" in said
    assert not (tmp_path / "unit.json").exists()


DEVICE_TEST = """\
import torch


def test_on_the_device():
    tensor = torch.ones(3, device="spyre") * 2
    assert tensor.device.type == "spyre"
    assert tensor.cpu().tolist() == [2.0, 2.0, 2.0]
"""


@pytest.mark.nightly
def test_the_emulated_device_is_there_where_a_project_wants_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], torch_installed: None
) -> None:
    del torch_installed
    files = {
        **FILES,
        "tests/unit/test_it.py": DEVICE_TEST,
        "spyre-ci.yaml": "package: {tests: {emulated: true, requirements: [pytest, numpy, torch]}}\n",
    }
    folder = project(tmp_path / "p", files)
    code, out, said = unit(capsys, folder, records=tmp_path / "records")
    assert (code, out) == (0, "1 test passed, 0 failed, 0 skipped\n"), said


def device(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(["package", "device", str(folder), "--cards", "2", "--json", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


CONFTEST = """\
import pytest


@pytest.fixture
def shared():
    return "from conftest"
"""
CRASHES = """

def test_crashes():
    import os

    os.abort()


def test_of_a_fixture(shared):
    assert shared == "from conftest"
"""


@pytest.mark.nightly
def test_device_tests_run_by_the_runner_and_a_crash_costs_one_test(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    torch_installed: None,
) -> None:
    del torch_installed
    files = {
        **FILES,
        "tests/conftest.py": CONFTEST,
        "tests/device/test_card.py": DEVICE_TEST + CRASHES,
    }
    # What is tested is what is installed beside this: a distribution of that name is enough.
    site = tmp_path / "site" / "made_up-1.2.3.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1.2.3\n")
    monkeypatch.syspath_prepend(str(site.parent))
    folder = project(tmp_path / "p", files)
    records = tmp_path / "records"
    code, out, said = device(capsys, folder, "--records", str(records))
    told = json.loads(out)
    assert code == 1, said
    assert told["verdicts"]["passed"] == 2
    assert told["verdicts"]["failed"] == 1
    assert told["version"] == "1.2.3"
    record = json.loads((records / "device.json").read_text())
    assert (record["passed"], record["run"], record["planned"]) == (False, told["run"], 3)
    assert os.environ["SPYRE_CI__STATE"] in str(next((tmp_path / "state").rglob("summary.json")))


def test_device_tests_of_a_project_that_is_not_installed_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, said = device(capsys, project(tmp_path / "p", FILES))
    assert code == 2
    assert "made-up is not installed in the environment of spyre-ci" in said
