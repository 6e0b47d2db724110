"""`spyre-ci select` as somebody types it: locks kept, fresh, foreign and broken; `select diff`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from test_selection.catalog import Catalog, CatalogTest, FileRecord, write_catalog
from test_selection.lock import read_lock

Call = Callable[..., tuple[int, str]]
KEPT = "selection.lock.gz"


def rows(count: int, file: str = "test_a.py") -> list[CatalogTest]:
    return [
        CatalogTest(
            id=f"{file}::TestA::test_{number % 20}[dtype=float{number % 3},k={number}]",
            node=f"{number}",
            file=file,
            cls="TestA",
            template=f"test_{number % 20}",
            dtype=f"float{number % 3}",
        )
        for number in range(count)
    ]


def put(folder: Path, tests: list[CatalogTest], *, device: str = "spyre", error: str | None = None) -> None:
    files = {test.file: FileRecord() for test in tests} | (
        {"broken.py": FileRecord(error=error)} if error else {}
    )
    catalog = Catalog(pytorch="2.13.0+cpu", device=device, files=files, tests=tests)
    write_catalog(folder / "catalog.jsonl.gz", catalog)


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls `spyre-ci` in a folder with the run folder `r`; exit code, and output with errors."""
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "r", rows(400))

    def call(*words: str) -> tuple[int, str]:
        code = run(list(words))
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return code, captured.out + captured.err

    return call


def selected(folder: str = "r") -> set[str]:
    content: dict[str, Any] = json.loads(Path(folder, "selection.json").read_text(encoding="utf-8"))
    return set(content["ids"])


def test_without_a_lock_one_is_made_for_the_run_and_that_is_said(call: Call) -> None:
    code, said = call("select", "--run-dir", "r", "--percent", "5")
    assert code == 0
    assert said.splitlines() == [
        "selected 20 of 400 in-scope tests (5 %, 5.0 % of the seconds)",
        (
            "selection order: made for this run, because there is no selection.lock.gz, by count, "
            "400 ranked tests"
        ),
        "every file covered from 0.01 % of the tests, every dtype from 0.51 %, every template from 4.76 %",
        "reached: 1 of 1 file, 3 of 3 dtypes, 20 of 20 templates",
        "0 are out of scope",
    ]
    assert len(read_lock(Path("r", KEPT)).order.tests) == 400
    assert not Path(KEPT).exists()


@pytest.mark.parametrize(
    ("device", "said"), [("cpu", "selection.lock.gz is not used: it was made for device spyre, not cpu")]
)
def test_a_lock_of_other_tests_is_not_used_and_that_is_said(call: Call, device: str, said: str) -> None:
    call("select", "--run-dir", "r", "--relock")
    put(Path("r"), rows(400), device=device)
    code, told = call("select", "--run-dir", "r", "--percent", "5")
    assert code == 0
    assert said in told.splitlines()
    assert "selection order: made for this run, because the lock file is for other tests, by count" in told
    assert read_lock(Path("r", KEPT)).device == device
    assert read_lock(Path(KEPT)).device == "spyre"


def test_a_broken_lock_is_refused_until_it_is_relocked(call: Call) -> None:
    Path(KEPT).write_bytes(b"nothing")
    code, said = call("select", "--run-dir", "r")
    assert code == 2
    assert "remedy: " in said
    code, said = call("select", "--run-dir", "r", "--relock")
    assert code == 0
    assert "the previous lock cannot be read, so moves are unknown" in said
    assert call("select", "--run-dir", "r")[0] == 0


def test_a_relock_shows_who_moves_in_and_out_of_each_stage(call: Call) -> None:
    code, said = call("select", "--run-dir", "r", "--relock")
    assert f"relocked 400 tests: {Path(KEPT).resolve()}" in said
    assert " move in " not in said
    assert "ranks: " not in said
    put(Path("r"), rows(440)[10:], error="ImportError: x")
    code, said = call("select", "--run-dir", "r", "--relock")
    assert code == 0
    lines = said.splitlines()
    assert "files in scope that could not be collected, whose tests have no rank: 1" in lines
    (places,) = [line for line in lines if line.startswith("ranks: ")]
    assert "ranks: 40 added (test_a.py::" in places
    assert "; 10 removed (test_a.py::" in places
    (first,) = [line for line in lines if line.startswith("stage 1 (5 % by count): ")]
    assert " move in (test_a.py::" in first or " move out (test_a.py::" in first
    assert len([line for line in lines if line.startswith("stage ")]) == 5
    code, said = call("select", "--run-dir", "r", "--relock")
    assert said.count("no test moves") == 5
    assert "ranks: unchanged" in said
    put(Path("r"), rows(440), device="cpu", error="ImportError: x")
    said = call("select", "--run-dir", "r", "--relock")[1]
    assert "the previous lock was made for device spyre, not cpu" in said


