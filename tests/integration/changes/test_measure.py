"""`changes measure` in a real repository, with a stand-in for the run of each fault."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ci.cli import changes
from ci.config import load_settings
from ci.core.commands import Ended
from ci.core.errors import CommandError
from ci.core.locks import run_lock
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.results import write_results
from ci.steps.folder import RunFolder
from test_selection.catalog import read_catalog
from test_selection.op_map import make_op_map, write_op_map
from test_selection.recall import read_recall
from test_selection.selection import read_selection
from tests.repositories import TWO_KERNELS, commit, git

KERNELS = f"def impl(name):\n    return lambda kernel: kernel\n{TWO_KERNELS}"
TESTS = """\
import unittest
class TestOps(unittest.TestCase):
    def test_add(self):
        pass
    def test_mul(self):
        pass
    def test_other(self):
        pass
"""
SETTINGS = """\
device: {name: cpu}
run: {cards: 1, max_fail: 1, share: /nowhere}
store: {path: /nowhere/store.sqlite, clickhouse: "clickhouse://u@example.org/hud"}
"""
ADD, MUL, OTHER = (f"test_ops.py::TestOps::test_{name}" for name in ("add", "mul", "other"))
Verdicts = Mapping[str, Verdict]


class StandIn:
    """Stands in for `pytorch --resume`, and tells of each test what `tell` makes of the kernels' source."""

    def __init__(self, tell: Callable[[str], Verdicts | None]) -> None:
        self.tell = tell
        self.calls: list[tuple[Sequence[str], Path, Mapping[str, str]]] = []

    def __call__(self, words: Sequence[str], *, timeout_s: float, cwd: Path, env: Mapping[str, str]) -> Ended:
        assert timeout_s > 900
        self.calls.append((words, cwd, env))
        folder = RunFolder(path=Path(words[words.index("--resume") + 1]))
        assert set(read_selection(folder.selection).ids) == {ADD, MUL}, "the tests of RUN, and no others"
        (kernels,) = cwd.rglob("kern/ops.py")
        if (told := self.tell(kernels.read_text())) is not None:
            results = [Result(id=name, file="test_ops.py", verdict=one) for name, one in told.items()]
            write_results(folder.results, "r", results)
        return Ended(code=3, stdout=b"words\n", stderr=b"spyre-ci: no device\n")


