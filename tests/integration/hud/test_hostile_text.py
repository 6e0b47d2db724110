"""Text that wants to be more than text, sent by every way in; then all pages and routes is read."""

from __future__ import annotations

import html.parser
import json
import re
from collections import Counter
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import pytest
import requests

from ci.hud.server.results import HEADER
from ci.store.identity import key_of_test
from ci.store.store import Store
from tests.hud_server import create_app, embedded

TOKEN = "s3cret-token"
REPOSITORY = "torch-spyre/torch-spyre"
NOW = 1_785_000_000.0
TIMEOUT = 20
TEXTS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "javascript:alert(1)",
    "</title></style></textarea><script src=//evil.example></script>",
    "{{ 7*7 }}{% raw %}${7*7}#{7*7}<%= 7 %>",
    "\u202egnp.exe\u2066\u200f",
    "line\nbreak\ttab\r&amp;&lt;",
    "-->]]><!--",
    "é" * 3000,
    "%00%0a/../..//..\\?x=1#y",
    "' OR 1=1; DROP TABLE test_run; --",
    "\x1b[31mred\x1b[0m\x1b]8;;https://evil.example\x07here\x1b]8;;\x07\x9b2J",
    "\u202d\u202e\u2067\u2068\u2069\u061c\ufeff\u2028\u2029\ufffe",
    "</script><script>alert(1)</script>",
    "</SCRIPT ><iframe srcdoc='<script>alert(1)</script>'>",
    "JaVa\tScRiPt:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "x" * 8000,
    "\u0301" * 500,
    "<!--<script>",
]
# One of each kind; those that are like them run at night.
QUICK = {0, 1, 6, 12, 18}
VOID = frozenset({"meta", "link", "br", "hr", "input", "img", "col"})
# What pages may have; there is no template with any other.
TAGS_OF_CODE = frozenset({"img", "iframe", "object", "embed", "base"})