def test_a_relock_does_not_tell_of_files_out_of_scope(call: Call) -> None:
    Path("rules.yaml").write_text(
        "rules:\n  - {code: broken, text: x, verdict: out, file: broken.py}\n"
        "  - {code: rest, text: x, verdict: in}\n",
        encoding="utf-8",
    )
    Path("spyre-ci.yaml").write_text("pytorch: {rules: rules.yaml}\n", encoding="utf-8")
    put(Path("r"), rows(440), error="ImportError: x")
    assert "could not be collected" not in call("select", "--run-dir", "r", "--relock")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--files", "*"), "--files"),
        (("-k", "test"), "-k"),
        (("--id", rows(1)[0].id), "names of tests"),
    ],
)
def test_a_part_of_the_tests_is_not_locked(call: Call, words: tuple[str, ...], said: str) -> None:
    code, told = call("select", "--run-dir", "r", "--relock", *words)
    assert code == 2
    assert f"--relock is given with {said}, which leaves tests out" in told
    assert not Path(KEPT).exists()


def test_stages_go_by_count_or_by_seconds(call: Call) -> None:
    code, said = call("select", "--run-dir", "r", "--percent", "5", "--by", "seconds")
    assert code == 0
    assert ", by seconds, 400 ranked tests" in said
    Path("spyre-ci.yaml").write_text(
        "stages: {" + ", ".join(f"{number}: {{by: seconds}}" for number in range(6)) + "}\n", encoding="utf-8"
    )
    assert ", by seconds, 400 ranked tests" in call("select", "--run-dir", "r", "--stage", "2")[1]
    code, said = call("select", "--run-dir", "r", "--by", "luck")
    assert code == 2
    assert "--by is 'luck'\n  remedy: give count or seconds" in said


def test_stages_by_count_and_by_seconds_do_not_nest(call: Call) -> None:
    Path("spyre-ci.yaml").write_text("stages: {2: {by: seconds}}\n", encoding="utf-8")
    code, said = call("select", "--run-dir", "r")
    assert code == 2
    assert "stages by count and stages by seconds do not nest" in said


def test_restricting_comes_first_and_the_lock_still_decides(call: Call) -> None:
    put(Path("r"), rows(400) + rows(200, "test_b.py"))
    call("select", "--run-dir", "r", "--relock")
    call("select", "--run-dir", "r", "--percent", "5", "--files", "test_b.py")
    before = selected()
    assert len(before) == 10
    assert all(name.startswith("test_b.py") for name in before)
    put(Path("r"), rows(100) + rows(250, "test_b.py"))
    call("select", "--run-dir", "r", "--percent", "5", "--files", "test_b.py")
    assert before <= selected()


def test_a_lock_made_for_one_run_never_becomes_the_kept_one(call: Call) -> None:
    put(Path(), rows(400))
    code, said = call("select", "--run-dir", ".", "--percent", "5")
    assert code == 0
    assert "made for this run" in said
    assert not Path(KEPT).exists()


def test_a_folder_in_the_place_of_the_lock_is_not_replaced(call: Call) -> None:
    Path(KEPT).mkdir()
    code, said = call("select", "--run-dir", "r", "--relock")
    assert code == 2
    assert "exists and is not a file, so it is not replaced" in said


def test_nothing_is_locked_for_a_share_of_nothing(call: Call) -> None:
    code, _ = call("select", "--run-dir", "r", "--stage", "0")
    assert code == 0
    assert not Path("r", KEPT).exists()


def test_diff_of_catalogs_tells_who_came_and_who_went(call: Call, tmp_path: Path) -> None:
    put(tmp_path / "s", rows(410)[5:])
    code, said = call("select", "diff", "r/catalog.jsonl.gz", "s")
    assert code == 0
    lines = said.splitlines()
    assert lines[0] == "from r/catalog.jsonl.gz to s"
    assert lines[1].startswith("came: 10, such as test_a.py::TestA::test_")
    assert lines[2].split() == ["10", "test_a.py"]
    assert lines[3].startswith("went: 5, such as ")
    code, said = call("select", "diff", "r", "r")
    assert said.splitlines()[1:] == ["nothing changed"]