def by_kernels(text: str) -> Verdicts | None:
    """As the tests of two kernels would end; None where they could not begin."""
    space: dict[str, Any] = {}
    try:
        exec(text, space)  # noqa: S102  # our own source, with a fault
    except TypeError:
        return None
    right = {ADD: space["add"](2, 3) == 5, MUL: space["mul"](2, 3) == 6}
    return {name: Verdict.PASSED if one else Verdict.FAILED for name, one in right.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A back end of two kernels, and a real run of their two tests out of three."""
    from ci.cli.app import run  # noqa: PLC0415  # as the whole command

    base = tmp_path_factory.mktemp("made")
    test = base / "pytorch" / "test"
    test.mkdir(parents=True)
    (test / "test_ops.py").write_text(TESTS)
    (base / "pytorch" / "version.txt").write_text("2.13.0\n")
    project = base / "project"
    commit(project, {".gitignore": "/runs/\n/.spyre-ci/\nignored.py\n", "kern/ops.py": KERNELS})
    with pytest.MonkeyPatch.context() as patch:
        for name in [one for one in os.environ if one.startswith("SPYRE_CI_")]:
            patch.delenv(name)
        patch.setenv("SPYRE_CI__RUN__LEASES", str(base / "leases"))
        patch.setenv("SPYRE_CI__REPORT__ENDPOINT", "none")
        patch.chdir(project)
        words = ["pytorch", "--pytorch-src", "../pytorch", "--device", "cpu", "--id", ADD, "--id", MUL]
        assert run(words) == 0
    (folder,) = (project / "runs").iterdir()
    catalog = read_catalog(folder / "catalog.jsonl.gz")
    traces = {ADD: ["aten::add.Tensor float32"], MUL: ["aten::mul.Tensor float32"]}
    write_op_map(
        folder / "opmap.json.gz", make_op_map(traces, pytorch=catalog.pytorch, device=catalog.device)
    )
    commit(project, {"spyre-ci.yaml": SETTINGS})
    return base


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "project", tmp_path / "project"))


@pytest.fixture
def measure(called: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Measures with a stand-in: the exit code, both outputs as one, and the calls of the stand-in."""

    def call(
        folder: Path, *words: str, tell: Callable[[str], Verdicts | None] = by_kernels
    ) -> tuple[int, str, list[Any]]:
        stand_in = StandIn(tell)
        monkeypatch.setattr(changes, "finish_command", stand_in)
        code, out, err = called(folder, os.environ, "changes", "measure", "latest", *words)
        assert "this is a bug" not in err
        return code, out + err, stand_in.calls

    return call


@pytest.mark.nightly
def test_a_measurement_runs_the_tests_of_its_run_and_keeps_to_itself(project: Path, measure: Any) -> None:
    (project / "kern/ignored.py").write_text("def broken(:\n")  # in no commit
    (project / "kern/new.py").write_text("def broken(:\n")
    code, said, calls = measure(project, "--sources", "kern", "--json")

    assert code == 0, said
    recall = read_recall(project / "recall.json")["evidence"]
    assert (recall.faults, recall.caught, recall.median_share) == (5, 5, 0.5)
    assert len(calls) == 1 + json.loads(said[: said.rindex("}") + 1][said.index("{") :])["faults"]
    words, cwd, environ = calls[0]
    assert words[words.index("--pytorch-src") + 1].endswith("/pytorch")
    assert words[words.index("--device") + 1] == "cpu"
    settings = load_settings(path=project / "spyre-ci.yaml", environ=environ, flags={}, cwd=cwd)
    tree = project / ".spyre-ci/changes/work/HEAD"
    assert cwd == tree
    assert {settings.resolve(settings.model.runs), settings.store_path.parent} <= {
        tree / ".spyre-ci",
        tree / ".spyre-ci/runs",
    }
    assert settings.model.store.clickhouse is None
    assert (settings.model.run.share, settings.model.run.max_fail) == (None, 0)
    assert environ["PYTHONPATH"].split(os.pathsep)[0] == str(tree)
    assert not tree.exists()
    assert git(project, "status", "--porcelain") == "?? kern/new.py\n?? recall.json"
    assert git(project, "worktree", "list").count("\n") == 0

    again = measure(project, "--sources", "kern")
    assert again[0] == 0
    assert len(again[2]) == 1, "only the run without a fault"


@pytest.mark.parametrize("told", [None, {}, {ADD: Verdict.FAILED, MUL: Verdict.NOT_RUN}])
def test_nothing_is_measured_where_no_test_passes_without_a_fault(
    project: Path, measure: Any, told: Verdicts | None
) -> None:
    code, said, calls = measure(project, "--sources", "kern", tell=lambda _: told)

    assert code == 3
    assert "none of its tests passes in a clone of this checkout" in said
    assert "spyre-ci: no device" in said
    assert len(calls) == 1
    assert not (project / "recall.json").exists()


@pytest.mark.parametrize(
    ("told", "failed"),
    [
        (CommandError("took longer than 900 s"), [ADD, MUL]),
        (None, [ADD, MUL]),
        ({ADD: Verdict.PASSED}, [MUL]),
        ({ADD: Verdict.PASSED, MUL: Verdict.NOT_RUN}, [MUL]),
        ({ADD: Verdict.FAILED, MUL: Verdict.PASSED, OTHER: Verdict.FAILED}, [ADD]),
        ({ADD: Verdict.PASSED, MUL: Verdict.INFRASTRUCTURE}, []),
    ],
)
def test_a_fault_may_keep_tests_from_ending(
    project: Path, measure: Any, told: Verdicts | CommandError | None, failed: list[str]
) -> None:
    def tell(text: str) -> Verdicts | None:
        if text == KERNELS:
            return by_kernels(text)
        if isinstance(told, CommandError):
            raise told
        return told

    code, said, _ = measure(project, "--sources", "kern", "--mutants", "1", tell=tell)

    assert code == (0 if failed else 3), said
    (log,) = (project / ".spyre-ci/changes").glob("*.jsonl")
    assert json.loads(log.read_text())["failed"] == failed


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        (["kern/empty.py"], "no Python function in the commit"),
        (["kern/new.py"], "no Python function in the commit"),
        (["kern", "karn"], "no Python function in the commit"),
        (["kern", ".."], "no Python function in the commit"),
        (["kern/unused.py"], "nothing is measured: 0 faults of 2 found by a full run"),
    ],
)
def test_a_measurement_of_nothing_leaves_the_last_one_alone(
    project: Path, measure: Any, sources: list[str], says: str
) -> None:
    commit(project, {"kern/empty.py": "LIMIT = 3\n", "kern/unused.py": "def f(a):\n    return a + 1\n"})
    (project / "kern/new.py").write_text(KERNELS)
    git(project, "add", "kern/new.py")
    (project / "recall.json").write_text("the last one")
    words = [word for source in sources for word in ("--sources", source)]
    code, said, _ = measure(project, *words, "--mutants", "2")

    assert code == 3, said
    assert says in said
    assert (project / "recall.json").read_text() == "the last one"


