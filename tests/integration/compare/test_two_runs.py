"""Two real runs of a tree that changed between them, compared as somebody types it; the page in a browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from ci.core.process import run_command

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 240
BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
STEADY = "".join(f"def test_steady_{number}(): time.sleep(0.05)\n" for number in range(12))
BEFORE = f"""import os, time
{STEADY}
def test_breaks(): assert True
def test_is_mended(): raise ValueError("not yet")
def test_stays_broken(): raise ValueError("never")
def test_breaks_otherwise(): raise ValueError("one thing")
def test_slow(): time.sleep(0.1)
def test_is_deleted(): pass
def test_wobbles(): pass
def test_crashes(): pass
"""
AFTER = f"""import os, time
{STEADY}
def test_breaks(): raise ValueError("<b>now</b>")
def test_is_mended(): assert True
def test_stays_broken(): raise ValueError("never")
def test_breaks_otherwise(): raise TypeError("another thing")
def test_slow(): time.sleep(2.5)
def test_is_added(): pass
def test_is_added_broken(): assert 1 == 2
def test_wobbles():
    if not os.path.exists(os.environ["WOBBLED"]):
        open(os.environ["WOBBLED"], "w").close()
        assert False, "once"
def test_crashes(): os.abort()
"""


class Shop:
    """A folder in which somebody uses spyre-ci on a tree of their own, on the CPU."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tests = folder / "tree" / "test"
        self.tests.mkdir(parents=True)
        (folder / "tree" / "version.txt").write_text("2.13.0\n")
        kept = {name: one for name, one in os.environ.items() if not name.startswith(("GITHUB_", "JENKINS"))}
        self.environ = {
            **kept,
            "PYTHONPATH": str(ROOT),
            "SPYRE_CI__DEVICE__NAME": "cpu",
            "SPYRE_CI__REPORT__ENDPOINT": "none",
            "WOBBLED": str(folder / "wobbled"),
            "COLUMNS": "200",
        }

    def call(self, *words: str) -> tuple[int, str, str]:
        ended = subprocess.run(
            [sys.executable, "-m", "ci.cli", *words],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return ended.returncode, ended.stdout, ended.stderr

    def run(self) -> None:
        code, out, err = self.call(
            "pytorch", "--pytorch-src", "tree", "--percent", "100", "--cards", "2", "--retries", "1"
        )
        assert code == 1, out + err


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    shop = Shop(tmp_path_factory.mktemp("shop"))
    (shop.tests / "test_main.py").write_text(BEFORE)
    (shop.tests / "test_old_name.py").write_text("def test_that_moves(): pass\n")
    shop.run()
    (shop.tests / "test_main.py").write_text(AFTER)
    (shop.tests / "test_old_name.py").rename(shop.tests / "test_new_name.py")
    shop.run()
    yield shop
    shutil.rmtree(shop.folder)


def test_what_changed_between_two_runs_is_found(shop: Shop) -> None:
    code, out, err = shop.call("compare", "latest-1", "latest", "--json", "--check", "--html", "page.html")
    assert code == 1, err
    document = json.loads(out)
    jsonschema.validate(document, json.loads((ROOT / "docs/schemas/compare.json").read_text()))

    def named(kind: str) -> set[str]:
        return {one["id"].partition("::test_")[2] for one in document["tests"][kind]}

    assert named("new_failures") == {"breaks", "crashes"}
    assert named("new_tests_failing") == {"is_added_broken"}
    assert named("newly_flaky") == {"wobbles"}
    assert named("fixed") == {"is_mended"}
    assert named("still_failing") == {"stays_broken"}
    assert named("failing_differently") == {"breaks_otherwise"}
    there = document["existence"]
    assert there["appeared"]["ids"] == ["test_main.py::test_is_added", "test_main.py::test_is_added_broken"]
    assert there["vanished"]["ids"] == ["test_main.py::test_is_deleted"]
    moved = {"now": "test_new_name.py::test_that_moves", "base": "test_old_name.py::test_that_moves"}
    assert there["moved"]["ids"] == [moved]
    assert [one["name"] for one in document["times"]["slower"]["found"]] == ["test_main.py::test_slow"]
    assert document["times"]["setups"] >= 1
    assert [one["what"] for one in document["unlike"]] == ["commit of PyTorch"]


def test_a_run_against_itself_copied_elsewhere_changes_nothing(shop: Shop) -> None:
    latest = max((shop.folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    copy = shop.folder / "copy"
    shutil.copytree(latest, copy)
    code, out, _ = shop.call("compare", str(copy), "latest", "--check")
    assert code == 0
    assert "check: no worse" in out
    assert "newly" not in out.replace("nothing newly", "").replace("is newly flaky\n", "")


@pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium")
def test_the_page_shows_the_drawing_and_runs_nothing(shop: Shop, tmp_path: Path) -> None:
    assert BROWSER is not None
    page = shop.folder / "page.html"
    shop.call("compare", "latest-1", "latest", "--html", str(page))
    tree = run_command(
        [
            BROWSER,
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
            *("--disable-component-update", "--disable-sync", "--no-first-run"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()),
        ],
        timeout_s=120,
    )
    assert '<circle class="slower"' in tree
    assert "<b>now" not in tree
    assert "&lt;b&gt;now" in tree
