"""The first day with spyre-ci, and tidying later: doctor, init, settings, suites, history, prune, errors."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.conftest import ROOT, Desk, make_desk
from tests.repositories import git
from tests.retention_world import make_run, put, release_of

SHA = "1" * 40
TESTS = '''\
"""Stands for a file of PyTorch's."""

import unittest


class TestSmall(unittest.TestCase):
    def test_passes(self):
        pass

    def test_mended(self):
        pass

    def test_broken(self):
        self.assertEqual(1, 2)

    @unittest.skip("not today")
    def test_skips(self):
        pass
'''
SUITE = """\
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_small.py
      unlisted_test_mode: mandatory_success
      tests:
        - names:
            - TestSmall::test_mended
            - TestSmall::test_broken
          mode: xfail
"""


def small_tree(base: Path) -> Path:
    """A tree of PyTorch's with one file of tests."""
    test = base / "pytorch" / "test"
    test.mkdir(parents=True)
    (test / "test_small.py").write_text(TESTS)
    (test.parent / "version.txt").write_text("2.13.0\n")
    return test.parent


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A folder with a suite file, and a run in which one expected failure passes."""
    base = tmp_path_factory.mktemp("reported")
    desk = make_desk(base, "pytorch: {suite: suite.yaml}\nrun: {cards: 1}\n", stand_in=True)
    desk.write("suite.yaml", SUITE)
    desk.call("pytorch", "--pytorch-src", small_tree(base), "--percent", "100")
    (run,) = desk.runs()
    assert desk.read(run / "summary.json")["verdicts"]["xpassed"] == 1
    return desk


# doctor


@pytest.mark.gate
def test_doctor_says_what_is_there_and_a_remedy_for_what_is_not(desk: Desk, tmp_path: Path) -> None:
    checks = ("python", "device", "cards", "hud", "tokens", "disk", "engine")
    words = [word for name in checks for word in ("--only", name)]
    nowhere = f"unix://{tmp_path}/none.sock"
    told = desk.call("doctor", *words, "--json", code=2, DOCKER_HOST=nowhere).json
    by_level = {
        level: {one["check"] for one in told["findings"] if one["level"] == level} for level in told["counts"]
    }
    assert by_level["fault"] == {"engine"}
    assert by_level["ok"] | by_level["warning"] >= set(checks) - {"engine"}
    assert told["counts"] == {
        level: sum(one["level"] == level for one in told["findings"]) for level in told["counts"]
    }
    assert told["exit_code"] == 2
    (fault,) = [one for one in told["findings"] if one["level"] == "fault"]
    assert nowhere in fault["message"]
    assert "DOCKER_HOST" in fault["remedy"]
    shown = desk.call("doctor", *words, code=2, DOCKER_HOST=nowhere).out
    assert nowhere in shown
    assert "DOCKER_HOST" in shown
    assert list(desk.folder.iterdir()) == [], "checking leaves nothing"
    desk.call("doctor", "--only", "python", "--only", "disk")


def test_doctor_names_a_token_that_the_settings_want_and_shows_none(desk: Desk) -> None:
    desk.write("spyre-ci.yaml", "report: {endpoint: 'https://hud.example.invalid', token_file: token}\n")
    secret = "hush-hush"
    said = desk.call(
        "doctor",
        "--only",
        "tokens",
        "--json",
        code=2,
        SPYRE_CI__REPORT__ENDPOINT="https://hud.example.invalid",
        GITHUB_TOKEN=secret,
    )
    assert secret not in said.out + said.err
    assert any(one["level"] == "fault" and one["remedy"] for one in said.json["findings"])


# init

BACK_END = {
    "pyproject.toml": '[project]\nname = "torch-acme"\nversion = "1.0"\n'
    '[project.entry-points."torch.backends"]\nacme = "torch_acme:load"\n',
    # Whoever imports it leaves a file: nothing of a checkout is run.
    "torch_acme/__init__.py": "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"
    "import torch\n\n\ndef load():\n    torch.utils.rename_privateuse1_backend('acme')\n",
    "README.md": "# acme\n",
}


def files_of(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in found
        if ".git" not in path.relative_to(folder).parts
    }


@pytest.mark.gate
@pytest.mark.parametrize("files", [{}, BACK_END], ids=["an empty folder", "a back end"])
def test_init_shows_then_writes_and_leaves_what_people_wrote(desk: Desk, files: dict[str, str]) -> None:
    for name, text in files.items():
        desk.write(name, text)
    git(desk.folder, "init", "--quiet", "--initial-branch=main")
    before = files_of(desk.folder)

    def init(*words: str, code: int = 0) -> dict[str, Any]:
        told = desk.call("init", ".", "--toolkit-ref", SHA, "--json", *words, code=code).json
        return {one["path"]: one for one in told["files"]} | {"": told}

    shown = init()
    assert files_of(desk.folder) == before, "showing writes nothing"
    told = shown.pop("")
    names = ("acme", "torch_acme") if files else ("spyre", "torch_spyre")
    assert (told["device"], told["package"], told["branch"]) == (*names, "main")
    assert {"spyre-ci.yaml", "Jenkinsfile", ".github/workflows/spyre-ci.yml"} <= set(shown)
    assert {one["status"] for one in shown.values()} == {"created"}
    assert shown["spyre-ci.yaml"]["difference"].startswith("--- /dev/null\n+++ b/spyre-ci.yaml\n")
    init("--check", code=1)
    init("--write")
    after = files_of(desk.folder)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) >= set(shown)
    init("--check")
    settings = desk.folder / "spyre-ci.yaml"
    edited = settings.read_text() + "\n# ours\nstage: 2\n"
    settings.write_text(edited)
    again = init("--write")
    again.pop("")
    assert not {one["status"] for one in again.values()} & {"created", "overwritten", "blocked"}
    assert settings.read_text() == edited
    assert files_of(desk.folder) == after | {"spyre-ci.yaml": edited.encode()}
    assert desk.call("config", "show", "--json").json["stage"]["value"] == 2


# config


def test_config_show_says_where_each_value_came_from(desk: Desk) -> None:
    desk.write("spyre-ci.yaml", "stage: 2\nrun:\n  retries: 4\n")
    told = desk.call("config", "show", "--json", SPYRE_CI__RUN__SEED="7").json
    wanted = {
        "stage": (2, "file"),
        "run.retries": (4, "file"),
        "run.seed": (7, "environment"),
        "runs": ("runs", "default"),
    }
    assert {key: (told[key]["value"], told[key]["origin"]) for key in wanted} == wanted
    lines = desk.call("config", "show").out.splitlines()
    assert str(desk.folder / "spyre-ci.yaml") in lines[0]
    assert ["run.retries", "4", "file"] in [line.split() for line in lines]
    assert "run.retries" in desk.call("config", "show", "--describe").out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("stage: 1\nrun:\n  cardz: 1\n", ("spyre-ci.yaml:3:", "run.cardz", "'cards'", "remedy:")),
        ("stage: 1\nrun:\n  cards: many\n", ("spyre-ci.yaml:3:", "run.cards", "many")),
        ("stage: 1\n  run: [\n", ("spyre-ci.yaml",)),
        ("stages:\n  1: {percent: 250}\n", ("spyre-ci.yaml:2", "stages.1.percent", "250", "remedy:")),
    ],
    ids=["an unknown key", "a wrong value", "no YAML", "out of bounds"],
)
def test_settings_that_are_wrong_are_refused_with_file_line_and_key(
    desk: Desk, text: str, words: tuple[str, ...]
) -> None:
    desk.write("spyre-ci.yaml", text)
    said = desk.call("config", "show", code=2)
    assert all(word in said.err for word in words), said.err


# Suites and history


@pytest.mark.gate
def test_suite_promote_is_a_patch_that_git_takes(reported: Desk, tmp_path: Path) -> None:
    patch = reported.call("suite", "promote", "latest").out
    (tmp_path / "suite.yaml").write_text(SUITE)
    git(tmp_path, "init", "--quiet")
    (tmp_path / "p.patch").write_text(patch)
    git(tmp_path, "apply", "p.patch")
    mended = (tmp_path / "suite.yaml").read_text()
    assert re.search(r"- TestSmall::test_mended\n +mode: mandatory_success\n", mended)
    assert re.search(r"- TestSmall::test_broken\n +mode: xfail\n", mended)
    assert (reported.folder / "suite.yaml").read_text() == SUITE, "nothing is changed unasked"


@pytest.mark.gate
def test_suite_check_finds_what_is_of_no_test_and_what_no_suite_may_say(reported: Desk) -> None:
    (catalog,) = (run / "catalog.jsonl.gz" for run in reported.runs())
    reported.call("suite", "check", "suite.yaml", "--catalog", catalog)
    wrong = reported.write("wrong.yaml", SUITE.replace("test_broken", "test_borken"))
    (finding,) = reported.call("suite", "check", wrong, "--catalog", catalog, "--json").json["findings"]
    assert (finding["severity"], finding["message"]) == ("warning", "matches no test")
    assert "TestSmall::test_broken" in finding["remedy"]
    wrong.write_text(SUITE.replace("mode: xfail", "mode: xfial"))
    said = reported.call("suite", "check", wrong, code=2)
    assert re.search(r"wrong\.yaml:9: error: .*xfial(.|\n)*remedy: .*'xfail'", said.out + said.err)


@pytest.mark.gate
def test_history_goes_from_one_folder_to_another(reported: Desk, tmp_path: Path) -> None:
    shown = reported.call("history", "show", "--json").json
    (row,) = shown["devices"]
    assert (row["device"], row["runs"]) == ("cpu", 1)
    reported.call("history", "export", "--out", tmp_path / "durations.json", "--device", "cpu")
    durations = json.loads((tmp_path / "durations.json").read_text())
    assert durations["schema"] == "spyre-ci/durations/1"
    assert set(durations["tests"]) == {"test_small.py::TestSmall::test_passes"}
    assert set(durations["files"]) == {"test_small.py"}
    other = make_desk(tmp_path / "other")
    for _ in range(2):
        other.call("history", "import", tmp_path / "durations.json", *reported.runs(), "--device", "cpu")
    (row,) = other.call("history", "show", "--json").json["devices"]
    assert (row["runs"], row["tests"], row["imported"]) == (1, 1, 1), "twice is once"
    other.call("history", "export", "--out", "back.json", "--device", "cpu")
    assert other.read("back.json")["tests"] == durations["tests"]


# prune


@pytest.mark.gate
def test_prune_removes_what_is_old_and_keeps_what_a_release_names(desk: Desk) -> None:
    now = time.time()
    runs = desk.folder / "runs"
    ages = {"ancient": 90, "released": 80, "old": 60, "young": 2, "latest": 1}
    for name, days in ages.items():
        make_run(runs, name, days, now=now)
    foreign = desk.write("runs/notes/of-mine.txt", "kept")
    put(desk.folder / "dist" / "release.json", "release", release_of("released"))
    desk.write("spyre-ci.yaml", "retention: {runs: {keep_days: 30, keep_last: 1}}\n")
    desk = replace(desk, environ=desk.environ | {"DOCKER_HOST": f"unix://{desk.folder}/none.sock"})
    dry = desk.call("prune", "--dry-run", "--json").json
    assert {one["name"] for one in dry["removed"]} == {"ancient", "old"}
    assert {path.name for path in runs.iterdir()} == {*ages, "notes"}
    assert desk.call("prune", "--json").json["exit_code"] == 0
    assert {path.name for path in runs.iterdir()} == {"released", "young", "latest", "notes"}
    assert foreign.read_text() == "kept"
    kept = {one["name"]: one["why"] for one in dry["kept"] if one["kind"] == "runs"}
    assert "release" in kept["released"]
    assert desk.call("prune", "--json").json["removed"] == []
    # A release that cannot be read may name anything: nothing that it could name goes.
    make_run(runs, "older", 70, now=now)
    (desk.folder / "dist/release.json").write_text("{")
    desk.call("prune", code=3)
    assert (runs / "older").is_dir()


# Help and refusals


def verbs_of_readme() -> list[tuple[str, ...]]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = set(re.findall(r"spyre-ci ([a-z][a-z-]*)\b(?! =)", text))
    both = set(
        re.findall(
            r"spyre-ci (config|suite|history|hud|image|package|job|lanes|pins|pipeline) ([a-z][a-z-]+)", text
        )
    )
    return [(), *((one,) for one in sorted(first)), *sorted(both)]


@pytest.mark.nightly
def test_every_verb_of_the_readme_tells_its_flags(desk: Desk) -> None:
    verbs = verbs_of_readme()
    assert len(verbs) >= 10
    for words in verbs:
        told = desk.call(*words, "--help").out
        assert "Usage: spyre-ci" in told
        assert " ".join(words) in told


# What is typed, and what the refusal names: the thing that is wrong. Each says a remedy as well.
REFUSED = {
    "plan --catalog none.gz --selection none --durations none --shards 2 --out p.json": "none",
    "select --catalog none.gz --percent 5": "none.gz",
    "run --plan none.json": "none.json",
    "report none": "'none'",
    "compare none other": "'none'",
    "reproduce nothing": "",
    "bisect nothing": "'nothing'",
    "history import none.json": "none.json",
    "suite check none.yaml": "none.yaml",
    "prune --only nothing": "'nothing'",
    "init none": "none",
    "package build": "pyproject.toml",
    "package verify none": "none",
    "package publish --index nowhere": "",
    "image build --print": "",
    "job submit none.yaml": "",
    "lanes export jenkins --check none.json": "none.json",
    "lanes status --at tomorrow": "'tomorrow'",
    "pins decide nothing": "'nothing'",
    "pins apply nothing": "'nothing'",
    "pipeline gate --expect lint": "NEEDS",
    "webhooks apply": "webhooks.yaml",
    "doctor --only nothing": "'nothing'",
}


@pytest.mark.gate
@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_done_is_refused_with_what_where_and_a_remedy(desk: Desk, text: str) -> None:
    said = desk.call(*text.split(), code=2, DOCKER_HOST=f"unix://{desk.folder}/none.sock")
    assert said.out == ""
    assert said.err.startswith("spyre-ci: "), said.err
    assert REFUSED[text] in said.err, said.err
    assert "remedy: " in said.err, said.err
    assert list(desk.folder.iterdir()) == [], "a refusal leaves nothing"


def test_a_verb_that_is_mistyped_is_told_which_one_was_meant(desk: Desk) -> None:
    assert "'plan'" in desk.call("pln", code=2).err
    assert "--percent" in desk.call("select", "--precent", "5", code=2).err