@pytest.mark.parametrize("content", [b"def f(:\n", b"# caf\xe9\ndef f(a):\n    return a\n"])
def test_a_source_that_is_no_python_is_named(project: Path, measure: Any, content: bytes) -> None:
    commit(project, {"kern/broken.py": content})
    code, said, calls = measure(project, "--sources", "kern")

    assert (code, calls) == (2, [])
    assert "kern/broken.py: is no Python" in said
    assert "remedy: " in said


def test_sources_are_to_be_named(project: Path, measure: Any) -> None:
    code, said, _ = measure(project)

    assert code == 2
    assert "--sources" in said


def test_settings_may_stand_in_a_folder_of_the_repository(project: Path, measure: Any) -> None:
    (project / "below").mkdir()
    for name in ("kern", "spyre-ci.yaml", "runs"):
        (project / name).rename(project / "below" / name)
    commit(project, {"above.py": "def f(a):\n    return a + 1\n", ".gitignore": "/below/runs/\n.spyre-ci/\n"})
    code, said, calls = measure(project / "below", "--sources", "kern", "--sources", "../above.py")

    assert code == 0, said
    assert {cwd.relative_to(project) for _, cwd, _ in calls} == {
        Path("below/.spyre-ci/changes/work/HEAD/below")
    }
    assert "above.py:2 arithmetic" in said


@pytest.mark.parametrize("how", ["worktree", "detached"])
def test_the_commit_is_the_one_that_is_checked_out(
    project: Path, measure: Any, tmp_path: Path, how: str
) -> None:
    head = git(project, "rev-parse", "HEAD")
    commit(project, {"kern/ops.py": "raise ValueError\n"})
    folder = project
    if how == "worktree":
        folder = tmp_path / "other"
        git(project, "worktree", "add", "--quiet", "--detach", str(folder), head)
        shutil.copytree(project / "runs", folder / "runs")
    else:
        git(project, "checkout", "--quiet", "--detach", head)
    code, said, _ = measure(folder, "--sources", "kern", "--mutants", "1")

    assert code == 0, said
    (log,) = (folder / ".spyre-ci/changes").glob("*.jsonl")
    assert log.name.startswith(head[:16])


def test_what_a_measurement_left_that_was_killed_is_made_anew(project: Path, measure: Any) -> None:
    left = project / ".spyre-ci/changes/work/HEAD/kern"
    left.mkdir(parents=True)
    (left / "ops.py").write_text("raise ValueError\n")

    assert measure(project, "--sources", "kern", "--mutants", "1")[0] == 0
    assert not left.exists()


def test_two_measurements_do_not_write_one_log(project: Path, measure: Any) -> None:
    with run_lock(project / ".spyre-ci/changes", alone=True):
        code, said, calls = measure(project, "--sources", "kern")

    assert (code, calls) == (2, [])
    assert f"is being run right now by process {os.getpid()}" in said
