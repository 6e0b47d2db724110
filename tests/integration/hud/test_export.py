"""The static copy: every link leads to a file, and a browser reads it from a folder without a server."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from ci.errors import UsageError
from ci.hud.server.export.folder import ACCOUNT
from ci.hud.server.export.site import export
from ci.hud.server.store import Store
from tests.hud_seed import seed

pytestmark = pytest.mark.nightly

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
END = datetime(2026, 8, 30, 12, tzinfo=UTC)
DAYS = 4
NAVIGATION = ("grid", "runs", "tests", "durations", "cards", "rollout", "metrics")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path = tmp_path_factory.mktemp("hud") / "hud.sqlite"
    seed(path, end=END, tests=12_000, days=12)
    with closing(Store(path)) as store:
        yield store


@pytest.fixture(scope="module")
def site(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "hud"
    export(store, folder, now=END.timestamp(), days=DAYS, runs=1000)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if BROWSER is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


class Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.found += [value or "" for name, value in attrs if name in {"href", "src", "action"}]


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_every_link_of_every_page_leads_to_a_file(site: Path) -> None:
    wrong = []
    for page in pages(site):
        for link in Links(page.read_text(encoding="utf-8")).found:
            if link.startswith(("#main", "data:,", "https://ci.example/")):
                continue
            target = (page.parent / link).resolve()
            if urlsplit(link).scheme or not (target.is_relative_to(site.resolve()) and target.is_file()):
                wrong.append(f"{page.relative_to(site)}: {link}")
    assert wrong == []


def test_every_page_can_be_reached_from_the_index(site: Path) -> None:
    found, queue = {site / "index.html"}, [site / "index.html"]
    while queue:
        page = queue.pop()
        for link in Links(page.read_text(encoding="utf-8")).found:
            target = (page.parent / link).resolve()
            if target.suffix == ".html" and target.is_relative_to(site.resolve()) and target not in found:
                found.add(target)
                queue.append(target)
    assert found == set(pages(site))


def test_the_copy_has_every_kind_of_page(site: Path) -> None:
    assert {f"{name}.html" for name in ("index", *NAVIGATION)} <= {one.name for one in site.iterdir()}
    for kind in ("runs", "test", "compare", "grid", "tests"):
        assert any((site / kind).iterdir()), kind
    assert any(site.glob("runs/*/tests.html"))


def test_no_page_needs_a_server_or_says_a_secret(site: Path) -> None:
    for page in pages(site):
        text = page.read_text(encoding="utf-8")
        assert Links(text).tags & {"form", "script", "img", "iframe", "input", "button"} == set(), page
        assert " nonce=" not in text
        assert "Content-Security-Policy" in text
        assert f"2026-08-30 12:00 UTC: the last {DAYS} days" in text


def test_file_names_are_safe_whatever_lanes_and_tests_are_called(site: Path) -> None:
    for path in site.rglob("*"):
        name = path.relative_to(site).as_posix()
        assert re.fullmatch(r"[a-z0-9/.-]{1,100}", name), name


def test_the_same_store_and_time_give_the_same_bytes(store: Store, site: Path, tmp_path: Path) -> None:
    export(store, tmp_path / "again", now=END.timestamp(), days=DAYS, runs=1000)
    assert {one.relative_to(site): one.read_bytes() for one in site.rglob("*") if one.is_file()} == {
        one.relative_to(tmp_path / "again"): one.read_bytes()
        for one in (tmp_path / "again").rglob("*")
        if one.is_file()
    }


def test_an_export_replaces_the_one_before_whole(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    first = export(store, folder, now=END.timestamp(), days=2, runs=1000)
    second = export(store, folder, now=END.timestamp(), days=2, runs=3)
    assert second.runs == 3 < first.runs
    assert len(pages(folder)) == second.pages < first.pages
    assert sorted(json.loads((folder / ACCOUNT).read_text())["files"]) == sorted(
        one.relative_to(folder).as_posix() for one in pages(folder)
    )
    assert [one.name for one in tmp_path.iterdir()] == ["site"]


def test_what_somebody_put_beside_the_pages_is_never_removed(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    export(store, folder, now=END.timestamp(), days=1, runs=1)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref")
    with pytest.raises(UsageError, match=r"holds what no export wrote: '\.git/HEAD'"):
        export(store, folder, now=END.timestamp(), days=1, runs=1)
    assert (folder / ".git" / "HEAD").read_text() == "ref"


def test_an_empty_store_makes_a_site_too(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "hud.sqlite")) as store:
        made = export(store, tmp_path / "site", now=END.timestamp(), days=30, runs=10)
    assert (made.runs, made.tests) == (0, 0)
    assert "No job was reported yet" in (tmp_path / "site" / "index.html").read_text()


def looked_at(page: Page, path: Path) -> list[str]:
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(f"console: {said.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: dialog.dismiss())
    page.on(
        "request",
        lambda request: (
            wrong.append(f"asked for {request.url[:200]}")
            if request.url != path.as_uri() and not request.url.startswith("data:")
            else None
        ),
    )
    page.goto(path.as_uri())
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    if back != "rgb(245, 247, 250)":
        wrong.append(f"the style does not hold: {back}")
    return wrong


def test_a_browser_reads_it_from_a_folder(browser: Browser, site: Path, tmp_path: Path) -> None:
    kinds = [site / f"{name}.html" for name in ("index", *NAVIGATION)]
    for pattern in (
        "runs/*.html",
        "runs/*/tests.html",
        "runs/*/tests/*.html",
        "test/*.html",
        "compare/*.html",
    ):
        kinds += sorted(site.glob(pattern))[-2:]
    kinds += [page for page in pages(site) if "&lt;script&gt;" in page.read_text(encoding="utf-8")][:5]
    wrong = {}
    for number, path in enumerate(kinds):
        page = browser.new_context(color_scheme="light").new_page()
        if found := looked_at(page, path):
            wrong[path.relative_to(site).as_posix()] = found
        page.screenshot(path=tmp_path / f"{number}.png", full_page=True)
        page.context.close()
    assert wrong == {}


def test_links_lead_a_browser_through_the_folder(browser: Browser, site: Path) -> None:
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.get_by_role("link", name="Runs", exact=True).click()
    assert page.url == (site / "runs.html").as_uri()
    page.locator("tbody th a").first.click()
    assert "/runs/" in page.url
    page.get_by_role("link", name="Summary").click()
    assert page.url == (site / "index.html").as_uri()
    page.close()
