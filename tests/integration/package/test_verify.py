"""Verifying and releasing what was built, with twine, check-wheel-contents, validate-pyproject and pip."""

from __future__ import annotations

import json
import subprocess

import pytest

from ci.package.records import LINT, UNIT, Record, write_record
from test_selection.files import write_json
from tests.calls import Said
from tests.integration.package.conftest import FILES, PYPROJECT, Checkout


def built(checkout: Checkout, files: dict[str, str] | None = None) -> None:
    if files:
        checkout.commit(files)
    said = checkout.package("build")
    assert said.code == 0, said.err


def failed(said: Said) -> list[str]:
    """The checks that did not pass."""
    return [line.removeprefix("FAIL ") for line in said.err.splitlines() if line.startswith("FAIL")]


@pytest.mark.nightly
def test_what_was_built_is_checked_installed_and_tried(checkout: Checkout) -> None:
    smoke = "import demo, pathlib, subprocess\n\n\ndef test_it_says_it(capsys):\n    demo.main()\n"
    smoke += "    assert 'site-packages' in demo.__file__\n    assert capsys.readouterr().out == 'demo\\n'\n"
    settings = "package: {smoke: [tests/smoke]}\n"
    built(checkout, {"tests/smoke/test_demo.py": smoke, "spyre-ci.yaml": settings})
    said = checkout.package("verify", "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    assert all(one["passed"] for one in told["checks"])
    tried = [one["seen"] for one in told["checks"] if " on Python 3.11" in one["check"]]
    assert tried == [
        "installs, imports demo; smoke tests: 1 passed in " + one.split("passed in ")[1] for one in tried
    ]
    assert len(tried) == 1
    record = json.loads((checkout.folder / ".spyre-ci/records/verify.json").read_text())
    assert record["passed"] is True
    assert record["files"] == told["files"]
    released(checkout)


def released(checkout: Checkout) -> None:
    """A release of what was verified; beside the test above, whose build it uses."""
    said = checkout.package("release", "--index", "testpypi")
    assert said.code == 1
    assert "lint: was not run" in said.err
    commit = checkout.git("rev-parse", "HEAD")
    for step in (LINT, UNIT):
        record = Record(step=step, project="demo", commit=commit, passed=True, details={})
        write_record(checkout.folder / ".spyre-ci/records", record)
    run = checkout.folder / ".spyre-ci" / "summary.json"
    identity = {
        "run": "nightly-7",
        "run_id": 7,
        "url": "",
        "stage": 1,
        "percent": 5.0,
        "pytorch_sha": "d" * 40,
    }
    content = {"identity": identity, "planned": 1, "verdicts": {"passed": 1}}
    for code in (1, 0):
        write_json(run, "summary", {**content, "exit_code": code})
        said = checkout.package("release", "--index", "testpypi", "--run", str(run))
        assert said.code == code, said.err
    records = checkout.folder / ".spyre-ci/records"
    told = json.loads((records / "release.json").read_text())
    assert told["runs"] == [{"identity": identity, "planned": 1, "verdicts": {"passed": 1}, "exit_code": 0}]
    assert checkout.package("release", "--image", "demo:latest").code == 2
    sums = subprocess.run(
        ["sha256sum", "--check", str(records / "SHA256SUMS")],
        cwd=checkout.folder / "dist", check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert sums.returncode == 0, sums.stdout


@pytest.mark.nightly
def test_what_a_runtime_image_alone_has_is_found_beside_it(checkout: Checkout) -> None:
    """Yaml stands for a module of the image, which no index has."""
    built(checkout, {"demo/__init__.py": FILES["demo/__init__.py"] + "\n\nimport yaml\n"})
    said = checkout.package("verify")
    assert said.code == 1
    assert "No module named 'yaml'" in said.err
    assert "verify --no-isolation in that image" in said.err
    said = checkout.package("verify", "--no-isolation")
    assert said.code == 0, said.err


# A package too many, a classifier that there is not, and a README that cannot be rendered.
FAULTY = (
    PYPROJECT.replace('["demo"]', '["demo", "stray"]')
    .replace("requires-python", 'classifiers = ["Nonsense"]\nrequires-python')
    .replace("README.md", "README.rst")
)
BROKEN = "demo\n====\n\n.. nosuch:: directive\n\n`broken <\n"


def test_what_must_not_be_published_is_named(checkout: Checkout) -> None:
    built(checkout, {"README.rst": BROKEN, "pyproject.toml": FAULTY, "stray/__init__.py": ""})
    checks = ["pyproject.toml", "sdist twine check", "wheel twine check", "wheel check-wheel-contents"]
    said = checkout.package("verify", "--no-install")
    assert said.code == 1, said.err
    found = failed(said)
    assert sorted(next((one for one in checks if one in line), line) for line in found) == sorted(checks)
    assert "W202: Wheel library has undeclared toplevel entry: stray/" in found[-1]


@pytest.mark.nightly
def test_files_that_were_built_of_another_commit_are_named(checkout: Checkout) -> None:
    built(checkout)
    checkout.commit()
    assert any(
        "build record: built from" in one for one in failed(checkout.package("verify", "--no-install"))
    )


@pytest.mark.nightly
def test_an_interpreter_that_is_not_there_is_said(checkout: Checkout) -> None:
    built(checkout, {"spyre-ci.yaml": "package: {pythons: [python3.99]}\n"})
    said = checkout.package("verify")
    assert said.code == 2
    assert "the interpreter 'python3.99' is not found or does not run" in said.err


@pytest.mark.nightly
def test_what_was_built_of_a_changed_checkout_is_of_one_when_the_changes_are_gone(checkout: Checkout) -> None:
    checkout.commit({"spyre-ci.yaml": "package: {version: declared}\n"})
    (checkout.folder / "README.md").write_text("# changed\n")
    built(checkout)
    checkout.git("checkout", "--", ".")
    said = checkout.package("verify", "--no-install")
    assert "with 1 uncommitted change: it cannot be published" in said.err
    record = json.loads((checkout.folder / ".spyre-ci/records/verify.json").read_text())
    assert record["dirty"] == ["README.md"]
    said = checkout.package("publish", "--index", "testpypi", "--dry-run")
    assert said.code == 1
    assert "checkout when it was built or verified: differs from its commit: README.md" in said.err
