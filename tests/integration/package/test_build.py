"""Building: real repositories, setuptools in an environment of its own, real archives."""

from __future__ import annotations

import json
import tarfile
import zipfile

import pytest

from tests.integration.package.conftest import PYPROJECT, Checkout


def test_a_commit_is_built_once_and_the_wheel_from_its_sdist(checkout: Checkout) -> None:
    commit = checkout.git("rev-parse", "HEAD").strip()
    (checkout.folder / "demo" / "secret.py").write_text("not committed")
    said = checkout.package("build", "--json", "--twice")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    version = f"0.3.0.dev1+g{commit[:9]}"
    assert told["version"] == version
    assert told["reproducible"] is True
    assert [one["name"] for one in told["files"]] == [
        f"demo-{version}.tar.gz", f"demo-{version}-py3-none-any.whl",
    ]  # fmt: skip
    assert "left out, not being in the repository: demo/secret.py" in said.err
    assert any(line.startswith("setuptools==") for line in told["environment"])
    record = json.loads((checkout.folder / ".spyre-ci/records/build.json").read_text())
    assert (record["commit"], record["passed"], record["files"]) == (commit, True, told["files"])
    seconds = int(checkout.git("log", "-1", "--format=%ct"))
    with tarfile.open(checkout.folder / "dist" / f"demo-{version}.tar.gz") as packed:
        assert {one.mtime for one in packed} == {seconds}
        assert not any("secret" in one.name for one in packed)
    with zipfile.ZipFile(checkout.folder / "dist" / f"demo-{version}-py3-none-any.whl") as archive:
        assert "demo/secret.py" not in archive.namelist()
    # The checkout itself is not written to.
    assert checkout.git("status", "--porcelain").strip() == "?? demo/secret.py"


@pytest.mark.nightly
def test_a_tag_gives_its_version_and_takes_the_place_of_what_was_built(checkout: Checkout) -> None:
    assert checkout.package("build", "--index", "testpypi").code == 0
    assert [one.name for one in sorted((checkout.folder / "dist").iterdir())] == [
        "demo-0.3.0.dev1-py3-none-any.whl", "demo-0.3.0.dev1.tar.gz",
    ]  # fmt: skip
    checkout.git("tag", "v0.3.0")
    said = checkout.package("build", "--keep-env")
    assert said.code == 0, said.err
    assert [one.name for one in sorted((checkout.folder / "dist").iterdir())] == [
        "demo-0.3.0-py3-none-any.whl", "demo-0.3.0.tar.gz",
    ]  # fmt: skip


