"""A test of a run is reproduced by pasting the line that its reports show, into a shell."""

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

from ci.record.reproduction import FILE as MARK
from ci.report.results import read_results

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
    """A folder with a run of a small tree on the CPU, in which somebody pastes lines."""

    def __init__(self, base: Path, tests: str, environ: dict[str, str]) -> None:
        self.folder, self.tree = base / "shop", base / "tree"
        for folder in (self.folder, self.tree / "test", base / "bin", base / "gone" / "test"):
            folder.mkdir(parents=True)
        (self.tree / "version.txt").write_text("2.13.0\n")
        (self.tree / "test" / FILE).write_text(tests)
        (base / "gone" / "test" / FILE).write_text("import unittest\n")
        script = base / "bin" / "spyre-ci"  # what the line calls, as an installed one is
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ci.cli "$@"\n')
        script.chmod(0o755)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "JENKINS"))
        }
        self.environ = {
            **kept,
            "PATH": f"{base / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "SPYRE_CI__REPORT__ENDPOINT": "none",
            "SPYRE_CI__RUN__LEASES": str(base / "leases"),
        }
        words = ["pytorch", "--pytorch-src", str(self.tree), "--device", "cpu", "--percent", "100"]
        line = shlex.join(["spyre-ci", *words, "--cards", "1", "--seed", str(SEED), "--retries", "0"])
        said = self.paste(f"{' '.join(map('='.join, environ.items()))} {line}")[1]
        found = [path for path in (self.folder / "runs").iterdir() if not (path / MARK).exists()]
        assert len(found) == 1, said
        self.run = found[0]

    def paste(self, line: str, cwd: Path | None = None, **environ: str) -> tuple[int, str]:
        """A line in a shell: its exit code, and both outputs."""
        done = subprocess.run(
            ["/bin/bash", "-c", line],
            cwd=cwd or self.folder,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.returncode, done.stdout

    def document(self, line: str) -> tuple[int, dict[str, Any]]:
        """What the line says with --json."""
        code, said = self.paste(
            line.replace("spyre-ci reproduce", "spyre-ci reproduce --json", 1) + " 2>/dev/null"
        )
        found: dict[str, Any] = json.loads(said)
        return code, found

    def line(self, part: str) -> str:
        """The line that the page of the run shows for a test."""
        page = (self.run / "report.html").read_text(encoding="utf-8")
        lines = [html.unescape(one) for one in re.findall(r'<pre class="command"[^>]*>([^<]*)</pre>', page)]
        return next(one for one in lines if part in one)

    def drew(self) -> str:
        """What the test drew in the run."""
        results = read_results(self.run / "results.jsonl.gz")
        found = re.search(
            r"drew \d+", next(one.message for one in results if one.id.endswith("::test_drawn"))
        )
        assert found is not None
        return found[0]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    pytest.importorskip("torch", reason="torch is not there")
    return Shop(tmp_path_factory.mktemp("reproduce"), TESTS, {"FLAKY_NOW": "1"})


@pytest.mark.nightly
def test_a_failure_that_hangs_on_its_seed_is_reproduced_in_one_paste(shop: Shop) -> None:
    code, said = shop.paste(shop.line("test_drawn "))
    assert (code, "reproduced: the same failure" in said, shop.drew() in said) == (1, True, True), said
    assert "differs from the run" not in said
    assert "set as in the run: " in said
    # Its run is nobody's latest one.
    code, found = shop.document("spyre-ci reproduce Drawn::test_fl")
    assert (code, found["id"], found["verdict"], found["at"]) == (
        0, f"{FILE}::TestDrawn::test_flaky", "failed", str(shop.run)
    )  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("part", "change", "code", "said"),
    [
        ("::test_crash", ("", ""), 1, "reproduced: the same failure"),
        ("test_odd", ("", ""), 1, "reproduced: the same failure"),
        ("test_b_wants", ("", ""), 0, "in its process, too: spyre-ci reproduce --run --with-before"),
        ("test_b_wants", ("--run", "--with-before"), 1, "reproduced: the same failure"),
        ("::test_flaky", ("--run", "--tries 2"), 0, "not reproduced: it did not fail (2 tries)"),
        ("::test_drawn", (f"--seed {SEED}", "--seed 12"), 1, "failed differently"),
        ("::test_drawn", ("/tree ", "/gone "), 3, "not run: the file no longer has this test"),
        ("::test_drawn", ("TestDrawn::test_drawn", "TestDrawn::test_dravn"), 2, "similar: "),
    ],
)
def test_a_line_and_what_is_changed_in_it(
    shop: Shop, part: str, change: tuple[str, str], code: int, said: str
) -> None:
    line = shop.line(part)
    assert change[0] in line
    if code == 2:  # without a seed the run has to know the test
        line = line.replace(f"--seed {SEED} ", "")
    ended, told = shop.paste(line.replace(*change, 1))
    assert (ended, said in told) == (code, True), told
    assert not list(shop.folder.glob("evil"))


def test_what_is_refused_leaves_no_folder(shop: Shop) -> None:
    before = sorted(shop.folder.glob("runs/*"))
    line = shop.line("::test_drawn").replace("--device cpu", "--device spyre")
    code, said = shop.paste(line, CI="true")
    assert (code, "would be tested in a CI" in said) == (2, True), said
    assert sorted(shop.folder.glob("runs/*")) == before


@pytest.mark.nightly
def test_a_line_works_without_its_run_and_an_artifact_brings_the_failure(shop: Shop, tmp_path: Path) -> None:
    line = shop.line("::test_drawn")
    code, said = shop.paste(line, cwd=tmp_path)
    assert (code, shop.drew() in said, "there is no failure to compare with" in said) == (1, True, True), said
    packed = tmp_path / "results.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(shop.run.rglob("*")):
            if path.is_file():
                archive.write(path, str(path.relative_to(shop.run)))
    line = f"spyre-ci reproduce --run -- test_crash {packed}"
    code, said = shop.paste(line, cwd=tmp_path)
    assert (code, "which only an untrusted file says" in said) == (2, True), said
    code, said = shop.paste(line.replace("--run", f"--run --pytorch-src {shop.tree}"), cwd=tmp_path)
    assert (code, "reproduced: the same failure" in said) == (1, True), said
    # To `prune` it is a reproduction that has ended.
    words = "--only reproductions --keep-days 0 --keep-last 0 --dry-run --json"
    told = json.loads(shop.paste(f"spyre-ci prune {words} 2>/dev/null", cwd=tmp_path)[1])
    assert {one["kind"] for one in told["removed"]} == {"reproductions"}
    assert len(told["removed"]) == 2


def test_a_test_is_debugged_at_the_failure_as_it_was_drawn(shop: Shop) -> None:
    code, out = shop.paste(f"echo c | {shop.line('::test_drawn').replace('--run', '--pdb')}")
    assert (code, shop.drew() in out, "(Pdb)" in out, "1 failed" in out) == (1, True, True, True), out
    assert "test_crash" not in out


@pytest.mark.nightly
def test_a_hang_and_a_card_s_fault_are_reproduced_as_what_they_are(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not there")
    made = Shop(tmp_path, SICK, {"SPYRE_CI__RUN__TEST_TIMEOUT_S": "3"})
    # The time-out is the run's, though nobody sets it here.
    code, found = made.document(made.line("::test_hangs"))
    assert (code, found["failure"]["cause"], found["ran"]["outcome"]) == (1, "hang", "reproduced")
    code, found = made.document(made.line("::test_card"))
    assert (code, found["verdict"], found["ran"]["outcome"]) == (3, "hardware", "reproduced")
