"""`spyre-ci init` in folders that are no repository: what is shown, written, refused, and warned of."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from ci.init import cli, files
from ci.init.files import JENKINSFILE, MINIMAL, MOST_BYTES, SETTINGS, TEMPLATES, write
from ci.record.identity import RunIdentity, write_identity
from ci.runner.compatibility import torch_pin
from test_selection.durations import Durations, write_durations
from test_selection.files import atomic_writer, schema_name
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan
from test_selection.selection import OrderNote, Selection, write_selection

SHA = "1234567890abcdef1234567890abcdef12345678"
LABEL = ".github/workflows/spyre-ci-label.yml"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    for name in ("GITHUB_ACTIONS", "SPYRE_CI_EMULATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cli, "installed", lambda: ("0.1.0", SHA))


def called(capsys: Capture, *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run(["init", *words]) == code, capsys.readouterr()
    shown = capsys.readouterr()
    return shown.out + shown.err


def document(capsys: Capture, *words: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(called(capsys, "--json", *words, code=code))
    assert (found["schema"], found["exit_code"]) == (schema_name("init"), code)
    return found


def statuses(found: dict[str, Any]) -> dict[str, str]:
    return {one["path"]: one["status"] for one in found["files"]}


def there() -> list[str]:
    return sorted(path.as_posix() for path in Path().rglob("*") if path.is_file())


@pytest.mark.parametrize(("words", "paths"), [((), list(TEMPLATES)), (("--minimal",), MINIMAL)])
def test_everything_is_shown_first_and_written_when_asked(
    capsys: Capture, words: tuple[str, ...], paths: list[str]
) -> None:
    shown = called(capsys, *words)
    assert "would create spyre-ci.yaml\n--- /dev/null\n+++ b/spyre-ci.yaml\n" in shown
    assert f"{len(paths)} files to write: --write writes them\n" in shown
    assert "note: not a Git repository: branch main is assumed" in shown
    assert f"note: new files call torch-spyre/spyre-ci at {SHA}: that commit has to be on GitHub" in shown
    assert "at v9, a tag or branch that can be moved" in called(capsys, *words, "--toolkit-ref", "v9")
    assert there() == []
    called(capsys, *words, "--check", code=1)
    written = called(capsys, *words, "--write")
    assert f"created spyre-ci.yaml\ncreated {paths[1]}\n" in written
    assert f"{len(paths)} files written\n" in written
    assert there() == sorted(paths)
    assert f"{len(paths)} of {len(paths)} files up to date\n" in called(capsys, *words, "--check")


def test_files_that_are_there_stay_unless_they_are_named(capsys: Capture) -> None:
    document(capsys, "--write")
    path = Path(JENKINSFILE)
    ours = path.read_text()
    path.write_text(ours.replace("agent none", "agent any"))
    Path(SETTINGS).write_text("stage: 2\n")
    Path(LABEL).unlink()
    shown = called(capsys, "--write")
    assert f"differs, left as it is: {JENKINSFILE}\n--- a/{JENKINSFILE}\n+++ b/{JENKINSFILE}\n" in shown
    assert "-    agent any\n+    agent none\n" in shown
    assert Path(LABEL).is_file()
    assert "agent any" in path.read_text()
    assert statuses(document(capsys, "--check", code=1))[JENKINSFILE] == "differs"
    assert f"would overwrite {JENKINSFILE}" in called(capsys, "--overwrite", JENKINSFILE)
    assert f"overwrote {JENKINSFILE}" in called(capsys, "--overwrite", JENKINSFILE, "--write")
    assert path.read_text() == ours
    # Settings are the project's own to change.
    found = document(capsys, "--check")
    assert statuses(found) == {**dict.fromkeys(TEMPLATES, "unchanged"), SETTINGS: "differs"}
    assert Path(SETTINGS).read_text() == "stage: 2\n"


def a_link() -> None:
    Path(JENKINSFILE).symlink_to("/etc/hostname")


def a_folder() -> None:
    Path(JENKINSFILE).mkdir()


def a_pipe() -> None:
    os.mkfifo(JENKINSFILE)


def a_linked_folder() -> None:
    Path("../elsewhere").mkdir()
    Path(".github").symlink_to("../elsewhere")


def a_file_for_a_folder() -> None:
    Path(".github").write_text("")


@pytest.mark.parametrize("make", [a_linked_folder, a_file_for_a_folder])
def test_where_no_workflow_is_written_no_pull_request_is_told_of(
    capsys: Capture, make: Callable[[], None]
) -> None:
    make()
    assert document(capsys, code=1)["first_pull_request"] == []


@pytest.mark.parametrize(
    ("make", "path", "why"),
    [
        (a_link, JENKINSFILE, "Jenkinsfile is a link"),
        (a_folder, JENKINSFILE, "Jenkinsfile is not a file"),
        (a_pipe, JENKINSFILE, "Jenkinsfile is not a file"),
        (a_linked_folder, LABEL, ".github is a link"),
        (a_file_for_a_folder, LABEL, ".github is not a folder"),
    ],
)
def test_what_is_in_the_way_stays_and_is_named(
    capsys: Capture, make: Callable[[], None], path: str, why: str
) -> None:
    make()
    assert f"cannot write {path}: {why}\n" in called(capsys, "--write", code=1)
    assert Path(SETTINGS).is_file()
    elsewhere = Path("../elsewhere")
    assert not elsewhere.exists() or not any(elsewhere.iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--write", "--check"], "--write and --check are both given"),
        (["--device", "A B"], "--device is 'A B'"),
        (["--package", "a-b"], "--package is 'a-b'"),
        (["--toolkit", "x"], "--toolkit is 'x'"),
        (["--toolkit-ref", "a b"], "--toolkit-ref is 'a b'"),
        (["--overwrite", "README.md"], "--overwrite names 'README.md'"),
        (["nowhere"], "is not a folder"),
        (["../checkout/.git"], "belongs to Git itself"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_remedy(
    capsys: Capture, words: list[str], said: str
) -> None:
    if ".git" in words[0]:
        Path(".git").mkdir()
    shown = called(capsys, *words, code=2)
    assert said in shown
    assert "remedy: " in shown
    assert there() == []


def test_settings_that_are_wrong_are_refused_with_file_and_line(capsys: Capture) -> None:
    Path(SETTINGS).write_text("stage: 1\nfrobnicate: 1\n")
    assert f"{SETTINGS}:2: unknown key 'frobnicate'" in called(capsys, code=2)


def test_a_file_that_appears_meanwhile_is_not_overwritten(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(folder: Path, changes: Any) -> None:
        Path(SETTINGS).write_text("stage: 2\n")
        write(folder, changes)

    monkeypatch.setattr(cli, "write", late)
    assert "appeared meanwhile" in called(capsys, "--write", code=2)
    assert Path(SETTINGS).read_text() == "stage: 2\n"


def test_a_file_that_cannot_be_written_is_named_with_those_before_it(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> Any:
        if path.name != SETTINGS:
            raise PermissionError(13, "Permission denied", f"{path}.xyz")
        return atomic_writer(path)

    monkeypatch.setattr(files, "atomic_writer", refuse)
    shown = called(capsys, "--write", code=2)
    path = Path(MINIMAL[1]).absolute()
    assert f"{path}: cannot be written: Permission denied; written before: {SETTINGS}\n" in shown
    assert "remedy: check the folder's rights" in shown
    monkeypatch.setattr(files, "atomic_writer", lambda path: refuse(path / "x"))
    Path(SETTINGS).unlink()
    assert f"{SETTINGS}: cannot be written: Permission denied; nothing was" in called(
        capsys, "--write", code=2
    )


def test_a_last_newline_alone_is_a_difference_that_is_shown(capsys: Capture) -> None:
    document(capsys, "--write")
    path = Path(JENKINSFILE)
    path.write_text(path.read_text().removesuffix("\n"))
    assert "\n-}\n\\ No newline at end of file\n+}\n" in called(capsys)


def test_what_is_too_large_to_show_or_cannot_be_read_stays(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(JENKINSFILE)
    path.write_bytes(b" " * (MOST_BYTES + 1))
    assert f"differs, left as it is: {JENKINSFILE}: too large to show\n" in called(capsys, "--write")
    called(capsys, "--check", code=1)
    assert f"overwrote {JENKINSFILE}" in called(capsys, "--write", "--overwrite", JENKINSFILE)

    def refuse(path: Path, *_: Any) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(files, "read_bounded", refuse)
    shown = called(capsys, "--write", code=1)
    assert f"cannot write {JENKINSFILE}: cannot be read: Permission denied\n" in shown


def test_the_branch_of_a_workflow_that_is_there_stays(capsys: Capture) -> None:
    """A checkout that CI makes does not know the default branch."""
    document(capsys, "--write")
    workflow = Path(MINIMAL[1])
    for branch in ('"release/2"', "trunk", "'v.1'"):
        text = re.sub(r"branches: .*", f"branches: [{branch}]", workflow.read_text())
        workflow.write_text(text)
        found = document(capsys)
        assert found["branch"] == branch.strip("'\"")
        assert "not a Git repository" in found["notes"]
    assert statuses(document(capsys, "--overwrite", str(workflow), "--write"))[str(workflow)] == "overwritten"
    assert statuses(document(capsys, "--check"))[str(workflow)] == "unchanged"
    workflow.write_text(re.sub(r"branches: .*", "branches: [a, b]", workflow.read_text()))
    assert document(capsys)["branch"] == "main"


def test_what_files_hold_commands_no_terminal(capsys: Capture) -> None:
    Path("b").mkdir()
    Path("b", "\x1b[31m::error::x.py").write_text("rename_privateuse1_backend('acme')")
    shown = called(capsys)
    assert "device acme: b/" in shown
    assert "\x1b[31m::error" not in shown


# The first run


def test_a_requirement_that_excludes_the_pin_and_a_missing_back_end_are_warned_of(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("pyproject.toml").write_text('[project]\ndependencies = [\n "torch~=2.7.1",\n]\n')
    warnings = document(capsys)["warnings"]
    assert warnings[0].startswith(
        f"pyproject.toml:3 requires torch~=2.7.1, which excludes torch {torch_pin()}"
    )
    assert warnings[1].startswith(
        "torch_spyre is not installed in this environment, so tests run on the emul"
    )
    monkeypatch.setenv("SPYRE_CI_EMULATE", "1")
    Path("pyproject.toml").unlink()
    assert document(capsys)["warnings"] == []
    (warning,) = document(capsys, "--device", "acme")["warnings"]
    assert warning.startswith("no package in this environment registers the device acme with torch")


WITHOUT = "lint, unit tests, package on [ubuntu-latest]: 0 card-minutes"
ON_CARDS = "device tests on [linux, x86_64, spyre_pf_x1]: "
OWN = "0 card-minutes: environment `own` is without cards"
LABELLED = (
    "no PyTorch tests; the label ciflow/spyre adds stage 1, 5 % of the embedded op suite's in-scope tests: "
)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [
            WITHOUT,
            f"{ON_CARDS}at most 180 card-minutes, the job's time limit",
            f"{LABELLED}card-minutes unknown (no plan or selection of the whole stage 1 in ",
        ]),
        ("pytorch: {source: /p}\npipeline: {pull_request_stage: 2, environment: own}",
         [WITHOUT, f"{ON_CARDS}{OWN}", f"stage 2, 25 % of PyTorch's in-scope tests: {OWN}"]),
        ("stage: 0\npipeline: {device_runner: [spyre_pf_x2]}",
         [WITHOUT, "device tests on [spyre_pf_x2]: at most 360 card-minutes"]),
    ],
)  # fmt: skip
def test_what_the_first_pull_request_runs_follows_from_the_settings(
    capsys: Capture, text: str, lines: list[str]
) -> None:
    if text:
        Path(SETTINGS).write_text(text)
    found = document(capsys)["first_pull_request"]
    assert len(found) == len(lines)
    for line, start in zip(found, lines, strict=True):
        assert line.startswith(f"first pull request: {start}")


def test_card_minutes_count_a_runners_cards_alone(capsys: Capture) -> None:
    for label, said in (
        ("linux_x64", "at most 180 card-minutes, the job's time limit, one card assumed"),
        ("aiu_x3", "at most 540 card-minutes, the job's time limit ("),
        ("spyre_pf_x0", "0 card-minutes: its label says that this runner has no cards"),
    ):
        labels = f"[linux, {label}]"
        Path(SETTINGS).write_text(f"pipeline: {{device_runner: {labels}}}\nmatrix: {{labels: {labels}}}\n")
        _, device, pytorch = document(capsys)["first_pull_request"]
        assert device.startswith(f"first pull request: device tests on {labels}: {said}")
        assert pytorch.endswith(f": {said}") == label.endswith("_x0")


IDENTITY = RunIdentity(
    run="r1", run_id=1, run_attempt=1, device="spyre", pytorch_version="2", pytorch_sha="", stage=1,
    percent=5, started_at=1.0,
)  # fmt: skip
SELECTED = Selection(stage=1, percent=5, ids=["a::b::c"] * 1200)


def a_run(name: str = "r1", *, selection: Selection = SELECTED, **identity: Any) -> Path:
    folder = Path("runs", name)
    folder.mkdir(parents=True, exist_ok=True)
    write_identity(folder, replace(IDENTITY, **identity))
    write_selection(folder / "selection.json", selection)
    return folder


def test_card_minutes_are_the_plans_or_guessed_from_the_selection(capsys: Capture) -> None:
    folder = a_run()
    (line,) = document(capsys)["first_pull_request"][2:]
    guess = "from the selection of run r1, 0.05 s assumed for each, as there is no plan"
    assert line.endswith(f"about 1.0 card-minutes (1,200 tests, {guess})")
    group = Group(file="a", ids=("a::b::c", "a::b::d"))
    shards = [
        Shard(index=0, expected_s=90, groups=(group,), cards=2),
        Shard(index=1, expected_s=60, groups=()),
    ]
    mark = fingerprint(shards)
    plan = Plan(fingerprint=mark, bound_s=90, makespan_s=90, binds="balance", shards=tuple(shards))
    write_plan(folder / "plan.json", plan)
    (line,) = document(capsys)["first_pull_request"][2:]
    assert line.endswith("about 4.0 card-minutes (1,200 tests, from the plan of run r1)")
    seconds = dict.fromkeys(group.ids, 1.0)
    write_durations(folder / "durations.json.gz", Durations(tests=seconds, spread={"a::b::c": 1.0}))
    (line,) = document(capsys)["first_pull_request"][2:]
    assert line.endswith("from the plan of run r1, 1 of 2 durations guessed)")
    (folder / "plan.json").write_text("{")
    assert "from the selection of run r1" in document(capsys)["first_pull_request"][2]


@pytest.mark.parametrize(
    ("identity", "selection", "settings"),
    [
        ({}, {"stage": 2, "percent": 25}, ""),
        ({}, {"percent": 6}, ""),
        ({}, {"stage": None}, ""),
        ({}, {"bucket": "pr"}, ""),
        ({}, {"ladder": OrderNote(source="", by="seconds")}, ""),
        ({"restricted": "-k view"}, {}, ""),
        ({"restricted": "files a.py"}, {}, ""),
        ({}, {}, "pytorch: {files: [a.py]}"),
        ({"device": "cpu"}, {}, ""),
        ({"reproduce": ("spyre-ci", "pytorch", "--pytorch-src", "/p")}, {}, ""),
        ({}, {}, "pytorch: {source: /p}"),
    ],
)
def test_card_minutes_are_never_those_of_other_tests(
    capsys: Capture, identity: dict[str, Any], selection: dict[str, Any], settings: str
) -> None:
    a_run(selection=replace(SELECTED, **selection), **identity)
    Path(SETTINGS).write_text(settings)
    assert "card-minutes unknown" in document(capsys)["first_pull_request"][2]
    if not settings:  # an earlier run counts
        whole = a_run("r0")
        os.utime(whole / "run.json", (1, 1))
        assert "from the selection of run r0" in document(capsys)["first_pull_request"][2]
