"""`forecast`: what it prints, draws and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.cli.app import run
from test_selection.catalog import Catalog, CatalogTest, FileRecord, write_catalog
from test_selection.durations import Durations, write_durations
from test_selection.pack import make_plan
from test_selection.plan import write_plan
from test_selection.selection import Selection, write_selection

NAMES = [f"test_{file}.py::TestA::test_{number}" for file in "ab" for number in range(40)]
TESTS = [CatalogTest(id=name, node=name, file=name.partition("::")[0]) for name in NAMES]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder with a catalog, seconds and a plan of four shards."""
    monkeypatch.chdir(tmp_path)
    test_s, file_s = dict.fromkeys(NAMES, 100.0), {"test_a.py": 2.0, "test_b.py": 3.0}
    path = tmp_path / "runs" / "one"
    records = {file: FileRecord(collect_s=seconds) for file, seconds in file_s.items()}
    write_catalog(
        path / "catalog.jsonl.gz", Catalog(pytorch="2.13.0", device="spyre", files=records, tests=TESTS)
    )
    write_durations(path / "durations.json.gz", Durations(tests=test_s, files=file_s))
    write_plan(path / "plan.json", make_plan(TESTS, test_s=test_s, file_s=file_s, shards=4))
    write_selection(path / "selection.json", Selection(stage=None, percent=100, ids=NAMES[:40], in_scope=80))
    return path


WORDS = ["forecast", "--draws", "2"]


def test_every_row_of_the_roll_out_every_size_and_the_plan_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*WORDS, str(folder), "--card-faults", "0.001", "--queue-wait", "600", "--json"]
    assert run([*words, "--within", "3600", "--out", "f.svg"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "spyre-ci/forecast/1"
    assert [one["label"] for one in told["shares"]][-1] == "all"
    assert [size["cards"] for size in told["shares"][-1]["sizes"]] == [24, 128, 512, 1024, 2048]
    assert [one["sizes"][0]["cards"] for one in told["shares"][1:-1]] == [128, 512, 1024, 2048, 2048]
    assert told["conditions"]["availability"] == pytest.approx(1 / 1.024)
    whole = told["shares"][-1]
    assert (whole["guessed"], whole["longest_s"], whole["no_gain_beyond"]) == (0, 103.0, 128)
    assert [one["what"] for one in whole["needed"]] == ["3 runs a day", "4 runs a day", "1 h 00 min"]
    for need in whole["needed"]:
        assert need["round_s"] <= need["allowed_s"]
    assert [one["way"] for one in told["plan"]] == ["static", "per host", "global"]
    chart = Path("f.svg").read_text(encoding="utf-8")
    assert "3 runs a day" in chart
    assert "nine days of ten" in chart
    assert [Path(f"f-{number}.svg").is_file() for number in (2, 3, 4)] == [True] * 3
    # The same seed, the same days.
    assert run([*words, "--within", "3600", "--out", "g.html"]) == 0
    assert json.loads(capsys.readouterr().out) == told
    assert Path("g.html").read_text(encoding="utf-8").count("<svg") == 4


def test_cards_that_fail_leave_a_static_plan_with_tests_nobody_ran(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*WORDS, str(folder), "--card-faults", "0.5", "--startup", "0", "--json"]) == 0
    static, _, across = json.loads(capsys.readouterr().out)["plan"]
    assert static["not_run"] > across["not_run"]


def test_the_newest_run_is_forecast_where_none_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*WORDS, "--runs-per-day", "1000"]) == 0
    told = capsys.readouterr().out
    assert f"catalog of {folder.name}" in told
    assert "report alone take longer than a run may" in told
    assert "work stealing" in told
    assert "per host" in told
    assert "none" in told


def test_no_flag_is_needed_in_a_run_folder(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    older = folder.with_name("older")
    folder.rename(older)
    write_catalog(
        folder / "catalog.jsonl.gz", Catalog(pytorch="2", device="spyre", files={}, tests=TESTS[:1])
    )
    monkeypatch.chdir(older)
    assert run(WORDS) == 0
    told = capsys.readouterr().out
    assert "catalog of older" in told
    assert "work stealing" in told, "its plan is forecast with its durations"


def test_seconds_nobody_measured_are_said_to_be_guessed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "durations.json.gz").unlink()
    assert run([*WORDS, "--catalog", str(folder / "catalog.jsonl.gz")]) == 0
    assert "guessed: 80 tests of 80 count as 0.05 s each" in capsys.readouterr().out


def test_a_selection_is_one_row(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, str(folder), "--selection", str(folder / "selection.json")]
    assert run([*words, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["shares"]
    assert (row["label"], row["tests"]) == ("selection", 40)
    assert run([*words, "--within", "200"]) == 0
    assert "the longest test takes 102.0 s" in capsys.readouterr().out


def test_it_fits_a_narrow_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*WORDS, str(folder)]) == 0
    told = capsys.readouterr().out
    assert "…" not in told
    assert max(map(len, told.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "there is no run 'nowhere'"),
        (["--startup", "-1"], "--startup is -1"),
        (["--queue-wait", "1e9"], "--queue-wait is 1e+09"),
        (["--report", "nan"], "--report is nan"),
        (["--card-faults", "61"], "--card-faults is 61"),
        (["--repair", "-2"], "--repair is -2"),
        (["--pod-cards", "65"], "--pod-cards is 65"),
        (["--draws", "0"], "--draws is 0"),
        (["--runs-per-day", "0"], "--runs-per-day is 0"),
        (["--within", "0"], "--within is 0"),
        (["--out", "f.pdf"], "--out is 'f.pdf'"),
    ],
)
def test_what_cannot_be_taken_is_told(
    words: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert folder.is_dir()
    assert run(["forecast", *words]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert "Traceback" not in told.err


def test_a_catalog_with_nothing_in_scope_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_catalog(tmp_path / "c.jsonl.gz", Catalog(pytorch="2.13.0", device="spyre", files={}, tests=[]))
    assert run([*WORDS, "--catalog", "c.jsonl.gz"]) == 3
    assert "nothing is in scope" in capsys.readouterr().err


def test_a_plan_with_a_wide_test_says_how_many_cards_its_shards_hold(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "rules: [{code: all, text: all, verdict: in}]\ntiers: [{code: wide, text: wide, "
    Path("rules.yaml").write_text(rows + "file: test_a.py, needs: {cards: 2}}]\n")
    Path("spyre-ci.yaml").write_text("pytorch: {rules: rules.yaml}\n")
    assert run(["plan", "--run-dir", str(folder), "--shards", "4"]) == 0
    assert "40 tests on 2 shards (4 cards): about" in capsys.readouterr().out
