"""`spyre-ci scope` and `scope explain` as somebody types them, in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.cli.app import run
from test_selection.catalog import Catalog, CatalogTest, FileRecord, write_catalog
from test_selection.selection import read_selection

RULES = """\
rules:
  - {code: elsewhere, text: not ours, verdict: out, file: "far/**", issue: https://example.org/7}
  - {code: grad, text: training, verdict: out, file: "*.py", template: /grad/}
  - {code: lacks, text: not declared, verdict: out, unsupported: dtype}
  - {code: never, text: no such file, verdict: out, file: zzz.py}
  - {code: subject, text: ours, verdict: in, file: test_a.py}
  - {code: in-scope, text: the rest, verdict: in}
tiers:
  - {code: big, text: large tensors, template: /_big/, needs: {memory_gib: 32}}
must_run:
  - {serves: "language models", template: test_add}
"""


def make_test(file: str, template: str, dtype: str | None = None) -> CatalogTest:
    name = f"{file}::TestX::{template}" + (f"[dtype={dtype}]" if dtype else "")
    node = f"{file}::TestXSPYRE::{template}"
    return CatalogTest(id=name, node=node, file=file, cls="TestX", template=template, dtype=dtype)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings, rules and a catalog; nothing of the environment reaches it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "spyre-ci.yaml").write_text("pytorch: {rules: rules.yaml}\n")
    tests = [
        make_test("test_a.py", "test_add", "float32"),
        make_test("test_a.py", "test_grad"),
        make_test("test_b.py", "test_add_big", "int8"),
        make_test("far/test_c.py", "test_add"),
    ]
    files = {name: FileRecord() for name in ("test_a.py", "test_b.py", "far/test_c.py", "far/test_d.py")}
    catalog = Catalog(pytorch="p", device="spyre", files=files, tests=tests)
    write_catalog(tmp_path / "catalog.jsonl.gz", catalog)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["scope", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["scope", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.usefixtures("here")
def test_the_table_counts_tests_and_files_and_names_what_is_idle(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "--catalog", "catalog.jsonl.gz")
    rows = [line.split() for line in out.splitlines()]
    assert ["elsewhere", "out", "1", "2", "not", "ours", "(https://example.org/7)"] in rows
    assert ["grad", "out", "1", "1", "training"] in rows
    assert ["subject", "in", "1", "1", "ours"] in rows
    assert ["in-scope", "in", "1", "1", "the", "rest"] in rows
    assert "in scope: 2 of 4 tests" in out
    assert "must run: 1 test by 1 entry" in out
    assert "files left to the last rule: 1\n  test_b.py\n" in out
    assert out.endswith("\nidle: 1 entry has no effect (-v lists them)\n")
    out = said(capsys, "--catalog", "catalog.jsonl.gz", "-v")
    assert "rules.yaml:5: rules: never: matches nothing" in out
    assert out.count("idle:") == 1


@pytest.mark.usefixtures("here")
def test_the_table_is_there_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(said(capsys, "--run-dir", ".", "--json"))
    assert document["schema"] == "spyre-ci/scope/1"
    assert (document["device"], document["catch_all"], document["must_run"]) == ("spyre", ["test_b.py"], 1)
    assert sum(one["tests"] for one in document["reasons"]) == 4
    assert [(one["section"], one["line"]) for one in document["idle"]] == [("rules", 5)]
    assert len(document["version"]) == 12


@pytest.mark.usefixtures("here")
def test_what_the_device_declares_is_taken_from_the_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = json.loads(said(capsys, "--run-dir", ".", "--json"))
    monkeypatch.setenv("SPYRE_CI__DEVICE__DTYPES", "[float32]")
    document = json.loads(said(capsys, "--run-dir", ".", "--json"))
    assert {one["code"]: one["tests"] for one in document["reasons"]}["lacks"] == 1
    assert document["version"] != before["version"]
    out = said(capsys, "explain", "test_b.py::TestX::test_add_big[dtype=int8]")
    assert "dtype 'int8' matches 'not in device.dtypes'" in out


def test_a_declared_op_no_test_is_of_is_told(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = [CatalogTest(id="test_a.py::x", node="x", file="test_a.py", template="x", op="add")]
    write_catalog(here / "ops.gz", Catalog(pytorch="p", device="spyre", tests=tests))
    monkeypatch.setenv("SPYRE_CI__DEVICE__OPS", "[add, softmaxx]")
    assert "entries have no effect (-v lists them)\n" in said(capsys, "--catalog", "ops.gz")
    out = said(capsys, "--catalog", "ops.gz", "-v")
    assert "idle: device.ops (settings): softmaxx: no collected test is of this operator\n" in out


@pytest.mark.usefixtures("here")
def test_a_test_is_explained_by_the_rule_its_patterns_and_the_rules_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = said(
        capsys, "explain", "test_a.py::TestX::test_add[dtype=float32]", "--catalog", "catalog.jsonl.gz"
    )
    assert "test_a.py::TestX::test_add[dtype=float32] on spyre: in\n" in out
    assert "rules.yaml:6: subject: ours\n" in out
    assert "  file 'test_a.py' matches 'test_a.py'\n" in out
    assert "rules before it: 4, of which 1 match in part\n" in out
    assert "grad: file 'test_a.py' matches '*.py', template 'test_add' does not match" in out
    assert "must run: language models\n" in out
    assert "tier pr: runs here\n" in out


@pytest.mark.usefixtures("here")
def test_a_test_of_no_catalog_and_a_node_id_are_explained_too(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "explain", "far/new.py::test_x")
    assert "far/new.py::test_x on spyre: out\n" in out
    assert "issue: https://example.org/7\n" in out
    out = said(capsys, "explain", "test_a.py::TestXSPYRE::test_grad", "--run-dir", ".")
    assert "test_a.py::TestX::test_grad on spyre: out\n" in out
    assert " on cpu: in\n" in said(capsys, "explain", "test_a.py::test_x", "--device", "cpu")


@pytest.mark.usefixtures("here")
def test_the_tier_of_a_test_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "explain", "test_b.py::TestX::test_add_big")
    assert "it matches everything: no other rule did\n" in out
    assert "rules.yaml:9: big: large tensors (needs cards: 1, GiB: 32)\n" in out
    assert "tier pr: moves to the nightly tier (needs 32 GiB, above 16 GiB in tier pr)\n" in out
    assert "tier nightly: runs here\n" in out


@pytest.mark.usefixtures("here")
def test_a_file_is_explained_alone_with_the_rules_that_may_decide_its_tests(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = said(capsys, "explain", "./test_a.py")
    assert "test_a.py on spyre: in\n" in out
    assert "rules that may decide single tests of it first:\n" in out
    assert "rules.yaml:3: grad\n" in out
    assert "tier" not in out


@pytest.mark.usefixtures("here")
def test_an_explanation_is_there_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(said(capsys, "explain", "test_a.py::TestX::test_grad", "--json"))
    assert (document["in_scope"], document["code"]) == (False, "grad")
    assert document["matched"]["template"] == {"pattern": "/grad/", "value": "test_grad"}
    assert document["rule"].endswith("rules.yaml:3")
    assert document["runs_in"]["weekly"]["bucket"] == "weekly"


def test_a_tree_is_counted_by_its_files_without_a_catalog(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "tree" / "test" / "far").mkdir(parents=True)
    for name in ("test_a.py", "far/test_x.py", "far/test_y.py", "test_new.py"):
        (here / "tree" / "test" / name).write_text("")
    rows = [line.split() for line in said(capsys, "--pytorch-src", "tree").splitlines()]
    assert ["elsewhere", "out", "2", "not", "ours", "(https://example.org/7)"] in rows
    assert ["subject", "in", "1", "ours"] in rows
    assert ["test_new.py"] in rows


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "message", "remedy"),
    [
        (("explain", "nothing"), "'nothing' is neither a test id nor a test file", "file::Class"),
        (("explain", "a::b[c"), "'a::b[c' is not a test id", "write it as file::Class"),
        (("--json", "explain", "a.py"), "--json given before `explain`", "write options after the verb"),
        (("--catalog", "a", "--run-dir", "b"), "several inputs are named", "give one of"),
        (("--catalog", "none.gz"), "none.gz: there is no catalog file", "check the path"),
        (("--run-dir", "none"), "there is no catalog file", "run the step before"),
        (("--pytorch-src", "none"), "there is no such folder or archive", "name a PyTorch source"),
        ((), "there is no run with catalog.jsonl.gz yet", "run one first"),
    ],
)
def test_what_cannot_be_taken_is_told_with_the_remedy(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str, remedy: str
) -> None:
    err = refused(capsys, *words)
    assert message in err
    assert remedy in err


def test_a_broken_rules_file_is_told_with_file_line_and_key(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "rules.yaml").write_text(RULES.replace("verdict: in, file: test_a.py", "verdct: in"))
    err = refused(capsys, "--catalog", "catalog.jsonl.gz")
    assert "rules.yaml:6: unknown key 'verdct'" in err
    assert "did you mean 'verdict'?" in err
    assert "rules.yaml:6" in refused(capsys, "explain", "test_a.py")


def test_what_a_tier_does_not_allow_is_said_and_listed_in_the_selection(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["select", "--catalog", "catalog.jsonl.gz", "--out", "s.json", "--percent", "100"]
    big, add = "test_b.py::TestX::test_add_big[dtype=int8]", "test_a.py::TestX::test_add[dtype=float32]"
    assert run([*words, "--tier", "pr"]) == 0
    selection = read_selection(here / "s.json")
    reason = "needs 32 GiB, above 16 GiB in tier pr"
    assert (selection.bucket, selection.ids, selection.moved) == ("pr", [add], {"nightly": {big: reason}})
    assert selection.in_scope == 2
    out = capsys.readouterr().out
    assert f"1 test moves to the nightly tier, such as {big} ({reason})" in out
    assert run(words) == 0
    assert read_selection(here / "s.json").ids == [add, big]
    assert run([*words, "--stage", "5"]) == 2
    assert run(["select", "--catalog", "catalog.jsonl.gz", "--out", "s.json", "--stage", "5"]) == 0
    assert read_selection(here / "s.json").bucket == "pr"


def test_what_is_beyond_every_tier_is_said_and_runs_in_the_last(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_CI__TIERS__WEEKLY__MEMORY_GIB", "8")
    monkeypatch.setenv("SPYRE_CI__TIERS__NIGHTLY__MEMORY_GIB", "8")
    words = ["select", "--catalog", "catalog.jsonl.gz", "--out", "s.json", "--percent", "100"]
    assert run([*words, "--tier", "weekly"]) == 0
    selection = read_selection(here / "s.json")
    assert (len(selection.ids), selection.moved) == (2, {})
    assert list(selection.beyond.values()) == ["needs 32 GiB, above 8 GiB in tier weekly"]
    assert "1 test is beyond every tier, such as test_b.py" in capsys.readouterr().out


def test_a_test_that_is_named_runs_whatever_the_tier_allows(here: Path) -> None:
    name = "test_b.py::TestX::test_add_big[dtype=int8]"
    words = ["select", "--catalog", "catalog.jsonl.gz", "--out", "s.json", "--id", name, "--tier", "pr"]
    assert run(words) == 0
    selection = read_selection(here / "s.json")
    assert (selection.ids, selection.moved, selection.bucket) == ([name], {}, None)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("share", [["--percent", "5"], ["--stage", "1"], ["--id", "a.py::b"]])
def test_an_unknown_tier_is_told_before_anything_is_done(
    capsys: pytest.CaptureFixture[str], share: list[str]
) -> None:
    assert run(["select", "--catalog", "catalog.jsonl.gz", *share, "--tier", "hourly"]) == 2
    err = capsys.readouterr().err
    assert "--tier: there is no tier 'hourly'" in err
    assert "known: pr, nightly, weekly" in err


def test_a_tier_that_allows_nothing_of_a_selection_is_told(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["select", "--catalog", "catalog.jsonl.gz", "--out", "s.json", "--percent", "100"]
    assert run([*words, "--tier", "pr", "--files", "test_b.py"]) == 3
    err = capsys.readouterr().err
    assert "nothing to run in tier pr: every selected test moves (1 to nightly)" in err
    assert "name a later tier with --tier" in err
    assert len(read_selection(here / "s.json").moved["nightly"]) == 1
