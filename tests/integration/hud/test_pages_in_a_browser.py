"""Every page in a real browser over ninety days of history: light, dark and as wide as a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode, urljoin, urlsplit

import pytest
import requests
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, Request, sync_playwright

from ci.store.store import Store
from tests.hud_seed import Seeded, seed
from tests.hud_seed_plan import FILES, HOSTILE, OTHER, SPYRE
from tests.hud_server import create_app, embedded

from .conftest import PAGES

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium"),
]
END = datetime(2026, 8, 30, 12, tzinfo=UTC)
LOOKS = {
    "light": ("light", 1400),
    "dark": ("dark", 1400),
    "phone": ("light", 390),
}
NIGHTLY = [pytest.param(name, marks=pytest.mark.nightly) for name in ("dark", "phone")]
TIMEOUT = 60
MOST_LINKS = 400
SEVERE = {"serious", "critical"}


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    return seed(tmp_path_factory.mktemp("hud") / "hud.sqlite", end=END, tests=40_000)


@pytest.fixture(scope="module")
def url(seeded: Seeded) -> Iterator[str]:
    store = Store(seeded.path)
    app = create_app(store, token="t", repository="o/r", clock=END.timestamp)
    with embedded(app) as address:
        yield address
    store.close()


@pytest.fixture(scope="module")
def empty_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = Store(tmp_path_factory.mktemp("hud-empty") / "hud.sqlite")
    with embedded(create_app(store, token="t", repository="o/r", clock=END.timestamp)) as address:
        yield address
    store.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(params=["light", *NIGHTLY])
def look(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    scheme, width = LOOKS[request.param]
    context = browser.new_context(
        color_scheme=scheme,  # type: ignore[arg-type]  # one of its words
        viewport={"width": width, "height": 900},
    )
    yield context.new_page()
    context.close()


def pages(url: str) -> list[str]:
    """Every kind of page, by the addresses that lead to what is worth a look."""
    told = requests.get(f"{url}/api/runs?limit=1000", timeout=TIMEOUT).json()["runs"]
    nightlies = [row["id"] for row in told if row["job_name"] == "nightly-main"]
    hostile = [row["id"] for row in told if "<script>" in row["job_name"]]
    other = [row["id"] for row in told if row["downstream_repo"] == OTHER]
    test = "test/test_sparse.py::TestSparse::test_where_0[op=where,dtype=float32]"
    made = ["/", "/?days=90", "/grid", "/grid?days=90&repo=" + SPYRE, "/runs", "/runs?offset=100", "/tests"]
    made += ["/tests?days=90&verdict=failed", "/durations?days=90", "/cards?days=90", "/rollout?days=90"]
    made += ["/metrics?days=90", "/compare", "/durations", "/cards", "/rollout", "/metrics"]
    made += [f"/test?days=90&{urlencode({'id': one})}" for one in (test, *hostile_tests())]
    if nightlies:
        made += [
            f"/compare?before={nightlies[9]}&after={nightlies[0]}&kind={kind}" for kind in ("slower", "fixed")
        ]
    pulls = {row["pr_number"] for row in told if row["pr_number"] and row["failed_tests"]}
    made += [f"/pr/{number}" for number in sorted(pulls)[-2:]]
    for number in [*nightlies[:1], *nightlies[-1:], *hostile, *other[:1]]:
        made += [f"/runs/{number}", f"/runs/{number}/tests"]
    return made


def hostile_tests() -> list[str]:
    return [f"{FILES[3 + place]}::{text}::{text}" for place, text in enumerate(HOSTILE)]


def visit(page: Page, url: str, path: str) -> list[str]:
    """What is wrong with a page, as a browser sees it."""
    wrong: list[str] = []

    def asked(dialog: Dialog) -> None:
        wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def requested(request: Request) -> None:
        if not request.url.startswith((url, "data:")):
            wrong.append(f"elsewhere: {request.url[:200]}")

    page.on("console", lambda said: wrong.append(f"console: {said.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url[:200]}"))
    page.on("dialog", asked)
    page.on("request", requested)
    answer = page.goto(url + path)
    assert answer is not None
    if answer.status != 200:
        wrong.append(f"status {answer.status}")
    wrong += page.evaluate(PROBE)
    told = Axe().run(page).response["violations"]
    wrong += [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in told if one["impact"] in SEVERE]
    return wrong


# What a page may not hold, whatever its tests call themselves, and what it must.
PROBE = """() => {
    const wrong = [];
    for (const name of ["script:not([nonce])", "img", "iframe", "object", "embed"])
        if (document.querySelector(name)) wrong.push("element " + name);
    for (const one of document.querySelectorAll("*"))
        for (const {name} of one.attributes)
            if (name.startsWith("on") || name === "style") wrong.push("attribute " + name);
    for (const one of document.querySelectorAll("a[href]"))
        if (!["http:", "https:"].includes(one.protocol)) wrong.push("link " + one.href.slice(0, 80));
    for (const one of document.querySelectorAll("table"))
        if (!one.caption || !one.caption.textContent.trim()) wrong.push("a table without a caption");
    for (const one of document.querySelectorAll("svg:not([aria-hidden])"))
        if (!one.getAttribute("aria-label")) wrong.push("a chart without a label");
    for (const one of document.querySelectorAll("select, input:not([type=hidden])"))
        if (!one.labels.length) wrong.push("a field without a label");
    if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
    const over = document.documentElement.scrollWidth - window.innerWidth;
    if (over > 0) wrong.push("wider than the window by " + over + " px");
    return wrong;
}"""


@pytest.mark.nightly
def test_every_page_is_whole(look: Page, url: str, tmp_path: Path) -> None:
    wrong = {}
    for number, path in enumerate(pages(url)):
        if found := visit(look.context.new_page(), url, path):
            wrong[path] = found
        look.context.pages[-1].screenshot(path=tmp_path / f"{number}.png", full_page=True)
        look.context.pages[-1].close()
    assert wrong == {}


@pytest.mark.nightly
def test_every_page_of_an_empty_store_says_what_to_do(look: Page, empty_url: str) -> None:
    for path in PAGES:
        page = look.context.new_page()
        assert visit(page, empty_url, path) == []
        assert "nox -s pytorch" in page.inner_text("main")
        page.close()


@pytest.mark.nightly
def test_every_link_leads_somewhere(browser: Browser, url: str) -> None:
    page = browser.new_page()
    seen: set[str] = set()
    for path in pages(url):
        page.goto(url + path)
        links = page.eval_on_selector_all("a[href]", "all => all.map(one => one.getAttribute('href'))")
        seen |= {urljoin(url + path, link).partition("#")[0] for link in links}
    page.close()
    inside = sorted(link for link in seen if link.startswith(url))
    assert all(urlsplit(link).hostname == "ci.example" for link in seen - set(inside))
    # Of the many that differ in a number alone, every so many-th.
    step = max(1, len(inside) // MOST_LINKS)
    wrong = {
        link: answer.status_code
        for link in inside[::step]
        if (answer := requests.get(link, headers={"Accept": "text/html"}, timeout=TIMEOUT)).status_code != 200
    }
    assert wrong == {}
