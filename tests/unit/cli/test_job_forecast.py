"""`job forecast`: what it prints, draws and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.cli.app import run
from test_selection.catalog import Catalog, CatalogTest, FileRecord, write_catalog
from test_selection.durations import Durations, write_durations


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder with a catalog and seconds."""
    monkeypatch.chdir(tmp_path)
    names = [f"test_{file}.py::TestA::test_{number}" for file in "ab" for number in range(40)]
    tests = [CatalogTest(id=name, node=name, file=name.partition("::")[0]) for name in names]
    path = tmp_path / "runs" / "one"
    records = {file: FileRecord(collect_s=3.0) for file in ("test_a.py", "test_b.py")}
    write_catalog(
        path / "catalog.jsonl.gz", Catalog(pytorch="2.13.0", device="spyre", files=records, tests=tests)
    )
    seconds = Durations(tests=dict.fromkeys(names, 100.0), files={})
    write_durations(path / "durations.json.gz", seconds)
    return path


WORDS = ["job", "forecast", "--draws", "2"]


def test_a_forecast_tells_of_every_row_and_size(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, "--run-dir", str(folder), "--card-faults", "0.001", "--queue-wait", "600", "--json"]
    assert run([*words, "--out", "f.svg"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["label"] for one in told["shares"]][-1] == "all"
    assert [size["cards"] for size in told["shares"][-1]["sizes"]] == [24, 128, 512, 1024, 2048]
    assert [one["sizes"][0]["cards"] for one in told["shares"][1:-1]] == [128, 512, 1024, 2048, 2048]
    assert told["conditions"]["availability"] == pytest.approx(1 / 1.024)
    assert told["shares"][-1]["guessed"] == 0
    for need in told["shares"][-1]["needed"]:
        assert need["round_s"] <= 86_400 / need["runs_a_day"]
    chart = Path("f.svg").read_text(encoding="utf-8")
    assert "3 runs a day" in chart
    assert "nine days of ten" in chart
    # The same seed, the same days.
    assert run([*words, "--out", "g.html"]) == 0
    assert json.loads(capsys.readouterr().out) == told
    assert "<svg" in Path("g.html").read_text(encoding="utf-8")


def test_the_newest_run_is_forecast_where_none_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*WORDS, "--runs-per-day", "1000"]) == 0
    told = capsys.readouterr().out
    assert f"catalog of {folder.name}" in told
    assert "cards for 1000 a day" in told
    assert "report alone take longer than a run may" in told
    assert "none" in told


def test_seconds_nobody_measured_are_said_to_be_guessed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "durations.json.gz").unlink()
    assert run([*WORDS, "--catalog", str(folder / "catalog.jsonl.gz")]) == 0
    assert "guessed: 80 tests of 80 count as 0.05 s each" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--startup", "-1"], "--startup is -1"),
        (["--queue-wait", "1e9"], "--queue-wait is 1e+09"),
        (["--report", "-1"], "--report is -1"),
        (["--card-faults", "61"], "--card-faults is 61"),
        (["--repair", "-2"], "--repair is -2"),
        (["--pod-cards", "65"], "--pod-cards is 65"),
        (["--draws", "0"], "--draws is 0"),
        (["--runs-per-day", "0"], "--runs-per-day is 0"),
        (["--out", "f.pdf"], "--out is 'f.pdf'"),
    ],
)
def test_numbers_there_cannot_be_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["job", "forecast", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_catalog_with_nothing_in_scope_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_catalog(tmp_path / "c.jsonl.gz", Catalog(pytorch="2.13.0", device="spyre", files={}, tests=[]))
    assert run([*WORDS, "--catalog", "c.jsonl.gz"]) == 3
    assert "nothing is in scope" in capsys.readouterr().err
