"""The verbs of suite files, on a run folder made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.cli.app import run
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.results import write_results
from ci.steps.folder import RunFolder, write_source
from ci.steps.suites import passing_xfails
from test_selection.catalog import Catalog, CatalogTest, FileRecord, write_catalog
from test_selection.selection import Expectation, Selection, write_selection

SUITE = """\
# Known gaps.
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_x.py
      unlisted_test_mode: skip
      tests:
        - names: [TestX::test_a]
          mode: xfail   # for now
        - names: [TestX::test_b]
    - path: ${TORCH_DEVICE_ROOT}/tests/test_x.py
      unlisted_test_mode: mandatory_success"""
TESTS = [
    CatalogTest(id=f"test_x.py::TestX::{name}", node=f"n::TestX::{name}", file="test_x.py", cls="TestX",
                template=name)
    for name in ("test_a", "test_b")
]  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings, a suite and a run in which the xfail passed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spyre-ci.yaml").write_text("pytorch: {suite: suites}\n")
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "x.yaml").write_text(SUITE)
    folder = RunFolder(path=tmp_path / "runs" / "one")
    write_source(folder, where="/pytorch", sha="s")
    files = {"test_x.py": FileRecord()}
    write_catalog(folder.catalog, Catalog(pytorch="p", device="spyre", files=files, tests=TESTS))
    write_selection(
        folder.selection,
        Selection(
            stage=None, percent=100, ids=[one.id for one in TESTS],
            expectations={TESTS[0].id: Expectation(mode="xfail")},
        ),
    )  # fmt: skip
    verdicts = (Verdict.XPASSED, Verdict.PASSED)
    results = [Result(id=one.id, verdict=verdict) for one, verdict in zip(TESTS, verdicts, strict=True)]
    write_results(folder.results, "one", results)
    return tmp_path


def test_promote_prints_a_patch_and_writes_only_when_asked(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["suite", "promote", "one"]) == 0
    told = capsys.readouterr()
    assert told.out == (
        "--- a/suites/x.yaml\n+++ b/suites/x.yaml\n@@ -5,7 +5,7 @@\n"
        "       unlisted_test_mode: skip\n       tests:\n         - names: [TestX::test_a]\n"
        "-          mode: xfail   # for now\n+          mode: mandatory_success   # for now\n"
        "         - names: [TestX::test_b]\n     - path: ${TORCH_DEVICE_ROOT}/tests/test_x.py\n"
        "       unlisted_test_mode: mandatory_success\n\\ No newline at end of file\n"
    )
    assert "1 test promoted in 1 suite file; 0 more that pass are left" in told.err
    path = checkout / "suites" / "x.yaml"
    assert path.read_text() == SUITE
    path.chmod(0o640)
    assert run(["suite", "promote", "one", "--write"]) == 0
    assert path.read_text() == SUITE.replace("xfail   #", "mandatory_success   #")
    assert path.stat().st_mode & 0o777 == 0o640
    assert run(["suite", "promote", "one"]) == 0
    assert "its suite no longer expects it to fail" in capsys.readouterr().err


def test_check_ends_with_2_where_there_is_an_error(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["suite", "check", "--run-dir", "runs/one"]
    assert run(arguments) == 0
    assert "0 errors, 0 warnings" in capsys.readouterr().out
    (checkout / "suites" / "y.yaml").write_text(
        SUITE.replace("test_b", "test_bb").replace("test_a", "test_b")
    )
    (checkout / "suites" / "z.yaml").write_text("test_suite_config:\n  files: {}\n")
    assert run(arguments) == 2
    told = capsys.readouterr().out
    assert "suites/y.yaml:9: error: names: 'TestX::test_bb' matches no test\n  remedy: did you mean" in told
    assert "suites/z.yaml:2: error: file: 'z.yaml' cannot be used: files is {}, not a list" in told
    assert "is xfail at" in told
    assert "3 errors, 1 warning" in told
    other = Catalog(pytorch="p", device="spyre", files={"test_y.py": FileRecord()}, tests=[])
    write_catalog(checkout / "other.jsonl.gz", other)
    write_source(RunFolder(path=checkout / "runs" / "one"), where=None, sha="s")
    assert run([*arguments, "suites/x.yaml", "--catalog", "other.jsonl.gz"]) == 2
    assert "contains none of the files that the suites name" in capsys.readouterr().err
    write_source(RunFolder(path=checkout / "runs" / "one"), where="/pytorch", sha="s")
    assert run([*arguments, "--json", "suites/z.yaml"]) == 2
    (only,) = json.loads(capsys.readouterr().out)["findings"]
    assert set(only) == {"severity", "where", "key", "value", "message", "remedy"}


def test_what_is_missing_is_said(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "spyre-ci.yaml").write_text("")
    assert run(["suite", "promote", "one"]) == 2
    assert "the run has no suite file\n  remedy: set pytorch.suite" in capsys.readouterr().err
    assert run(["suite", "check", "--catalog", "runs/one/catalog.jsonl.gz"]) == 2
    assert (
        "there is no suite file to check\n  remedy: name some, or set pytorch.suite"
        in capsys.readouterr().err
    )
    assert run(["suite", "check", "none.yaml", "--run-dir", "runs/one"]) == 2
    assert "there is no such suite file" in capsys.readouterr().err
    (checkout / "spyre-ci.yaml").write_text("pytorch: {suite: [suites/x.yaml]}\n")
    (checkout / "suites" / "x.yaml").write_bytes(b"\xff")
    assert run(["suite", "promote", "one"]) == 2
    assert "is not UTF-8" in capsys.readouterr().err


def test_a_strict_xfail_that_passed_counts_and_a_flaw_of_the_test_does_not() -> None:
    verdicts = {
        "strict": Result(id="strict", verdict=Verdict.FAILED, message="[XPASS(strict)] why"),
        "failed": Result(id="failed", verdict=Verdict.FAILED, message="no"),
        "plain": Result(id="plain", verdict=Verdict.XPASSED),
        "passes": Result(id="passes", verdict=Verdict.XPASSED),
    }
    expected = {
        "strict": Expectation(mode="xfail_strict"), "failed": Expectation(mode="xfail_strict"),
        "passes": Expectation(mode="xfail"),
    }  # fmt: skip
    selection = Selection(stage=None, percent=1, ids=list(verdicts), expectations=expected)
    assert passing_xfails(verdicts.values(), selection) == {"strict", "passes"}
