"""Which of a project's tests need a card, and how the runner is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.config import load_settings
from ci.config.package_model import PackageTests
from ci.core.errors import MissingInputError, UsageError
from ci.package.device_tests import Choice, choose, installed_version, rules_text
from ci.package.project import Project, ProjectTable, Pyproject
from test_selection.rules import load_rules


def chosen(folder: Path, there: str, *device: str) -> Choice:
    for name in there.split():
        path = folder / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch() if path.suffix else path.mkdir(exist_ok=True)
    return choose(PackageTests(device=list(device), device_marker="card"), folder / "p")


@pytest.mark.parametrize(
    ("there", "choice"),
    [
        ("tests/device", Choice(base="tests", files=("device/*",))),
        ("tests/unit", Choice(base="tests", marker="card")),
        ("test/a.py", Choice(base="test", marker="card")),
    ],
)
def test_the_folder_of_device_tests_or_else_the_marker_decides(
    tmp_path: Path, there: str, choice: Choice
) -> None:
    assert chosen(tmp_path, there) == choice


@pytest.mark.parametrize(
    ("named", "base", "files"),
    [
        (("tests/cards", "tests/test_one.py"), "tests", ("cards/*", r"test_one.py")),
        (("tests",), "tests", ("*",)),
        (("hardware/test_x.py",), "", ("hardware/test_x.py",)),
        (("tests/cards/", "./hardware/a"), "", ("tests/cards/*", "hardware/a/*")),
    ],
)
def test_what_the_settings_name_runs(
    tmp_path: Path, named: tuple[str, ...], base: str, files: tuple[str, ...]
) -> None:
    there = "tests/cards tests/test_one.py hardware/a hardware/test_x.py"
    assert chosen(tmp_path, there, *named) == Choice(base=base, files=files)


@pytest.mark.parametrize("named", ["gone", "../other", "/etc"])
def test_what_is_not_in_the_project_is_refused(tmp_path: Path, named: str) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(MissingInputError, match="package.tests.device: the project has no"):  # noqa: RUF043  # dots
        chosen(tmp_path, "tests", named)


def test_a_project_without_tests_is_told_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the project has no folder tests or test"):
        chosen(tmp_path, "src")


@pytest.mark.parametrize(("marker", "verdicts"), [("", ["in"]), ("card", ["in", "out"])])
def test_the_rules_are_rules_of_a_scope(tmp_path: Path, marker: str, verdicts: list[str]) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(rules_text(marker))
    assert [rule.verdict for rule in load_rules(path).rules] == verdicts


def test_a_project_that_is_not_installed_here_cannot_be_tested_here() -> None:
    project = Project(folder=Path("/p"), pyproject=Pyproject(project=ProjectTable(name="Not-Here")))
    with pytest.raises(
        UsageError, match="Not-Here is not installed in the environment of spyre-ci"
    ) as caught:
        installed_version(project)
    assert "pip install" in str(caught.value)


def test_such_a_run_tells_nobody_and_keeps_to_its_own_history(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    from rich.console import Console  # noqa: PLC0415  # beside what it is for

    from ci.cli.device_run import Asked, settings_for  # noqa: PLC0415
    from ci.package.device_tests import View  # noqa: PLC0415

    text = "report: {endpoint: 'https://hud.example'}\npytorch: {files: [a], source: x}\nrun: {retries: 2}\n"
    (tmp_path / "spyre-ci.yaml").write_text(text)
    settings = load_settings(path=None, environ={}, flags={}, cwd=tmp_path)
    view = View(tree=tmp_path, rules=tmp_path / "r.yaml", files=())
    asked = Asked(cards=3, console=Console(), environ={})
    model = settings_for(settings, view, tmp_path / "work", asked).model
    assert model.report.endpoint == "none"
    assert (model.pytorch.files, model.pytorch.source, model.pytorch.rules) == ([], None, view.rules)
    assert model.store.path == tmp_path / "work" / "store.sqlite"
    assert (model.run.cards, model.run.retries) == (3, 2)
    assert model.runs == tmp_path / "runs"