class Reader(html.parser.HTMLParser):
    """Elements and attributes of a page, and whether every one is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.addresses: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] += 1
        # The page's own script, which its policy lets through by a nonce that nothing on it can know.
        assert tag != "script" or (self.seen[tag] == 1 and [name for name, _ in attrs] == ["nonce", "type"])
        for name, value in attrs:
            self.seen[f"{tag}[{name}]"] += 1
            assert re.fullmatch(r"[a-zA-Z:-]+[0-9]?", name), name
            assert not name.startswith("on"), name
            if name in {"href", "src", "action", "xlink:href", "formaction"}:
                self.addresses.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


def serving(path: Path) -> Any:
    store = Store(path)
    return embedded(
        create_app(
            store, token=TOKEN, repository=REPOSITORY, clock=lambda: NOW, limit=10**9, ingest_token=TOKEN
        )
    )


@pytest.fixture(scope="module")
def known(folder: Path) -> set[str]:
    """What pages have where every text is harmless: nothing else may be on the others."""
    with serving(folder / "tame.sqlite") as url:
        fill(url, "tame")
        return {name for path in pages("tame") for name in shape(url, path).seen}


def callback(text: str, number: int) -> dict[str, Any]:
    names = ("run", "lane", "provider", "device", "pytorch")
    verdicts = {text[:64]: 1, "passed": 1, "failed": 1}
    return {
        "event_type": "nightly",
        "delivery_id": text[:1024],
        "payload": {
            "head_sha": text,
            "repository": {"full_name": text},
            "pull_request": {"number": 7, "head": {"sha": text}},
            "spyre_ci": {**dict.fromkeys(names, text), "stage": 1, "percent": 5.0, "verdicts": verdicts},
        },
        "workflow": {
            "status": "completed",
            "conclusion": text,
            "name": text[:1024],
            "job_name": text[:1024],
            "check_run_id": number,
            "run_id": number,
            "started_at": "2026-07-25T00:00:00Z",
            "completed_at": "2026-07-25T01:00:00Z",
            "test_results": {"passed": 1, "failed": 1},
            "artifact_url": text,
            "url": f"https://ci.example/{text}" if number % 2 else text,
        },
    }


def junit(text: str) -> bytes:
    # What XML cannot hold cannot come this way.
    held = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "", text)
    said, body = quoteattr(held), re.sub("[<&>]", "", held)
    name = f"<testcase classname={said} name={said} file={said} time='1'>"
    return (
        f"<testsuites><testsuite name={said}>{name}<failure type={said} message={said}>{body}</failure>"
        f"<system-out>card: {body}\nattempts: 2</system-out>"
        f"<properties><property name='id' value={said}/></properties></testcase>"
        f"{name}<error type='hardware' message={said}/></testcase>{name}<rerun message={said}/></testcase>"
        f"<testcase name={said}/></testsuite></testsuites>"
    ).encode("utf-8", "replace")


def rows(text: str, number: int) -> bytes:
    names = ("invoking_file", "file", "classname", "name")
    row = {
        "workflow_id": number,
        "workflow_run_attempt": 1,
        "job_id": number,
        **dict.fromkeys(names, text),
        "failure": {"message": text, "type": text, "text": text},
        "system-out": {"text": f"card: {text}\nverdict: {text}"},
        "properties": {"property": {"name": "id", "value": text}},
    }
    return json.dumps(row).encode()


def send(url: str, path: str, body: Any, **query: str | int) -> int:
    """The status of an answer to a body that any of the tokens lets through."""
    headers = {"Authorization": f"Bearer {TOKEN}", HEADER: TOKEN, "Content-Type": "application/json"}
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return requests.post(url + path, params=query, data=sent, headers=headers, timeout=TIMEOUT).status_code


def report(url: str, content: dict[str, Any], *, handed: bool) -> int:
    """Send a callback, as its relay does or as another hands it on."""
    if not handed:
        return send(url, "/github/callback", content)
    trusted = {"verified_repo": REPOSITORY, "downstream_repo_level": "L2"}
    return send(url, "/api/crcr/results", {"trusted": trusted, "untrusted": {"callback_payload": content}})


def upload(url: str, kind: str, body: bytes, number: int, name: str) -> int:
    job: dict[str, str | int] = {"workflow_id": number, "workflow_run_attempt": 1, "job_id": number}
    return send(url, f"/api/upload/{kind}", body, **job, name=name[:1024])


def fill(url: str, text: str) -> None:
    sent = [
        report(url, callback(text, 1), handed=False),
        upload(url, "junit", junit(text), 1, text),
        report(url, callback(text, 2), handed=False),
        upload(url, "test_run", rows(text, 2), 2, text),
        report(url, callback(text, 3) | {"event_type": text[:64]}, handed=True),
    ]
    assert sent == [200] * 5


def pages(text: str) -> list[str]:
    said = quote(text[:2000], safe="")
    chosen = f"lane={said}&repo={said[:300].rpartition('%')[0]}&event=nightly"
    plain = ["/", "/grid", "/tests", "/tests?verdict=failed", "/durations", "/cards", "/rollout", "/metrics"]
    return [
        *plain,
        *(f"{path}{'&' if '?' in path else '?'}lane={said}" for path in plain),
        *(f"{path}{'&' if '?' in path else '?'}{chosen}" for path in plain),
        "/runs",
        *(
            f"/runs/{number}{rest}"
            for number in (1, 2, 3)
            for rest in ("", "/tests", f"/tests?file={said}&card={said}")
        ),
        "/compare",
        *(
            f"/compare?before=1&after=2&kind={kind}"
            for kind in ("newly%20failing", "still%20failing", "vanished")
        ),
        f"/test?id={said}",
        f"/test?key={key_of_test(text)}",
        f"/grid?sha={said}",
    ]


def routes(text: str) -> list[str]:
    said = quote(text[:2000], safe="")
    return [
        "/api/failing",
        "/api/pr/7",
        "/api/runs",
        *(f"/api/runs/{number}{rest}" for number in (1, 2, 3) for rest in ("", "/failures", "/tests")),
        "/api/compare?before=1&after=2",
        "/api/tests?verdict=failed",
        f"/api/tests/{said}",
        *(f"/api/{name}?lane={said}" for name in ("durations", "cards", "rollout", "metrics")),
    ]


def shape(url: str, path: str) -> Reader:
    answer = requests.get(url + path, headers={"Accept": "text/html"}, timeout=TIMEOUT)
    assert answer.status_code == 200, path
    assert answer.text.startswith("<!DOCTYPE html>")
    reader = Reader()
    reader.feed(answer.text)
    reader.close()
    assert reader.open == []
    return reader


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=() if number in QUICK else pytest.mark.nightly)
        for number in range(len(TEXTS))
    ],
)
def test_hostile_text_is_text_on_every_page_and_in_every_answer(
    folder: Path, known: set[str], number: int
) -> None:
    text = TEXTS[number]
    assert not known & TAGS_OF_CODE
    with serving(folder / f"{number}.sqlite") as url:
        fill(url, text)
        for path in pages(text):
            found = shape(url, path)
            assert found.seen.keys() <= known | {"a[href]", "a[rel]"}, path
            for address in found.addresses:
                assert address.startswith(("/", "?", "#", "data:,", "https://ci.example/")), (path, address)
                assert not address.startswith("//"), (path, address)
        for path in routes(text):
            read(url, path)


@pytest.mark.parametrize(
    "text",
    [
        "a\0b",
        "\ud800 lone \udfff",
        pytest.param("\0", marks=pytest.mark.nightly),
        pytest.param("\udc80", marks=pytest.mark.nightly),
    ],
)
def test_text_no_column_can_hold_is_refused_or_mended_and_breaks_no_page(folder: Path, text: str) -> None:
    with serving(folder / f"held-{len(text)}-{ord(text[0])}.sqlite") as url:
        fill(url, "tame")
        statuses = Counter[int]()
        for number, (*above, last) in enumerate(places(callback("tame", 9)), start=10):
            content = callback("tame", number)
            reduce(getitem, above, content)[last] = text
            statuses.update(report(url, content, handed=handed) for handed in (False, True))
        statuses[upload(url, "test_run", rows(text, 2), 2, "b")] += 1
        assert statuses.keys() == {200, 400}
        for path in [*pages("tame"), "/runs/2/tests"]:
            shape(url, path)
        for path in routes("tame"):
            read(url, path)


def read(url: str, path: str) -> None:
    answer = requests.get(url + path, timeout=TIMEOUT)
    assert answer.status_code == 200, (path, answer.text)
    json.loads(answer.content.decode("utf-8"))


def places(content: Any, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Where a report has text."""
    if isinstance(content, dict):
        return [place for key, value in content.items() for place in places(value, (*above, key))]
    return [above] if isinstance(content, str) else []
