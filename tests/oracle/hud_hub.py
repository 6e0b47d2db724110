"""A HUD server as a process, reports as others send them, and what a page says to its reader."""

from __future__ import annotations

import html.parser
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import requests

from tests.oracle.conftest import Desk

TIMEOUT_S = 60
REPOSITORY = "torch-spyre/torch-spyre"
CALLBACK = "/github/callback"
GONE = object()
# Nothing of a report makes a page hold any of these.
TAGS_OF_CODE = {"script", "img", "iframe", "object", "embed", "base"}
VOID = {"meta", "link", "br", "hr", "input", "img", "col"}
NOW = datetime.now(UTC).replace(microsecond=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """A server that runs, and the token that it made."""

    process: subprocess.Popen[str]
    desk: Desk
    url: str
    token: str

    def post(self, content: Any, path: str = CALLBACK, **options: Any) -> requests.Response:
        """Post JSON, or bytes as they are, with the server's token unless `token` is another."""
        token = options.pop("token", self.token)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        body = {"data": content} if isinstance(content, bytes) else {"json": content}
        return requests.post(self.url + path, headers=headers, timeout=TIMEOUT_S, **body, **options)

    def get(self, path: str) -> Any:
        """What the read API answers."""
        answer = requests.get(self.url + path, timeout=TIMEOUT_S)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        return answer.json()

    def runs(self) -> list[dict[str, Any]]:
        """The runs, superseded attempts left out."""
        found: list[dict[str, Any]] = self.get("/api/runs?limit=1000")["runs"]
        return found

    def page(self, path: str) -> Page:
        """A page as a browser is given it."""
        answer = requests.get(self.url + path, headers={"Accept": "text/html"}, timeout=TIMEOUT_S)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        assert answer.headers["Content-Type"].startswith("text/html")
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        page = Page()
        page.feed(answer.text)
        assert page.open == [], f"{path} leaves elements open"
        return page


class Page(html.parser.HTMLParser):
    """What stands on a page, which elements it has, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: Counter[str] = Counter()
        self.addresses: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # The page's own script has the nonce of its policy, which nothing that is shown can know.
        own = tag == "script" and [name for name, _ in attrs] == ["nonce", "type"]
        self.tags["own script" if own else tag] += 1
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} {name}={value}"
            if name in {"href", "src", "action", "formaction"}:
                self.addresses.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        """All its words on one line."""
        return " ".join(" ".join(self.words).split())


@contextmanager
def serving(desk: Desk, *words: str, **environ: str) -> Iterator[Hub]:
    """Serve the desk's store at a free port until the end of the block, which ends the server by Ctrl-C."""
    with desk.start("hud", "serve", "--port", "0", *words, **environ) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert found is not None
            token = (desk.folder / ".spyre-ci" / "hud-token").read_text(encoding="ascii").strip()
            yield Hub(process=process, desk=desk, url=found[0], token=token)
            process.send_signal(signal.SIGINT)
            process.wait(TIMEOUT_S)
        finally:
            process.kill()


def callback(run: int = 1, *, hours_ago: float = 1, **workflow: Any) -> dict[str, Any]:
    """A nightly's report, with other keys of `workflow` as given."""
    began = NOW - timedelta(hours=hours_ago)
    sha = f"{run:04x}" * 10
    told = {
        "status": "completed", "conclusion": "success", "run_id": str(run), "run_attempt": 1,
        "name": "Nightly", "job_name": "spyre", "check_run_id": str(9000 + run), "schema_version": "1",
        "started_at": began.isoformat(), "completed_at": (began + timedelta(minutes=3)).isoformat(),
        "url": f"https://ci.example.org/runs/{run}", "artifact_url": "",
        "test_results": {"passed": 3, "failed": 0, "skipped": 0, "total": 3},
    }  # fmt: skip
    payload = {"repository": {"full_name": "pytorch/pytorch"}, "head_sha": sha}
    return {
        "event_type": "nightly",
        "delivery_id": sha,
        "payload": payload,
        "workflow": {**told, **workflow},
    }


def of_pull_request(content: dict[str, Any], number: int, delivery: str) -> dict[str, Any]:
    """The same as the report of a pull request's run that the relay dispatched."""
    pull = {"number": number, "head": {"sha": f"{number:04x}" * 10}}
    payload = {"repository": {"full_name": "pytorch/pytorch"}, "pull_request": pull}
    return {**content, "event_type": "pull_request", "delivery_id": delivery, "payload": payload}


def changed(content: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy with one key, `workflow.name` by its path, set or taken out."""
    first, _, rest = key.partition(".")
    inner = changed(content[first], rest, value) if rest else value
    return {name: one for name, one in {**content, first: inner}.items() if one is not GONE}
