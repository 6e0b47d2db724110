"""What is written: workflows that trust little and hold no logic, and settings, for any back end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.config.load import parse_settings
from ci.init.checkout import Place, github_name
from ci.init.detect import BackEnd
from ci.init.files import JENKINSFILE, SETTINGS, TEMPLATES, Status, compare, render
from ci.init.toolkit import Toolkit

ROOT = Path(__file__).parents[3]
SHA, NEWER = "1234567890abcdef1234567890abcdef12345678", "2" * 40
SPYRE = BackEnd(device="spyre", package="torch_spyre", project="torch_spyre")
ACME = BackEnd(device="acme", package="torch_acme", project="torch-acme")
WORKFLOW = ".github/workflows/spyre-ci.yml"


def rendered(
    back_end: BackEnd = SPYRE, *, ref: str = SHA, minimal: bool = False, **place: Any
) -> dict[str, str]:
    toolkit = Toolkit(repository="torch-spyre/spyre-ci", ref=ref, version="0.1.0")
    stands = Place(folder=Path("/p"), **place)
    return render(back_end, stands, toolkit, minimal=minimal, suites="tests/configs")


def settings(text: str) -> Any:
    return parse_settings(text, path=Path(SETTINGS), environ={}, base=Path())


@pytest.mark.parametrize(
    ("back_end", "place", "origins"),
    [
        (SPYRE, {"repository": "torch-spyre/torch-spyre"}, {"device.emulated"}),
        (SPYRE, {"repository": "me/fork"}, {"device.emulated", "report.repository"}),
        (BackEnd(device="acme", package="acme_torch", project="torch-acme"), {},
         {"device.name", "device.install", "pipeline.device_runner", "pipeline.environment", "matrix.labels",
          "package.toplevel"}),
    ],
)  # fmt: skip
def test_settings_hold_what_differs_and_nothing_else(
    back_end: BackEnd, place: dict[str, Any], origins: set[str]
) -> None:
    text = rendered(back_end, **place)[SETTINGS]
    found = settings(text)
    assert found.origins.keys() == origins
    assert found.model.device.name == back_end.device
    assert "https://github.com/torch-spyre/spyre-ci#readme" in text
    # What a comment offers can be taken out of it.
    assert settings(re.sub(r"^# (pytorch:)", r"\1", text, flags=re.MULTILINE)).model.pytorch.suite == Path(
        "tests/configs"
    )


@pytest.mark.parametrize("name", ["on", "no", "null", "true", "y"])
def test_a_name_that_yaml_has_another_meaning_for_stays_a_name(name: str) -> None:
    model = settings(rendered(BackEnd(device=name, package=name, project="other"))[SETTINGS]).model
    assert (model.device.name, model.package.toplevel) == (name, [name])


def test_minimal_is_settings_and_one_workflow_and_a_folder_below_gets_settings() -> None:
    assert list(rendered()) == list(TEMPLATES)
    assert list(rendered(minimal=True)) == [SETTINGS, WORKFLOW]
    assert list(rendered(is_root=False)) == [SETTINGS]


@pytest.mark.parametrize("path", [path for path in TEMPLATES if path.startswith(".github")])
def test_a_workflow_calls_the_toolkits_and_trusts_little(path: str) -> None:
    text = rendered()[path]
    content = yaml.safe_load(text)
    assert content["permissions"] == {}
    assert content["concurrency"]["group"].startswith("spyre-ci-")
    (job,) = content["jobs"].values()
    called = job.pop("uses")
    assert set(job) == {"name", "permissions"}
    workflow = re.fullmatch(r"torch-spyre/spyre-ci/\.github/workflows/([a-z-]+\.yml)@" + SHA, called)
    assert workflow is not None
    assert f"{called} # v0.1.0" in text
    theirs = yaml.safe_load((ROOT / ".github" / "workflows" / workflow[1]).read_text(encoding="utf-8"))
    # YAML 1.1 reads the key `on` as true.
    assert "workflow_call" in theirs[True]
    assert content[True].keys() <= theirs[True].keys()
    granted = {right for one in theirs["jobs"].values() for right in one["permissions"].items()}
    assert set(job["permissions"].items()) == granted
    assert all(re.search(rf"^ +{right}: \w+ # \w", text, re.MULTILINE) for right in job["permissions"])
    assert "@v0.1.0 # zizmor: ignore[unpinned-uses] a tag" in rendered(ref="v0.1.0")[path]


def test_the_comment_follows_the_workflows_that_are_written() -> None:
    found = {path: yaml.safe_load(text) for path, text in rendered().items() if path.startswith(".github")}
    followed = found[".github/workflows/spyre-ci-comment.yml"][True]["workflow_run"]["workflows"]
    assert set(followed) <= {one["name"] for one in found.values()}


@pytest.mark.parametrize("branch", ["on", "1.0", "release/2"])
def test_branches_are_texts_whatever_they_are_called(branch: str) -> None:
    assert yaml.safe_load(rendered(branch=branch)[WORKFLOW])[True]["push"]["branches"] == [branch]


@pytest.mark.parametrize(("ref", "commit"), [(SHA, SHA), ("v1.0", "refs/tags/v1.0"), ("main", "main")])
def test_a_jenkinsfile_calls_steps_and_sessions_that_are_there(ref: str, commit: str) -> None:
    text = rendered(BackEnd(device="acme", package="p", project="p" * 100), ref=ref)[JENKINSFILE]
    assert f" commit: '{commit}'," in text
    assert max(map(len, text.splitlines())) <= 120
    assert re.findall(r"^\s*agent .*", text, re.MULTILINE) == ["    agent none"]
    assert not re.search(r"\bsh\b|\bstash\b|^ {0,8}timeout\b", text, re.MULTILINE)
    steps = {path.stem for path in (ROOT / "jenkins" / "vars").glob("*.groovy")}
    assert set(re.findall(r"\b(spyre[A-Z]\w+)\(", text)) <= steps
    noxfile = (ROOT / "noxfile.py").read_text("utf-8")
    sessions = re.findall(r"^@nox\.session.*\ndef (\w+)", noxfile, re.MULTILINE)
    assert set(re.findall(r"session: '(\w+)'", text)) <= set(sessions)


@pytest.mark.parametrize("path", [WORKFLOW, JENKINSFILE])
def test_files_keep_the_commit_they_call_unless_a_toolkit_is_named(tmp_path: Path, path: str) -> None:
    """Dependabot renews it, and that is no difference."""
    texts = {path: rendered(ref=NEWER)[path]}
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    old = rendered()[path].replace("# v0.1.0", "# v0.0.9").replace("torch-spyre/spyre-ci", "me/fork")
    (tmp_path / path).write_bytes(old.replace("\n", "\r\n").encode())
    assert compare(tmp_path, texts)[0].status is Status.UNCHANGED
    (named,) = compare(tmp_path, texts, toolkit_named=True)
    assert named.status is Status.DIFFERS
    assert f"-{old.splitlines()[-1]}" in named.difference or JENKINSFILE in path
    assert NEWER in named.difference


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://github.com/acme/torch-acme", "acme/torch-acme"),
        ("https://user:secret@github.com/acme/torch-acme.git", "acme/torch-acme"),
        ("git@github.com:acme/torch.acme.git", "acme/torch.acme"),
        ("ssh://git@github.com/acme/a/", "acme/a"),
        ("https://github.example.com/acme/a", ""),
        ("https://notgithub.com/acme/a", ""),
        ("https://github.com/acme", ""),
        ("/srv/git/github.com", ""),
        ("", ""),
    ],
)
def test_a_repository_is_known_by_its_address_on_github(address: str, name: str) -> None:
    assert github_name(address) == name