@pytest.mark.nightly
def test_a_declared_version_is_that_of_the_file_it_is_kept_in(checkout: Checkout) -> None:
    dynamic = PYPROJECT.replace('version = "0.3.0"', 'dynamic = ["version"]')
    dynamic += '[tool.setuptools.dynamic]\nversion = {attr = "demo.version.__version__"}\n'
    settings = "package: {version: declared}\n"
    checkout.commit(
        {
            "pyproject.toml": dynamic,
            "demo/version.py": '__version__ = "1.2.3"\n',
            "spyre-ci.yaml": settings,
        }
    )
    said = checkout.package("build", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["version"] == "1.2.3"


def test_a_project_that_cannot_be_built_shows_its_last_lines(checkout: Checkout) -> None:
    checkout.commit({"setup.py": "raise SystemExit('no compiler for you')\n"})
    earlier = [checkout.folder / ".spyre-ci/records" / f"{step}.json" for step in ("build", "verify")]
    for path in earlier:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    said = checkout.package("build")
    assert not any(path.exists() for path in earlier)
    assert said.code == 1
    assert "the sdist of demo could not be built" in said.err
    assert "  | no compiler for you" in said.err
    assert "build.log" in said.err
    assert not (checkout.folder / "dist").exists()


def test_what_a_back_end_says_shows_no_password_of_an_index_and_no_token(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_INDEX_URL", "https://me:hunter2@index.example/simple")
    monkeypatch.setenv("CI_JOB_TOKEN", "hunter3")
    system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    project = system + PYPROJECT.partition("\n\n")[2]
    backend = "import os\n\ndef build_sdist(*_):\n    raise SystemExit(print(dict(os.environ)) or 1)\n"
    checkout.commit({"pyproject.toml": project, "backend.py": backend})
    said = checkout.package("build")
    assert said.code == 1
    assert "UV_INDEX_URL" in said.err
    logs = [path.read_text() for path in checkout.folder.rglob("build.log")]
    assert any("UV_INDEX_URL" in text for text in logs)
    for text in (said.out, said.err, *logs):
        assert "hunter" not in text


def test_a_requirement_that_is_not_to_be_had_is_said(checkout: Checkout) -> None:
    wanted = PYPROJECT.replace("setuptools>=77", "setuptools>=77,<60")
    checkout.commit({"pyproject.toml": wanted})
    said = checkout.package("build")
    assert said.code == 2
    assert "No matching distribution found" in said.err


@pytest.mark.nightly
def test_a_version_the_back_end_takes_from_elsewhere_is_refused(checkout: Checkout) -> None:
    elsewhere = PYPROJECT.replace('version = "0.3.0"\n', 'dynamic = ["version"]\n')
    checkout.commit(
        {
            "pyproject.toml": elsewhere,
            "setup.py": "from setuptools import setup\nsetup(version='9.9')\n",
            "demo/version.py": "__version__ = '0.3.0'\n",
            "spyre-ci.yaml": "package: {version_file: demo/version.py}\n",
        }
    )
    said = checkout.package("build")
    assert said.code == 1
    assert "demo-9.9.tar.gz was built, and version 0.0.1.dev2+g" in said.err


@pytest.mark.nightly
def test_the_projects_own_settings_hold_wherever_it_is_called(checkout: Checkout) -> None:
    checkout.commit({"spyre-ci.yaml": "package: {version: declared, dist: out}\n", ".gitignore": "out/\n"})
    said = checkout.package("build")
    assert said.code == 0, said.err
    assert (checkout.folder / "out" / "demo-0.3.0.tar.gz").is_file()


def test_a_folder_without_a_project_is_said(checkout: Checkout) -> None:
    said = checkout.spyre_ci("package", "build", str(checkout.folder / "demo"))
    assert said.code == 2
    assert "there is no pyproject.toml here" in said.err


def test_an_index_nobody_knows_is_said(checkout: Checkout) -> None:
    said = checkout.package("build", "--index", "nowhere")
    assert said.code == 2
    assert "there is no index 'nowhere'" in said.err
    assert "known: testpypi, pypi" in said.err


def test_a_folder_with_a_wheels_name_is_said_before_anything_is_built(checkout: Checkout) -> None:
    (checkout.folder / "dist" / "old.whl").mkdir(parents=True)
    said = checkout.package("build")
    assert said.code == 2
    assert "old.whl: is no file" in said.err
    assert "demo: sdist" not in said.err


def test_a_link_into_the_checkout_is_not_written_through(checkout: Checkout) -> None:
    kept = checkout.folder / "conf" / "pyproject.toml"
    checkout.commit({"conf/pyproject.toml": PYPROJECT})
    (checkout.folder / "pyproject.toml").unlink()
    (checkout.folder / "pyproject.toml").symlink_to(kept)
    checkout.commit()
    said = checkout.package("build")
    assert said.code == 2
    assert "make it a link that is relative and stays in the project" in said.err
    assert kept.read_text() == PYPROJECT


def test_a_link_that_leads_out_is_refused(checkout: Checkout) -> None:
    (checkout.folder / "demo" / "link.py").symlink_to("/etc/hostname")
    checkout.commit()
    said = checkout.package("build")
    assert said.code == 2
    assert "is a link that leads out of the project" in said.err