def test_diff_of_locks_tells_who_moved_in_each_stage(call: Call, tmp_path: Path) -> None:
    call("select", "--run-dir", "r", "--relock")
    Path(KEPT).rename("before.gz")
    put(tmp_path / "r", rows(440)[10:])
    call("select", "--run-dir", "r", "--relock")
    code, said = call("select", "diff", "before.gz", KEPT, "--json")
    assert code == 0
    content, _ = json.JSONDecoder().raw_decode(said)
    assert sum(map(len, content["came"].values())) == 40
    assert sum(map(len, content["went"].values())) == 10
    assert [one["share"] for one in content["shares"]][:2] == [
        "stage 1 (5 % by count)",
        "stage 2 (25 % by count)",
    ]


def test_diff_of_stages_and_selections(call: Call) -> None:
    code, said = call("select", "diff", "1", "2", "--run-dir", "r")
    assert code == 0
    assert said.splitlines()[0] == "from stage 1 to stage 2"
    assert "moved in: 80, such as" in said
    assert "moved out" not in said
    call("select", "--run-dir", "r", "--stage", "2")
    assert (
        "nothing changed"
        in call("select", "diff", "2", "r/selection.json", "--catalog", "r/catalog.jsonl.gz")[1]
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("1", "2"), "there is no run with catalog.jsonl.gz yet\n  remedy: run one first"),
        (("1", "9", "--run-dir", "r"), "there is no stage 9"),
        (("none.gz", "r"), "none.gz: there is no such file"),
        (("r", "other.json"), "is neither a catalog, a lock nor a selection: schema is 'spyre-ci/plan/1'"),
        (("r", "text.txt"), "is neither a catalog, a lock nor a selection: cannot be read as JSON"),
        (("r", "text.gz"), "is neither a catalog, a lock nor a selection: cannot be read as JSON"),
        (("r", "empty"), "there is no such file"),
    ],
)
def test_what_cannot_be_compared_is_refused(call: Call, words: tuple[str, ...], said: str) -> None:
    Path("other.json").write_text('{"schema": "spyre-ci/plan/1"}', encoding="utf-8")
    Path("text.txt").write_text("x", encoding="utf-8")
    Path("text.gz").write_text("x", encoding="utf-8")
    Path("empty").mkdir()
    code, told = call("select", "diff", *words)
    assert code == 2
    assert said in told
    assert "remedy: " in told


def test_options_before_diff_are_refused_and_not_dropped(call: Call) -> None:
    code, said = call("select", "--run-dir", "r", "diff", "1", "2")
    assert code == 2
    assert "--run-dir given before `diff`" in said


def test_the_suite_of_the_settings_holds_for_a_catalog_whose_source_nobody_noted(call: Call) -> None:
    Path("spyre-ci.yaml").write_text("pytorch: {suite: suite.yaml}\n", encoding="utf-8")
    code, said = call("select", "--run-dir", "r", "--percent", "100")
    assert code == 2
    assert "suite.yaml: there is no such suite file" in said
    Path("suite.yaml").write_text(
        "test_suite_config:\n  files:\n    - path: ${TORCH_ROOT}/test/test_a.py\n"
        "      unlisted_test_mode: skip\n      tests:\n        - names: [TestA::test_1]\n",
        encoding="utf-8",
    )
    assert call("select", "--run-dir", "r", "--percent", "100")[0] == 0
    content = json.loads(Path("r/selection.json").read_text(encoding="utf-8"))
    modes = {one["mode"] for one in content["expectations"].values()}
    assert modes == {"skip", "mandatory_success"}


def test_a_lock_that_could_not_be_read_again_is_not_written(call: Call) -> None:
    put(
        Path("r"),
        [*rows(3), CatalogTest(id="test_a.py::T::[x", node="", file="test_a.py", cls="T", template="x")],
    )
    code, said = call("select", "--run-dir", "r", "--relock")
    assert code == 2
    assert "'test_a.py::T::[x' is not a test id" in said
    assert not Path(KEPT).exists()


def test_files_in_scope_that_could_not_be_collected_are_told(call: Call) -> None:
    put(Path("r"), rows(40), error="ImportError: x")
    code, said = call("select", "--run-dir", "r", "--percent", "5")
    assert code == 0
    assert "1 file in scope could not be collected, such as broken.py" in said.splitlines()
