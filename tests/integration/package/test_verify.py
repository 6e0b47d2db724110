"""Verifying and releasing what was built: twine, check-wheel-contents, validate-pyproject, pip."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.calls import Said
from tests.integration.package.conftest import PYPROJECT, Checkout
from tests.packages import make_wheel


def built(checkout: Checkout, files: dict[str, str] | None = None) -> None:
    if files:
        checkout.commit(files)
    said = checkout.package("build")
    assert said.code == 0, said.err


def failed(said: Said) -> list[str]:
    """The checks that did not pass."""
    return [line.removeprefix("FAIL ") for line in said.err.splitlines() if line.startswith("FAIL")]


@pytest.mark.gate
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
    assert len(tried) == 2
    record = json.loads((checkout.folder / ".spyre-ci/records/verify.json").read_text())
    assert record["passed"] is True
    assert record["files"] == told["files"]
    released(checkout)


def released(checkout: Checkout) -> None:
    """A release of what was verified, with a key; beside the test above, whose build it uses."""
    said = checkout.package("release", "--index", "testpypi")
    assert said.code == 1
    assert "testpypi: the merge gate is shut\n  lint: was not run" in said.err
    words = ["--override", "lint", "--override", "unit", "--by", "Ada", "--reason", "first of its kind"]
    said = checkout.package("release", "--index", "testpypi", *words)
    assert said.code == 0, said.err
    records = checkout.folder / ".spyre-ci/records"
    content = json.loads((records / "release.json").read_text())
    assert [one["check"] for one in content["gates"]["overrides"]] == ["lint", "unit"]
    assert content["gates"]["overrides"][0]["by"] == "Ada"
    sums = subprocess.run(
        ["sha256sum", "--check", str(records / "SHA256SUMS")],
        cwd=checkout.folder / "dist", check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert sums.returncode == 0, sums.stdout


def test_a_statement_is_signed_and_checked(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    for words in (
        ["genpkey", "-algorithm", "ed25519", "-out", str(private)],
        ["pkey", "-in", str(private), "-pubout", "-out", str(public)],
    ):
        subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)
    wheel = make_wheel(checkout.folder / "dist")
    monkeypatch.setenv("SPYRE_CI_SIGNING_KEY", private.read_text())
    said = checkout.package("release", "--index", "testpypi")
    assert private.read_text().splitlines()[1] not in said.out + said.err
    statement = checkout.folder / ".spyre-ci/records/demo-1.0.intoto.json"
    words = ["package", "check-statement", str(statement), "--key", str(public)]
    assert checkout.spyre_ci(*words, str(wheel)).code == 0
    make_wheel(checkout.folder / "dist", files={"demo/__init__.py": "changed"})
    said = checkout.spyre_ci(*words, str(wheel))
    assert said.code == 1
    assert "the statement says" in said.err
    said = checkout.spyre_ci("package", "check-statement", str(statement), "--key", str(tmp_path / "gone"))
    assert said.code == 2
    assert "there is no such file" in said.err


# No licence, a package too many, a classifier that there is not, and a README that cannot be rendered.
FAULTY = (
    PYPROJECT.replace('license = "Apache-2.0"\n', "")
    .replace('["LICENSE"]', "[]")
    .replace('["demo"]', '["demo", "stray"]')
    .replace("requires-python", 'classifiers = ["Nonsense"]\nrequires-python')
    .replace("README.md", "README.rst")
)
BROKEN = "demo\n====\n\n.. nosuch:: directive\n\n`broken <\n"


def test_what_must_not_be_published_is_named(checkout: Checkout) -> None:
    built(checkout, {"README.rst": BROKEN, "pyproject.toml": FAULTY, "stray/__init__.py": ""})
    checks = ["pyproject.toml", "sdist twine check", "sdist licence"]
    checks += ["wheel twine check", "wheel licence", "wheel top level"]
    said = checkout.package("verify", "--no-install")
    assert said.code == 1, said.err
    found = failed(said)
    assert sorted(next((one for one in checks if one in line), line) for line in found) == sorted(checks)
    assert "6 of " in said.err


@pytest.mark.nightly
def test_files_that_were_built_of_another_commit_are_named(checkout: Checkout) -> None:
    built(checkout)
    checkout.commit()
    assert any("build record: built of" in one for one in failed(checkout.package("verify", "--no-install")))


@pytest.mark.nightly
def test_an_interpreter_that_is_not_there_is_said(checkout: Checkout) -> None:
    built(checkout, {"spyre-ci.yaml": "package: {pythons: [python3.99]}\n"})
    said = checkout.package("verify")
    assert said.code == 2
    assert "there is no interpreter 'python3.99'" in said.err


def test_notes_come_from_the_fragments_and_go_into_the_changelog(checkout: Checkout) -> None:
    assert (
        "keeps no change fragments" in checkout.spyre_ci("package", "notes", "1.0", str(checkout.folder)).err
    )
    towncrier = '\n[tool.towncrier]\ndirectory = "changes"\nfilename = "CHANGES.md"\nname = "demo"\n'
    checkout.commit(
        {"pyproject.toml": PYPROJECT + towncrier, "changes/7.feature.md": "It says more.\n", "CHANGES.md": ""}
    )
    said = checkout.spyre_ci("package", "notes", "1.0", str(checkout.folder))
    assert said.code == 0, said.err
    assert "It says more." in said.out
    assert checkout.git("status", "--porcelain") == ""
    said = checkout.spyre_ci("package", "changelog", "1.0", str(checkout.folder))
    assert said.code == 0, said.err
    assert "It says more." in (checkout.folder / "CHANGES.md").read_text()
    assert not (checkout.folder / "changes" / "7.feature.md").exists()


@pytest.mark.nightly
def test_what_was_built_of_a_changed_checkout_is_of_one_when_the_changes_are_gone(checkout: Checkout) -> None:
    checkout.commit({"spyre-ci.yaml": "package: {version: declared}\n"})
    (checkout.folder / "README.md").write_text("# changed\n")
    built(checkout)
    checkout.git("checkout", "--", ".")
    said = checkout.package("verify", "--no-install")
    assert "with changes: nothing of it is published (1 changed)" in said.err
    record = json.loads((checkout.folder / ".spyre-ci/records/verify.json").read_text())
    assert record["dirty"] == ["README.md"]
    said = checkout.package("publish", "--index", "testpypi", "--dry-run")
    assert said.code == 1
    assert "checkout when it was built or verified: differs from its commit: README.md" in said.err
    assert checkout.package("release", "--index", "testpypi").code == 1
    release = json.loads((checkout.folder / ".spyre-ci/records/release.json").read_text())
    assert release["source"]["dirty"] == ["README.md"]


TOWNCRIER = '\n[tool.towncrier]\ndirectory = "changes"\nfilename = "CHANGES.md"\nname = "demo"\n'


def test_a_template_for_notes_sees_none_of_the_jobs_secrets(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = "{% for key in cycler.__init__.__globals__.os.environ %}{{ key }}\n{% endfor %}"
    checkout.commit(
        {
            "pyproject.toml": PYPROJECT + TOWNCRIER + 'template = "notes.jinja"\n',
            "changes/7.feature.md": "It says more.\n",
            "notes.jinja": template,
        }
    )
    monkeypatch.setenv("SPYRE_CI_INDEX_TOKEN", "hunter2")
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "hunter2")
    for verb in ("notes", "changelog"):
        said = checkout.spyre_ci("package", verb, "1.0", str(checkout.folder))
        assert said.code == 0, said.err
        shown = said.out if verb == "notes" else (checkout.folder / "CHANGES.md").read_text()
        assert "PATH" in shown.split()
        assert "TOKEN" not in shown


def test_a_changelog_outside_the_project_is_refused(checkout: Checkout, tmp_path: Path) -> None:
    outside = tmp_path / "theirs.md"
    outside.write_text("theirs\n")
    configuration = TOWNCRIER.replace("CHANGES.md", "../theirs.md")
    checkout.commit({"pyproject.toml": PYPROJECT + configuration, "changes/7.feature.md": "It says more.\n"})
    said = checkout.spyre_ci("package", "changelog", "1.0", str(checkout.folder))
    assert said.code == 2
    assert "towncrier's filename leads out of the project: ../theirs.md" in said.err
    assert outside.read_text() == "theirs\n"


@pytest.mark.parametrize("version", ["not a version", "", "--help", "1.0 --config=x"])
@pytest.mark.parametrize("verb", ["notes", "changelog"])
def test_notes_are_of_a_version(checkout: Checkout, verb: str, version: str) -> None:
    checkout.commit({"pyproject.toml": PYPROJECT + TOWNCRIER, "changes/7.feature.md": "It says more.\n"})
    said = checkout.spyre_ci("package", verb, "--", version, str(checkout.folder))
    assert (said.code, said.out) == (2, "")
    assert f"{version!r} is no version" in said.err


def test_a_fragment_commands_no_ci(checkout: Checkout) -> None:
    fragment = "More.\n\n::add-mask::a\n##[group]b\n"
    checkout.commit({"pyproject.toml": PYPROJECT + TOWNCRIER, "changes/7.feature.md": fragment})
    said = checkout.spyre_ci("package", "notes", "1.0", str(checkout.folder))
    assert "add-mask" in said.out
    assert not [line for line in said.out.splitlines() if line.strip().startswith("::") or "##[" in line]
