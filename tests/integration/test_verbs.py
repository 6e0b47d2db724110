"""The verbs as somebody types them, on single files made by hand and in places that are broken."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci.record.identity import read_identity
from ci.report.results import read_results
from tests.integration.conftest import Called
from tests.integration.runner.small_runs import STAND_IN

ROOT = Path(__file__).parent.parent.parent
# No test of theirs uses torch.
PATH = f"{ROOT}{os.pathsep}{STAND_IN}"
IDS = [
    *(f"test_a.py::TestA::test_{n}" for n in range(10)),
    *(f"test_b.py::TestB::test_{n}" for n in range(5)),
]


class Desk:
    """A folder in which somebody calls verbs."""

    def __init__(self, folder: Path, called: Called) -> None:
        self.folder, self._called = folder, called
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "JENKINS"))
        }
        self.environ = {**kept, "PYTHONPATH": PATH, "SPYRE_CI__REPORT__ENDPOINT": "none"}

    def call(self, *words: str, environ: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        code, out, err = self._called(self.folder, {**self.environ, **(environ or {})}, *words)
        assert "Traceback" not in out + err
        return code, out, err

    def write(self, name: str, kind: str, **content: Any) -> None:
        document = {"schema": f"spyre-ci/{kind}/1", **content}
        (self.folder / name).write_text(json.dumps(document), encoding="utf-8")

    def read(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        return content

    @property
    def runs(self) -> list[Path]:
        return sorted((self.folder / "runs").iterdir())


@pytest.fixture
def desk(tmp_path: Path, called: Called) -> Desk:
    """A desk with a catalog, a selection and durations that hold what the formats promise, no more."""
    desk = Desk(tmp_path / "desk", called)
    desk.folder.mkdir()
    header = {
        "schema": "spyre-ci/catalog/1",
        "pytorch": "2.13.0",
        "device": "spyre",
        "files": {"test_a.py": {"collect_s": 5, "error": None}, "test_b.py": {"collect_s": 1, "error": None}},
    }
    rows = [
        {
            "id": name,
            "node": name,
            "file": file,
            "class": cls,
            "template": template,
            "op": None,
            "dtype": None,
        }
        for name in IDS
        for file, cls, template in [name.split("::")]
    ]
    with gzip.open(desk.folder / "catalog.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in (header, *rows))
    desk.write("selection.json", "selection", stage=None, percent=100, ids=IDS)
    desk.write("durations.json", "durations", tests=dict.fromkeys(IDS, 1.0), files={"test_a.py": 5})
    return desk


PLAN = (
    "plan",
    "--catalog",
    "catalog.jsonl.gz",
    "--selection",
    "selection.json",
    "--durations",
    "durations.json",
)


def test_a_plan_is_made_from_single_files_and_nothing_else_is_written(desk: Desk) -> None:
    before = set(desk.folder.iterdir())
    code, out, err = desk.call(*PLAN, "--shards", "3", "--out", "plan.json")
    assert (code, err) == (0, "")
    assert out == (
        "durations: 15 measured\n"
        "15 tests on 3 shards: about 10.0 s (lower bound 10.0 s, limited by load balance)\n"
    )
    plan = desk.read("plan.json")
    assert sorted(one for shard in plan["shards"] for group in shard["groups"] for one in group["ids"]) == IDS
    assert {path.name for path in set(desk.folder.iterdir()) - before} == {"plan.json"}


def test_files_of_the_last_run_are_read_where_none_are_named(desk: Desk) -> None:
    code, _, err = desk.call("plan", "--shards", "2")
    assert (code, "there is no run with selection.json yet" in err) == (2, True)
    run = desk.folder / "runs" / "one"
    run.mkdir(parents=True)
    for name in ("catalog.jsonl.gz", "selection.json"):
        shutil.copy(desk.folder / name, run / name)
    (run / "run.json").write_text("{}", encoding="utf-8")
    code, out, _ = desk.call("plan", "--shards", "2")
    assert (code, out.splitlines()[0]) == (0, f"run: {run}")
    assert (run / "plan.json").is_file()


@pytest.mark.parametrize(
    ("ids", "words", "code", "said"),
    [
        (
            [*IDS, "gone.py::A::b"],
            (),
            2,
            "1 of 16 selected tests are not in the catalog, such as 'gone.py::A::b'",
        ),
        ([], (), 3, "nothing to run: 100 %"),
        (IDS, ("--shards", "0"), 2, "--shards is 0\n  remedy: give a number from 1 to 4,096"),
        (IDS, ("--shards", "4097"), 2, "--shards is 4097"),
        (IDS, ("--out", "."), 2, "exists and is not a file, so it is not replaced"),
        (IDS, ("--out", "catalog.jsonl.gz/plan.json"), 2, "remedy: check the path"),
    ],
)
def test_what_no_plan_can_be_made_of_is_refused(
    desk: Desk, ids: list[str], words: tuple[str, ...], code: int, said: str
) -> None:
    desk.write("selection.json", "selection", stage=None, percent=100, ids=ids)
    words = (*PLAN, "--shards", "2", "--out", "plan.json", *words)
    ended, out, err = desk.call(*words)
    assert (ended, out) == (code, "")
    assert said in err
    assert not (desk.folder / "plan.json").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pytorch", "--percent", "101"), "--percent is 101\n  remedy: give a number from 0 to 100"),
        (("pytorch", "--percent", "nan"), "--percent is nan"),
        (
            ("pytorch", "--cards", "-1"),
            "run.cards (flag): run.cards: Input should be greater than or equal to 0",
        ),
        (("pytorch", "--files", ""), "--files is empty"),
        (("pytorch", "--by", "luck"), "--by is 'luck'\n  remedy: give count or seconds"),
        (("pytorch", "--relock", "-k", "add"), "--relock is given with -k, which leaves tests out"),
        (("report", "a", "--run-dir", "b"), "both RUN 'a' and --run-dir b are given"),
        (("report",), "there is no run with journal yet"),
        (
            ("pytorch", "--pytorch-src", "git+https://u:s3cret@127.0.0.1:9/x@main"),
            "with a user name or password",
        ),
    ],
)
def test_a_wrong_value_is_told_with_what_was_seen_and_the_remedy(
    desk: Desk, words: tuple[str, ...], said: str
) -> None:
    code, out, err = desk.call(*words)
    assert code == 2
    assert said in err
    assert "remedy: " in err
    assert "s3cret" not in out + err


def test_a_folder_that_cannot_be_made_is_told_with_its_path(desk: Desk) -> None:
    (desk.folder / "runs").touch()
    code, _, err = desk.call("pytorch", "--device", "cpu")
    assert code == 2
    assert f"{desk.folder / 'runs'}: cannot be used: File exists" in err


def test_nothing_to_run_is_a_json_document_too(desk: Desk) -> None:
    code, out, _ = desk.call("pytorch", "--stage", "0", "--json")
    assert code == 0
    assert json.loads(out)["planned"] == 0


def test_settings_outlast_a_reader_that_leaves(desk: Desk) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "ci.cli", "config", "show"],
        cwd=desk.folder,
        env=desk.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_what_is_no_run_owes_nothing_and_says_so(desk: Desk) -> None:
    (desk.folder / "run").mkdir()
    code, _, said = desk.call("hud", "send", "run", environ={"SPYRE_CI__REPORT__ENDPOINT": "embedded"})
    assert (code, "run/summary.json: there is no summary file" in said) == (2, True)
    assert list((desk.folder / "run").iterdir()) == []


ONE_FILE = ("--files", "test_outcomes.py", "--percent", "100")


def test_a_split_run_runs_on_the_device_it_was_begun_on(desk: Desk, tree: Path) -> None:
    folder = ("--run-dir", "runs/split")
    assert desk.call("collect", *folder, "--pytorch-src", str(tree), "--device", "cpu", *ONE_FILE[:2])[0] == 0
    assert desk.call("select", *folder, *ONE_FILE[2:])[0] == 0
    assert desk.call("plan", *folder, "--shards", "2")[0] == 0
    code, _, err = desk.call("run", *folder, "--device", "spyre")
    assert code == 2
    assert "--device is 'spyre', but the run was started on 'cpu'" in err


def test_what_failed_runs_again_where_it_came_from(desk: Desk, tree: Path) -> None:
    assert desk.call("pytorch", "--pytorch-src", str(tree), "--device", "cpu", *ONE_FILE)[0] == 1
    again = ("pytorch", "--last-failed", "latest")
    assert desk.call(*again, "--dry-run")[0] == 0
    code, out, _ = desk.call(*again, "--files", "sub/*")
    assert code == 1  # what failed elsewhere did so all the same
    assert out == "nothing of latest can be rerun in sub/*, and it ended with exit 1: 4 tests failed\n"
    code, out, _ = desk.call(*again, "--stage", "2")
    assert code == 1
    assert "named tests all run, whatever the stage or percentage" in out
    last = desk.runs[-1]
    assert read_identity(last).device == "cpu"
    assert len(list(read_results(last / "results.jsonl.gz"))) == 4


def test_a_page_and_a_history_that_cannot_be_written_cost_nothing_else(desk: Desk, tree: Path) -> None:
    (desk.folder / ".spyre-ci").mkdir()
    (desk.folder / ".spyre-ci" / "store.sqlite").write_text("garbage " * 100, encoding="utf-8")
    (desk.folder / "state").touch()
    words = ("pytorch", "--pytorch-src", str(tree), "--device", "cpu", "--files", "sub/*", "--percent", "100")
    environ = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(desk.folder / "nowhere" / "page.md")}
    code, out, err = desk.call(*words, environ=environ)
    assert (code, err) == (0, "")
    for said in ("history: cannot be read", "history: not written", "step summary: not written"):
        assert said in out
    code, out, err = desk.call(*words, environ={"SPYRE_CI__STATE": "state"})
    assert (code, err) == (0, "")
    assert "history: not written" in out


def test_a_query_of_the_endpoint_reaches_neither_output_nor_files(desk: Desk, tree: Path) -> None:
    words = ("pytorch", "--pytorch-src", str(tree), "--device", "cpu", "--files", "sub/*", "--percent", "100")
    environ = {
        "SPYRE_CI__REPORT__ENDPOINT": "http://127.0.0.1:9/x?key=s3cret",
        "SPYRE_CI_HUD_TOKEN": "t0ken",
        "SPYRE_CI__REPORT__BUDGET_S": "1",
    }
    code, out, err = desk.call(*words, environ=environ)
    assert code == 0
    assert "NOT reported" in out
    files = [path.read_bytes() for path in desk.folder.rglob("*") if path.is_file()]
    for secret in ("s3cret", "t0ken"):
        assert secret not in out + err
        assert not any(secret.encode() in content for content in files)


def test_a_verb_does_not_wait_for_what_only_others_need() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "import sys, ci.cli.app; print(*sys.modules)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert {"torch", "numpy", "fastapi", "uvicorn", "redis", "re2"} & set(told.stdout.split()) <= {"re2"}
