"""The patch of `suite promote` is one that git takes, and torch's own lists are asked for names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.cli.app import run
from ci.core.commands import run_command
from ci.core.errors import EXIT_USAGE
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.results import write_results
from ci.steps.folder import RunFolder, write_source
from test_selection.catalog import Catalog, CatalogTest, FileRecord, write_catalog
from test_selection.selection import Expectation, Selection, write_selection
from test_selection.suite_decide import Decider
from test_selection.suite_read import load_suite

SUITE = """\
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_x.py
      unlisted_test_mode: xfail
      tests:
        - names:
            - TestX::test_a
            - TestX::test_b  # fails
          mode: xfail"""


def make_run(folder: RunFolder, passing: set[str]) -> list[CatalogTest]:
    tests = [
        CatalogTest(id=f"test_x.py::TestX::{name}", node=f"t::TestX::{name}", file="test_x.py", cls="TestX",
                    template=name)
        for name in ("test_a", "test_b", "test_c", "test_d")
    ]  # fmt: skip
    write_source(folder, where="/pytorch", sha="s")
    catalog = Catalog(pytorch="p", device="spyre", files={"test_x.py": FileRecord()}, tests=tests)
    write_catalog(folder.catalog, catalog)
    expected = {test.id: Expectation(mode="xfail") for test in tests}
    chosen = Selection(stage=None, percent=100, ids=[*expected], expectations=expected)
    write_selection(folder.selection, chosen)
    results = [
        Result(id=test.id, verdict=Verdict.XPASSED if test.template in passing else Verdict.XFAILED)
        for test in tests
    ]
    write_results(folder.results, "one", results)
    return tests


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_git_applies_the_patch_and_only_what_passed_has_to_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ends: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spyre-ci.yaml").write_text("pytorch: {suite: s.yaml}\n")
    path = tmp_path / "s.yaml"
    path.write_bytes(SUITE.replace("\n", ends).encode())
    tests = make_run(RunFolder(path=tmp_path / "runs" / "one"), {"test_a", "test_d"})
    assert run(["suite", "promote", "one"]) == 0
    (tmp_path / "p.patch").write_bytes(capsys.readouterr().out.encode())
    run_command(["git", "init", "--quiet", "."], timeout_s=60)
    run_command(["git", "-c", "core.autocrlf=false", "apply", "p.patch"], timeout_s=60)
    decider = Decider(load_suite(path))
    modes = {test.template: getattr(decider.decide(test).expected, "mode", "") for test in tests}
    assert modes == {
        "test_a": "mandatory_success", "test_b": "xfail", "test_c": "xfail", "test_d": "mandatory_success",
    }  # fmt: skip
    patched = path.read_bytes()
    path.write_bytes(SUITE.replace("\n", ends).encode())
    assert run(["suite", "promote", "one", "--write"]) == 0
    assert path.read_bytes() == patched


@pytest.mark.usefixtures("torch_installed")
def test_a_run_that_does_not_say_where_its_tests_came_from_promotes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spyre-ci.yaml").write_text("pytorch: {suite: s.yaml}\n")
    (tmp_path / "s.yaml").write_text(SUITE)
    folder = RunFolder(path=tmp_path / "runs" / "one")
    make_run(folder, {"test_a"})
    folder.source.unlink()
    assert run(["suite", "promote", "one"]) == EXIT_USAGE
    assert "source.json: there is no source file" in capsys.readouterr().err


def test_without_a_catalog_names_are_those_of_torch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(SUITE.replace("  mode: xfail", "  edits: {ops: {include: [nn.functional.rellu, add]}}"))
    assert "edits" in path.read_text()
    assert run(["suite", "check", str(path), "--json"]) == 2
    (only,) = json.loads(capsys.readouterr().out)["findings"]
    assert (only["value"], only["remedy"]) == ("nn.functional.rellu", "did you mean 'nn.functional.relu'?")
