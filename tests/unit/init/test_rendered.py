"""What is written: workflows that trust little and hold no logic, settings, for any back end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci.config import SettingsModel
from ci.config.load import parse_settings
from ci.init.checkout import Place
from ci.init.detect import BackEnd
from ci.init.rendered import JENKINSFILE, SETTINGS, Checkout, quiet, render
from ci.init.toolkit import Toolkit

ROOT = Path(__file__).parents[3]
SHA = "1234567890abcdef1234567890abcdef12345678"
SPYRE = BackEnd(device="spyre", package="torch_spyre", project="torch_spyre")
ACME = BackEnd(device="acme", package="torch_acme", project="torch-acme")
KEYS = st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), max_size=12)


def checkout(back_end: BackEnd = SPYRE, **changes: Any) -> Checkout:
    toolkit = Toolkit(repository="torch-spyre/spyre-ci", ref=changes.pop("ref", SHA), version="0.1.0")
    place = Place(folder=Path("/p"), **{"is_root": True, **changes})
    return Checkout(back_end=back_end, place=place, toolkit=toolkit)


def workflows(**changes: Any) -> dict[str, str]:
    return {path: text for path, text in render(checkout(**changes)).items() if path.startswith(".github/")}


def set_in(text: str) -> dict[str, Any]:
    """What settings set, by dotted key."""
    return dict(parse_settings(text, path=Path(SETTINGS), environ={}, base=Path()).origins)


def test_for_spyre_nothing_is_set_but_that_its_ci_may_emulate_it() -> None:
    assert set_in(render(checkout())[SETTINGS]) == {"device.emulated": "file"}


def test_another_back_end_wants_settings_only() -> None:
    texts = render(checkout(ACME, repository="acme/torch-acme"))
    model = parse_settings(texts[SETTINGS], path=Path(SETTINGS), environ={}, base=Path()).model
    assert (model.device.name, model.device.install) == ("acme", ["."])
    assert (model.pipeline.environment, model.matrix.labels) == ("own", ["ubuntu-latest"])
    assert model.report.repository == "acme/torch-acme"
    others = render(checkout(repository="acme/torch-acme"))
    # The rest differs by the project's name, the night's minute and what stands in for a card.
    assert {
        path for path in texts if path not in {SETTINGS, JENKINSFILE} and texts[path] != others[path]
    } <= {".github/workflows/spyre-ci-nightly.yml"}


def test_a_package_that_is_called_otherwise_than_its_project_is_named() -> None:
    other = BackEnd(device="acme", package="acme_torch", project="torch-acme")
    assert set_in(render(checkout(other))[SETTINGS])["package.toplevel"] == "file"


@pytest.mark.parametrize("back_end", [SPYRE, ACME])
def test_whatever_is_a_comment_can_be_taken_out_of_it(back_end: BackEnd) -> None:
    text = render(checkout(back_end))[SETTINGS]
    # `key: value` and `key:` are settings, a sentence is none.
    free = re.sub(r"^( *)# ([a-z_]+:(?: .*)?)$", r"\1\2", text, flags=re.MULTILINE)
    found = set_in(free.replace("owner/name", "o/n"))
    assert {"stage", "pytorch.suite", "run.cards", "pipeline.forks", "package.tests.unit"} <= found.keys()


def test_what_is_shown_as_a_default_is_the_default() -> None:
    text = render(checkout())[SETTINGS]
    free = re.sub(r"^( *)# ([a-z_]+:(?: .*)?)$", r"\1\2", text, flags=re.MULTILINE)
    shown = parse_settings(free.replace("owner/name", "o/n"), path=Path(SETTINGS), environ={}, base=Path())
    examples = {
        "device.install", "pytorch.source", "pytorch.suite", "report.repository",
        "device.emulated", "pipeline.pull_request_stage",
        "package.toplevel", "package.tests.unit", "package.tests.device",
    }  # fmt: skip
    for key in shown.origins.keys() - examples:
        value: Any = shown.model
        default: Any = SettingsModel()
        for part in key.split("."):
            value, default = getattr(value, part), getattr(default, part)
        assert value == default, key


def test_below_a_repositorys_folder_there_are_settings_alone() -> None:
    assert list(render(checkout(is_root=False))) == [SETTINGS]


@pytest.mark.parametrize("path", workflows())
def test_a_workflow_calls_the_toolkits_and_trusts_little(path: str) -> None:
    text = workflows()[path]
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
    # YAML 1.1 takes the key `on` for a truth.
    assert "workflow_call" in theirs[True]
    # It is begun by what the called one knows of.
    assert content[True].keys() <= theirs[True].keys()
    granted = {right for one in theirs["jobs"].values() for right in one["permissions"].items()}
    assert set(job["permissions"].items()) == granted
    assert all(re.search(rf"^ +{right}: \w+ # \w", text, re.MULTILINE) for right in job["permissions"])


def test_the_comment_follows_the_workflows_that_are_written() -> None:
    found = workflows()
    followed = yaml.safe_load(found[".github/workflows/spyre-ci-comment.yml"])[True]["workflow_run"]
    names = {yaml.safe_load(text)["name"] for text in found.values()}
    assert set(followed["workflows"]) <= names


def test_what_is_no_commit_is_said_to_be_none() -> None:
    for text in workflows(ref="v0.1.0").values():
        assert "@v0.1.0 # zizmor: ignore[unpinned-uses] named by" in text


@pytest.mark.parametrize(("ref", "wanted"), [(SHA, SHA), ("v1.0", "refs/tags/v1.0"), ("main", "main")])
def test_jenkins_checks_the_toolkit_out_by_what_it_finds(ref: str, wanted: str) -> None:
    assert f" commit: '{wanted}'," in render(checkout(ref=ref))[JENKINSFILE]


def test_a_jenkinsfile_takes_its_steps_from_the_library() -> None:
    text = render(checkout())[JENKINSFILE]
    assert "@Library('spyre-ci') _" in text
    assert re.findall(r"^\s*agent .*", text, re.MULTILINE) == ["    agent none"]
    assert not re.search(r"\bsh\b|\bstash\b|^ {0,8}timeout\b", text, re.MULTILINE)
    steps = {path.stem for path in (ROOT / "jenkins" / "vars").glob("*.groovy")}
    assert set(re.findall(r"\b(spyre[A-Z]\w+)\(", text)) <= steps
    sessions = re.findall(
        r"^@nox\.session.*\ndef (\w+)", (ROOT / "noxfile.py").read_text("utf-8"), re.MULTILINE
    )
    assert set(re.findall(r"session: '(\w+)'", text)) <= set(sessions)


def test_branches_are_texts_whatever_they_are_called() -> None:
    for branch in ("on", "1.0", "release/2"):
        found = yaml.safe_load(workflows(branch=branch)[".github/workflows/spyre-ci.yml"])
        assert found[True]["push"]["branches"] == [branch]


@pytest.mark.parametrize("name", ["on", "no", "null", "true", "y", "acme"])
def test_a_name_that_yaml_has_another_meaning_for_stays_a_name(name: str) -> None:
    back_end = BackEnd(device=name, package=name, project="other")
    text = render(checkout(back_end))[SETTINGS]
    model = parse_settings(text, path=Path(SETTINGS), environ={}, base=Path()).model
    assert (model.device.name, model.package.toplevel) == (name, [name])


def test_no_line_of_a_jenkinsfile_is_long_but_for_a_long_name() -> None:
    text = render(checkout(BackEnd(device="acme", package="p", project="p" * 100)))[JENKINSFILE]
    assert max(map(len, text.splitlines())) <= 120


def test_the_same_is_written_whenever_it_is_asked() -> None:
    assert render(checkout(ACME)) == render(checkout(ACME))


@given(KEYS)
def test_no_section_is_left_without_anything_in_it(rows: list[tuple[int, bool, bool]]) -> None:
    lines, depth = [], 0
    for number, (wanted, heading, sets) in enumerate(rows):
        depth = min(wanted, depth)
        mark = "" if heading or sets else "# "
        lines.append(f"{'  ' * depth}{mark}k{number}:{'' if heading else ' 1'}")
        depth += heading
    found = yaml.safe_load(quiet("\n".join(lines) + "\n"))
    values = [found or {}]
    while values:
        one = values.pop()
        assert one is not None
        values += list(one.values()) if isinstance(one, dict) else []
    # What sets something still does.
    assert len(re.findall(r"^ *k\d+: 1$", quiet("\n".join(lines)), re.MULTILINE)) == sum(
        not heading and sets for _, heading, sets in rows
    )
