"""`spyre-ci history` as it is typed: what goes in comes out, and what cannot be taken is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.cli.app import run
from test_selection.durations import Durations, read_durations, write_durations

CLASS_TIMES = {"a/x": {"test_t": {"TestTCPU": 4.0}}, "a/y": {"test_t": {"TestTCPU": 6.0}}}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("times.json").write_text(json.dumps(CLASS_TIMES))
    write_durations(Path("d.json"), Durations(tests={"a.py::t": 1.5}, files={"a.py": 2.0}))


def test_what_is_imported_is_exported_for_its_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "import", "d.json", "--device", "cpu"]) == 0
    assert run(["history", "import", "times.json", "--config", "a/x", "--config", "a/y"]) == 0
    assert run(["history", "export", "--device", "cpu", "--out", "out.json.gz"]) == 0
    assert read_durations(Path("out.json.gz")) == Durations(
        tests={"a.py::t": 1.5},
        files={"a.py": 2.0},
        classes={"test_t.py::TestT": 5.0, "test_t.py::TestTCPU": 5.0},
    )
    assert capsys.readouterr().out.splitlines() == [
        "d.json: 1 test, 1 file on cpu",
        "times.json: 2 classes",
        "1 test, 1 file, 2 classes on cpu: out.json.gz",
    ]


def test_the_export_has_a_name_where_none_is_given() -> None:
    assert run(["history", "import", "d.json"]) == 0
    assert run(["history", "export"]) == 0
    assert read_durations(Path("durations.json.gz")).tests == {"a.py::t": 1.5}


def test_the_history_is_shown_by_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "import", "d.json", "--device", "cpu"]) == 0
    assert run(["history", "import", "times.json", "--config", "a/x"]) == 0
    capsys.readouterr()
    assert run(["history", "show"]) == 0
    out = capsys.readouterr().out
    assert "2 classes with imported times" in out
    cells = [cell.strip() for cell in next(line for line in out.splitlines() if "cpu" in line).split("│")]
    assert cells[1:-1] == ["cpu", "0", "0", "1", "-", "-"]


def test_a_history_of_classes_alone_shows_no_empty_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "import", "times.json", "--config", "a/x"]) == 0
    capsys.readouterr()
    assert run(["history", "show"]) == 0
    assert capsys.readouterr().out == "2 classes with imported times\n"


def test_what_was_imported_before_can_be_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "import", "times.json", "--config", "a/x"]) == 0
    assert run(["history", "import", "d.json", "--replace"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "2 imported names forgotten"
    assert run(["history", "export"]) == 0
    assert read_durations(Path("durations.json.gz")).classes == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show"], "there is no history yet"),
        (["export"], "there is no history yet"),
        (["import", "nowhere.json"], "nowhere.json: there is no durations file"),
        (["import", "broken.json"], "broken.json: cannot be read as JSON"),
        (["import", "other.json"], "other.json: schema is 'spyre-ci/plan/1', not 'spyre-ci/durations/1'"),
        (["import", "list.json"], "list.json: schema is None, not 'spyre-ci/durations/1'"),
        (["import", "times.json"], "times.json: holds class times of 2 configurations"),
        (["import", "times.json", "--config", "q"], "times.json: there is no configuration 'q'"),
        (
            ["import", "d.json", "--config", "q"],
            "d.json: --config is 'q', but there are no configurations to choose from",
        ),
        (["import", "d.json", "broken.json"], "broken.json: cannot be read as JSON"),
        (["import", "."], "summary.json: there is no summary file"),
    ],
)
def test_what_cannot_be_taken_is_told_and_leaves_no_history(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("broken.json").write_text("{")
    Path("other.json").write_text('{"schema": "spyre-ci/plan/1"}')
    Path("list.json").write_text("[]")
    assert run(["history", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not Path(".spyre-ci", "store.sqlite").exists()
