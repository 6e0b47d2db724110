"""A test of a run is brought back by pasting the line that its reports show, into a shell."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import requests

from ci.record.journal import read_journals
from ci.record.reproduction import FILE as MARK
from ci.report.results import read_results
from test_selection.seeds import seed_of_test
from tests.journal_rows import rows_of
from tests.json_documents import differences

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 240
SEED = 11
FILE = "test_drawn.py"
TESTS = """
import os
import random
import signal
import time
import unittest

STATE = []


class TestDrawn(unittest.TestCase):
    def test_a_leaves_something(self):
        STATE.append(1)

    def test_b_wants_nothing_left(self):
        self.assertEqual(STATE, [])

    def test_crash(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def test_drawn(self):
        found = random.Random(random.getrandbits(64)).randrange(10**9)
        self.assertEqual(found % 2, 2, f"drew {found} at {id(object()):#x}")

    def test_flaky(self):
        if os.environ.get("FLAKY_NOW"):
            self.fail("now and then")


class TestPasses(unittest.TestCase):
    def test_fine(self):
        pass


class TestOdd(unittest.TestCase):
    pass


def _odd(self):
    self.fail("odd $(touch evil)")


setattr(TestOdd, "test_odd $(touch evil) 'x' \\"y\\"", _odd)
"""


SICK = """
import time
import unittest


class TestSick(unittest.TestCase):
    def test_card(self):
        print('{"category":"hardware","name":"RAS::EMULATED::Fail","severity":"ERROR"}', flush=True)
        self.fail("the card")

    def test_hangs(self):
        time.sleep(600)
"""


class Shop:
    """A folder in which somebody runs a small tree on the CPU, and pastes lines."""

    def __init__(self, folder: Path, tree: Path) -> None:
        self.folder, self.tree = folder, tree
        folder.mkdir()
        bin_ = folder.parent / "bin"
        bin_.mkdir(exist_ok=True)
        # What the line calls, as an installed one is.
        script = bin_ / "spyre-ci"
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ci.cli "$@"\n')
        script.chmod(0o755)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "JENKINS"))
        }
        self.environ = {
            **kept,
            "PATH": f"{bin_}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "SPYRE_CI__REPORT__ENDPOINT": "none",
        }

    def paste(self, line: str, **environ: str) -> tuple[int, str]:
        """A line, in a shell, as somebody pastes it."""
        done = subprocess.run(
            ["/bin/bash", "-c", line],
            cwd=self.folder,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def document(self, line: str) -> tuple[int, dict[str, Any]]:
        """What the line says with --json."""
        done = subprocess.run(
            ["/bin/bash", "-c", line.replace("spyre-ci reproduce", "spyre-ci reproduce --json", 1)],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return done.returncode, found


def opened(base: Path, tests: str) -> Shop:
    """A shop whose tree holds these tests."""
    (base / "tree" / "test").mkdir(parents=True)
    (base / "tree" / "version.txt").write_text("2.13.0\n")
    (base / "tree" / "test" / FILE).write_text(tests)
    made = Shop(base / "shop", base / "tree")
    made.environ["SPYRE_CI__RUN__LEASES"] = str(base / "leases")
    return made


def begun(shop: Shop, **environ: str) -> int:
    """The run that is brought back."""
    words = ["pytorch", "--pytorch-src", str(shop.tree), "--device", "cpu", "--percent", "100"]
    line = shlex.join(["spyre-ci", *words, "--cards", "1", "--seed", str(SEED), "--retries", "0"])
    code, said = shop.paste(line, **environ)
    assert (shop.folder / "runs").is_dir(), said
    return code


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A shop with a run in which much failed."""
    pytest.importorskip("torch", reason="torch is not found")
    made = opened(tmp_path_factory.mktemp("reproduce"), TESTS)
    assert begun(made, FLAKY_NOW="1") == 1
    return made


def run_of(shop: Shop) -> Path:
    return next(path for path in (shop.folder / "runs").iterdir() if not (path / MARK).exists())


def line_of(shop: Shop, part: str) -> str:
    """The line that the page of the run shows for a test."""
    page = (run_of(shop) / "report.html").read_text(encoding="utf-8")
    lines = [html.unescape(one) for one in re.findall(r'<pre class="command"[^>]*>([^<]*)</pre>', page)]
    return next(one for one in dict.fromkeys(lines) if part in one)


def drew_in(shop: Shop) -> str:
    """What the test drew in the run."""
    results = read_results(run_of(shop) / "results.jsonl.gz")
    found = re.search(r"drew \d+", next(one.message for one in results if one.id.endswith("::test_drawn")))
    assert found is not None
    return found[0]


def test_a_failure_that_hangs_on_its_seed_is_brought_back_in_one_paste(shop: Shop) -> None:
    code, said = shop.paste(line_of(shop, "test_drawn "))
    assert code == 1, said
    assert "reproduced: the same failure" in said
    assert drew_in(shop) in said
    # Variables that are put back as they were are no difference.
    assert "differs from the run" not in said
    assert "set as in the run: " in said


@pytest.mark.nightly
def test_the_line_with_another_seed_or_without_the_run(shop: Shop, tmp_path: Path) -> None:
    line, drew = line_of(shop, "test_drawn "), drew_in(shop)
    # Another seed draws something else, so it is the seed that brings it back.
    _, other = shop.paste(line.replace(f"--seed {SEED}", "--seed 12"))
    assert drew not in other.partition("try 1")[2]
    assert "failed differently" in other
    # In a folder without the run the line says all that is wanted, but for what it failed with.
    away = tmp_path / "away"
    away.mkdir()
    code, said = shop.paste(f"cd {shlex.quote(str(away))} && {line}")
    assert (code, drew in said) == (1, True)
    assert "there is no failure to compare with" in said


@pytest.mark.nightly
def test_of_a_test_that_is_gone_nobody_says_that_it_did_not_fail(shop: Shop, tmp_path: Path) -> None:
    for path in (tmp_path / "tree", tmp_path / "tree" / "test"):
        path.mkdir()
    (tmp_path / "tree" / "version.txt").write_text("2.13.0\n")
    (tmp_path / "tree" / "test" / FILE).write_text("import unittest\n")
    line = line_of(shop, "test_drawn ").replace(str(shop.tree), str(tmp_path / "tree"))
    code, found = shop.document(line.replace("--run", "--run --tries 5"))
    assert (code, found["ran"]["outcome"], len(found["ran"]["tries"])) == (3, "no outcome", 1)


def test_the_journal_holds_the_seed_of_each_test(shop: Shop) -> None:
    starts = [
        one
        for journal in read_journals(run_of(shop))
        for one in rows_of(journal.events)
        if one["e"] == "start"
    ]
    assert starts
    assert all(one["seed"] == seed_of_test(SEED, one["id"], 1) for one in starts)


@pytest.mark.nightly
def test_a_crash_is_brought_back(shop: Shop) -> None:
    code, found = shop.document(line_of(shop, "::test_crash"))
    assert (code, found["failure"]["cause"]) == (1, "signal")
    assert found["ran"]["outcome"] == "reproduced"
    # To `prune` it is a reproduction that has ended, and the run it is of stays what `latest` means.
    words = "--only runs --only reproductions --keep-days 0 --keep-last 0 --dry-run --json"
    code, said = shop.paste(f"spyre-ci prune {words} 2>/dev/null")
    told = json.loads(said)
    folder = Path(found["ran"]["folder"]).name
    assert ("reproductions", folder) in [(one["kind"], one["name"]) for one in told["removed"]]
    why = {one["name"]: one["why"] for one in told["kept"]}
    assert why[run_of(shop).name] == "`latest` means it"


@pytest.mark.nightly
def test_a_failure_that_another_test_makes_wants_what_ran_before_it(shop: Shop) -> None:
    line = line_of(shop, "test_b_wants")
    code, said = shop.paste(line)
    assert (code, "not reproduced: it did not fail (1 try)" in said) == (0, True), said
    more = re.search(r"in its process, too: (.*)$", said, re.MULTILINE)
    assert more is not None
    code, said = shop.paste(more[1])
    assert (code, "reproduced: the same failure" in said) == (1, True), said


def test_a_test_is_debugged_at_the_failure_as_it_was_drawn(shop: Shop) -> None:
    line = line_of(shop, "::test_drawn").replace("--run", "--pdb")
    drew = re.search(r"drew (\d+)", shop.paste(line.replace("--pdb", "--run"))[1])
    assert drew is not None
    code, out = shop.paste(f"echo c | {line}")
    assert (code, f"drew {drew[1]}" in out, "(Pdb)" in out, "1 failed" in out) == (1, True, True, True), out
    assert "test_crash" not in out
    code, out = shop.paste(line.replace("--pdb", "--pdb --run"))
    assert (code, "--run and --pdb are given" in out) == (2, True)


@pytest.mark.nightly
def test_what_does_not_fail_again_is_tried_as_often_as_asked(shop: Shop) -> None:
    line = line_of(shop, "::test_flaky").replace("--run", "--run --tries 2")
    code, found = shop.document(line)
    assert (code, found["ran"]["outcome"]) == (0, "not reproduced")
    assert [one["verdict"] for one in found["ran"]["tries"]] == ["passed", "passed"]
    folder = Path(found["ran"]["folder"])
    assert json.loads((folder / "reproduce.json").read_text())["ran"][1]["verdict"] == "passed"
    # It is a run that ended, and nobody's latest one.
    assert (folder / "summary.json").is_file()
    code, said = shop.paste("spyre-ci reproduce test_fine latest")
    assert (code, run_of(shop).name in said) == (0, True), said


@pytest.mark.nightly
def test_a_name_that_is_a_command_stays_a_name(shop: Shop) -> None:
    line = line_of(shop, "odd")
    code, said = shop.paste(line)
    assert (code, "reproduced: the same failure" in said) == (1, True), said
    assert not list(shop.folder.glob("evil"))


def test_names_as_people_have_them(shop: Shop) -> None:
    whole = f"{FILE}::TestDrawn::test_flaky"
    code, found = shop.document(f"spyre-ci reproduce Drawn::test_fl {run_of(shop).name}")
    assert (code, found["id"], found["verdict"], found["ran"]) == (0, whole, "failed", None)
    code, said = shop.paste(f"spyre-ci reproduce {FILE}::TestDrawn::test_flakey latest")
    assert (code, f"similar: {whole}" in said) == (2, True), said


@pytest.mark.nightly
def test_an_artifact_of_a_ci_s_run_brings_it_back(shop: Shop, tmp_path: Path) -> None:
    packed = tmp_path / "results.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(run_of(shop).rglob("*")):
            if path.is_file():
                archive.write(path, str(path.relative_to(run_of(shop))))
    words = f"spyre-ci reproduce --run -- test_crash {shlex.quote(str(packed))}"
    code, said = shop.paste(words)
    assert (code, "which only an untrusted file says" in said) == (2, True), said
    code, said = shop.paste(words.replace("--run", f"--run --pytorch-src {shlex.quote(str(shop.tree))}"))
    assert (code, "reproduced: the same failure" in said) == (1, True), said
    assert list((shop.folder / ".spyre-ci" / "reproduce").iterdir()) == []


@pytest.mark.nightly
def test_the_line_of_a_hud_s_page_reproduces_it_where_its_run_is_not(shop: Shop, tmp_path: Path) -> None:
    code, said = shop.paste("spyre-ci report latest", SPYRE_CI__REPORT__ENDPOINT="embedded")
    assert code == 1, said
    words = [sys.executable, "-u", "-m", "ci.cli", "hud", "serve", "--port", "0"]
    with subprocess.Popen(
        words, cwd=shop.folder, env=shop.environ, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://[\d.:]+", server.stdout.readline())
            assert found is not None
            page = requests.get(f"{found[0]}/runs/1", timeout=20).text
        finally:
            server.terminate()
    shown = [html.unescape(one) for one in re.findall(r"<pre[^>]*>(spyre-ci[^<]*)</pre>", page)]
    line = next(one for one in shown if "::test_crash" in one)
    # It says all but where the tests are on that machine.
    words = shlex.split(line)
    words[words.index("--pytorch-src") + 1] = str(shop.tree)
    away = tmp_path / "away"
    away.mkdir()
    code, said = shop.paste(f"cd {shlex.quote(str(away))} && {shlex.join(words)}")
    assert (code, "there is no failure to compare with" in said, "SIGSEGV" in said) == (1, True, True), said


@pytest.mark.nightly
def test_a_hang_and_a_card_s_fault_are_brought_back_as_what_they_are(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not found")
    made = opened(tmp_path, SICK)
    assert begun(made, SPYRE_CI__RUN__TEST_TIMEOUT_S="3") == 3
    # The time-out is the run's, though nobody sets it here.
    code, found = made.document(line_of(made, "::test_hangs"))
    assert (code, found["failure"]["cause"], found["ran"]["outcome"]) == (1, "hang", "reproduced")
    code, found = made.document(line_of(made, "::test_card"))
    assert (code, found["verdict"], found["ran"]["outcome"]) == (3, "hardware", "reproduced")
