"""The verbs that look ahead: what they print, and what they refuse."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from ci.cli.app import run
from ci.cli.simulate import _forecast_table
from ci.steps.forecasting import Prospect
from test_selection.catalog import Catalog, CatalogTest, FileRecord, write_catalog
from test_selection.durations import Durations, write_durations
from test_selection.forecast import Point
from test_selection.pack import make_plan
from test_selection.plan import write_plan
from test_selection.selection import Selection, write_selection


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder with a catalog, seconds and a plan of four shards."""
    monkeypatch.chdir(tmp_path)
    names = [f"test_{file}.py::TestA::test_{number}" for file in "ab" for number in range(40)]
    tests = [CatalogTest(id=name, node=name, file=name.partition("::")[0]) for name in names]
    test_s, file_s = dict.fromkeys(names, 1.0), {"test_a.py": 2.0, "test_b.py": 3.0}
    path = tmp_path / "runs" / "one"
    records = {file: FileRecord(collect_s=seconds) for file, seconds in file_s.items()}
    write_catalog(
        path / "catalog.jsonl.gz", Catalog(pytorch="2.13.0", device="spyre", files=records, tests=tests)
    )
    write_durations(path / "durations.json.gz", Durations(tests=test_s, files=file_s))
    write_plan(path / "plan.json", make_plan(tests, test_s=test_s, file_s=file_s, shards=4))
    write_selection(path / "selection.json", Selection(stage=None, percent=100, ids=names[:40], in_scope=80))
    return path


def test_a_plan_is_simulated_in_three_ways(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", str(folder / "plan.json"), "--draws", "3", "--dead-cards", "1", "--json"]
    assert run([*words, "--out", "day.html"]) == 0
    first = capsys.readouterr().out
    ways = json.loads(first)["ways"]
    assert [one["way"] for one in ways] == ["static", "stolen in hosts of 8", "stolen across hosts"]
    assert ways[0]["not_run"] > 0
    assert ways[2]["not_run"] == 0
    assert Path("day.html").read_text(encoding="utf-8").count("<svg") == 3
    assert run([*words, "--out", "day.svg"]) == 0
    assert capsys.readouterr().out == first
    assert [Path(name).is_file() for name in ("day.svg", "day-2.svg", "day-3.svg")] == [True] * 3


def test_a_run_is_simulated_as_planned(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", folder.name, "--sigma-file", "0", "--speed-sigma", "0", "--draws", "1"]
    assert run([*words, "--json"]) == 0
    static = json.loads(capsys.readouterr().out)["ways"][0]
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    assert static["makespan_s"]["median"] == pytest.approx(plan["makespan_s"], abs=0.001)
    assert run(words) == 0
    assert "stolen" in capsys.readouterr().out


def test_all_cards_dead_is_no_ratio_and_no_traceback(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", str(folder), "--dead-cards", "4096", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ways"][0]["over_bound"]["median"] is None


def test_a_forecast_tells_of_every_stage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["forecast", "--run-dir", str(folder), "--out", "f.svg", "--within", "30", "--json"]) == 0
    stages = json.loads(capsys.readouterr().out)["stages"]
    assert [one["cards"] for one in stages] == [128, 512, 1024, 2048, 2048]
    bounds = [point["bound_s"] for point in stages[-1]["points"]]
    assert bounds == sorted(bounds, reverse=True)
    assert stages[-1]["within_cards"] >= 2
    assert stages[-1]["within_s"] <= 30
    assert Path("f.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_forecast_fits_a_narrow_terminal() -> None:
    point = Point(cards=2048, bound_s=57.0, binds="longest test")
    row = Prospect(
        label="stage 4: 80 %", tests=68396, cards=2048, points=(point,), longest_s=57.0, stops=256, within=103
    )
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(_forecast_table([row], 120.0))
    text = console.export_text()
    assert "…" not in text
    assert "4: 80 % " in text
    assert "makespan" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_plan_with_a_wide_test_says_how_many_cards_its_shards_hold(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "rules: [{code: all, text: all, verdict: in}]\nbuckets: [{code: wide, text: wide, "
    Path("rules.yaml").write_text(rows + "file: test_a.py, needs: {cards: 2}}]\n")
    Path("spyre-ci.yaml").write_text("pytorch: {rules: rules.yaml}\n")
    assert run(["plan", "--run-dir", str(folder), "--shards", "4"]) == 0
    out = capsys.readouterr().out
    assert "40 tests on 2 shards (4 cards): about" in out


def test_a_forecast_of_a_selection_is_one_row(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["forecast", "--run-dir", str(folder), "--selection", str(folder / "selection.json")]
    assert run([*words, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["stages"]
    assert row["tests"] == 40
    assert run([*words, "--within", "1"]) == 0
    assert "the longest test takes 3.0 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["simulate", "nowhere"], "there is no run 'nowhere'"),
        (["simulate", "runs/one", "--sigma-file", "nan"], "--sigma-file is nan"),
        (["simulate", "runs/one", "--sigma-test", "-1"], "--sigma-test is -1"),
        (["simulate", "runs/one", "--speed-sigma", "4"], "--speed-sigma is 4"),
        (["simulate", "runs/one", "--crash-rate", "1.5"], "--crash-rate is 1.5"),
        (["simulate", "runs/one", "--startup", "inf"], "--startup is inf"),
        (["simulate", "runs/one", "--dead-cards", "-1"], "--dead-cards is -1"),
        (["simulate", "runs/one", "--hosts-of", "0"], "--hosts-of is 0"),
        (["simulate", "runs/one", "--draws", "0"], "--draws is 0"),
        (["simulate", "runs/one", "--out", "day.png"], "--out is 'day.png'"),
        (["forecast", "--run-dir", "runs/one", "--within", "0"], "--within is 0"),
        (["forecast", "--run-dir", "runs/one", "--out", "f.pdf"], "--out is 'f.pdf'"),
        (["forecast", "--run-dir", "runs/none"], "there is no catalog file"),
        (["forecast"], "name a run folder"),
    ],
)
def test_what_cannot_be_taken_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert folder.is_dir()
    assert run(words) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert "Traceback" not in told.err
