"""Pins over a year and on a day: releases are recorded, asked for, decided on, applied as pull requests."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Golden
from tests.github_api import TOKEN, GitHubApi, Repository
from tests.oracle.conftest import ROOT, Desk, make_desk
from tests.packages import make_wheel
from tests.repositories import git

EXAMPLES = ROOT / "examples"
TRAIN = "tuning.sft_trainer:train"
MENDED, MENDED_AGAIN = "a" * 40, "b" * 40

# The year on paper: version, day, (torch, transformers, accelerate, flash-attn), what `train` takes, flags.
CALLBACKS = "model data training callbacks="
Row = tuple[str, str, tuple[str, str, str, str | None], str, list[str]]
RELEASES: tuple[Row, ...] = (
    ("3.1.0", "2024-12-18", ("2.7.1", "4.55.4", "1.8.1", "2.8.0"), "model data training", []),
    ("3.2.0", "2025-02-10", ("2.7.1", "4.56.2", "1.10.1", "2.8.3"), "model data training", []),
    ("3.3.0", "2025-04-15", ("2.8.0", "4.57.1", "1.11.0", "2.8.3"), CALLBACKS, []),
    ("3.4.0", "2025-05-20", ("2.9.0", "4.57.1", "1.11.0", "2.8.3"), CALLBACKS, ["performance"]),
    ("3.5.0", "2025-07-08", ("2.9.1", "4.57.3", "1.12.0", "2.8.3"), CALLBACKS, []),
    ("3.6.0", "2025-08-21", ("2.10.0", "4.57.6", "1.12.0", "2.8.3"), CALLBACKS, []),
    ("4.0.0", "2025-09-15", ("2.11.0", "5.1.0", "1.13.0", "2.8.3"), CALLBACKS, ["major"]),
    ("4.1.0", "2025-10-20", ("2.11.0", "5.2.0", "1.13.0", None), "model data settings", []),
    ("4.2.0", "2025-12-02", ("2.12.0", "5.3.0", "1.14.0", "2.9.0"), "model data settings", []),
)  # fmt: skip


def on(day: str, kind: str, hour: int = 0, /, **more: Any) -> dict[str, Any]:
    """A line of the events."""
    return {"kind": kind, "at": f"{day}T{hour:02}:00:00Z", **more}


def asked(day: str, number: int, reason: str, **more: str) -> dict[str, Any]:
    return on(day, "requested", 5, id=number, reason=reason, text=f"request {number}", **more)


def window(day: str, name: str, starts: str, ends: str) -> dict[str, Any]:
    times = {"starts": f"{starts}T00:00:00Z", "ends": f"{ends}T00:00:00Z"}
    return on(day, "campaign-started", name=name, **times)


def scheduled(day: str, version: str, to_come: str) -> dict[str, Any]:
    return on(day, "scheduled", version=version, on=f"{to_come}T00:00:00Z")


EVENTS = (
    asked("2025-05-06", 1, "bug", sha=MENDED),
    window("2025-06-15", "summer", "2025-07-01", "2025-08-12"),
    asked("2025-07-03", 2, "regression", sha=MENDED_AGAIN),
    asked("2025-07-10", 3, "performance", version="3.5.0"),
    asked("2025-07-20", 4, "major"),
    scheduled("2025-07-25", "3.6.0", "2025-08-19"),
    asked("2025-08-03", 5, "performance"),
    # It comes two days later than it was to.
    scheduled("2025-08-17", "3.6.0", "2025-08-21"),
    window("2025-11-02", "winter", "2025-11-30", "2025-12-14"),
    scheduled("2025-11-20", "4.3.0", "2025-12-30"),
    asked("2025-12-03", 6, "performance"),
)
# On which day what is due, and whether it is the same version, built again: for the cycle of 56 days, a bug,
# a flag, the end of a campaign or the release that was to come soon after it.
UPGRADES = {
    "2025-03-02": ("3.2.0", False),
    "2025-04-27": ("3.3.0", False),
    "2025-05-06": ("3.3.0", True),
    "2025-05-20": ("3.4.0", False),
    "2025-07-03": ("3.4.0", True),
    "2025-08-21": ("3.6.0", False),
    "2025-09-15": ("4.0.0", False),
    "2025-11-10": ("4.1.0", False),
    "2025-12-14": ("4.2.0", False),
}
# The day before each of these nothing is due; in campaigns nothing but a bug changes a pin.
QUIET = ("2025-03-01", "2025-04-26", "2025-07-10", "2025-08-12", "2025-11-09", "2025-12-13")


def sha_of(version: str) -> str:
    return version.encode().hex().ljust(64, "0")


def record_of(row: Row) -> dict[str, Any]:
    """A release as the ledger has it."""
    version, day, packages, train, flags = row
    direct = dict(zip(("torch", "transformers", "accelerate", "flash-attn"), packages, strict=True))
    kind = "positional or keyword"
    parameters = [
        {"name": name.rstrip("="), "kind": kind, "default": "None" if "=" in name else None}
        for name in train.split()
    ]
    return {
        "schema": "spyre-ci/pin-record/1", "track": "fine-tuning", "version": version, "sha": sha_of(version),
        "source": "registry.example.com/tuning", "released_at": f"{day}T00:00:00Z",
        "recorded_at": f"{day}T00:00:00Z", "flags": flags, "yanked": None,
        "packages": {name: one for name, one in direct.items() if one}, "origins": {}, "read_by": "",
        "direct": direct, "signatures": {TRAIN: parameters}, "previous": "", "changes": [],
    }  # fmt: skip


@dataclass(kw_only=True)
class Year:
    """A checkout of the example whose ledger grows with the days."""

    desk: Desk
    told: int = 0

    def begin(self, day: str) -> None:
        """Six in the morning: what was released and told until then is in the ledger."""
        for row in RELEASES:
            name = f"pins/fine-tuning/{row[0]}-{sha_of(row[0])[:12]}.json"
            if row[1] <= day and not (self.desk.folder / name).exists():
                self.desk.write(name, record_of(row))
        while self.told < len(EVENTS) and EVENTS[self.told]["at"] <= f"{day}T06:00:00Z":
            self.note(EVENTS[self.told])
            self.told += 1

    def note(self, event: dict[str, Any]) -> None:
        with (self.desk.folder / "pins/fine-tuning/events.jsonl").open("a") as stream:
            stream.write(json.dumps(event) + "\n")

    def decided(self, day: str) -> dict[str, Any]:
        document = self.desk.call("pins", "decide", "--at", f"{day}T06:00", "--json").json
        found: dict[str, Any] = document["tracks"]["fine-tuning"]
        return found

    def upgrade(self, day: str, decision: dict[str, Any]) -> None:
        """Note what merging the upgrade notes."""
        target = decision["target"]
        event = {
            "kind": "upgraded", "at": f"{day}T06:00:00Z", "before": decision["before"],
            "version": target["version"], "sha": target["sha"], "answers": decision["answers"],
            "reasons": [one["words"] for one in decision["reasons"]],
        }  # fmt: skip
        self.note(event)


@pytest.mark.nightly
def test_a_year_of_decisions_is_the_year_on_paper(tmp_path: Path) -> None:
    desk = make_desk(tmp_path, (EXAMPLES / "pins-fine-tuning.yaml").read_text())
    shutil.copytree(EXAMPLES / "fine-tuning", desk.folder / "fine-tuning")
    year = Year(desk=desk)
    year.begin("2025-01-05")
    for _ in range(2):
        desk.call("pins", "record", "fine-tuning", "--pinned-since", "2025-01-05T06:00")
    assert [one["kind"] for one in desk.read("pins/fine-tuning/events.jsonl")] == ["upgraded"]
    due, answered = {}, []
    for day in sorted({*UPGRADES, *QUIET}):
        year.begin(day)
        decision = year.decided(day)
        if decision["action"] == "upgrade":
            due[day] = (decision["target"]["version"], decision["target"]["rebuild"])
            answered += decision["answers"]
            year.upgrade(day, decision)
            assert year.decided(day)["action"] != "upgrade", "what was done is not due again"
    assert due == UPGRADES
    assert len(answered) == len(set(answered)), "a request is answered once"
    # The year stays: what was decided on a day is told from its end as well.
    assert year.decided("2025-12-13")["campaign"] is not None
    assert year.decided("2025-12-15")["campaign"] is None


# On a day: a real checkout, a package index, and a stand-in of GitHub.

NOW = datetime.now(UTC)
TRAIN_OLD = "def run(model, steps=3):\n    return model\n"
TRAIN_NEW = "def run(model):\n    return model\n"
STACK = "# what runs\nvariants:\n  pinned:\n    version: '2.9' # see pins/\n"


@dataclass(kw_only=True)
class Index:
    """A package index that tells hashes and when a file came (PEP 691, PEP 700)."""

    folder: Path
    days: dict[str, float] = field(default_factory=dict)

    def add(self, version: str, *, days_ago: float, torch: str, code: str = TRAIN_OLD) -> None:
        path = make_wheel(
            self.folder, "tuning", version,
            files={"tuning/__init__.py": code}, fields={"Requires-Dist": f"torch=={torch}"},
        )  # fmt: skip
        self.days[path.name] = days_ago

    def page(self) -> bytes:
        files = [
            {
                "filename": name, "url": f"/files/{name}", "yanked": False,
                "hashes": {"sha256": hashlib.sha256((self.folder / name).read_bytes()).hexdigest()},
                "upload-time": (NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            for name, days in self.days.items()
        ]  # fmt: skip
        versions = sorted({name.split("-")[1] for name in self.days})
        content = {"meta": {"api-version": "1.1"}, "name": "tuning", "files": files, "versions": versions}
        return json.dumps(content).encode()


@contextmanager
def served(index: Index) -> Iterator[str]:
    """An index on loopback; gives the address of its simple API."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = self.path.startswith("/simple/")
            body = index.page() if page else (index.folder / self.path.rpartition("/")[2]).read_bytes()
            kind = "application/vnd.pypi.simple.v1+json" if page else "application/octet-stream"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """A checkout with a track, its index and GitHub."""

    desk: Desk
    index: Index
    api: GitHubApi

    def pins(self, *words: str, code: int = 0) -> str:
        said = self.desk.call("pins", *words, code=code)
        assert TOKEN not in said.out + said.err
        return said.out

    def decided(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.pins("decide", "--json"))["tracks"]["tuning"]
        return found

    def ledger(self) -> dict[str, bytes]:
        folder = self.desk.folder / "pins/tuning"
        return {path.name: path.read_bytes() for path in sorted(folder.glob("*.json*"))}

    def git(self, *words: str) -> str:
        return git(self.desk.folder, *words)

    def pulls(self) -> dict[int, dict[str, Any]]:
        return self.api.repositories["o/r"].pulls


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    """2.9 is pinned since 56 days, and the index has 2.9 and 2.10."""
    index = Index(folder=tmp_path / "files")
    index.add("2.9", days_ago=90, torch="2.11.0")
    index.add("2.10", days_ago=10, torch="2.12.0", code=TRAIN_NEW)
    branches = {"main": "a" * 40}
    with served(index) as address, GitHubApi() as api:
        api.repositories["o/r"] = Repository(branches=branches)
        track = {
            "package": "tuning", "index": address, "direct": ["torch"], "entry_points": ["tuning:run"],
            "pin": {"file": "stack.yaml", "key": "variants.pinned.version"},
            "suites": [{"name": "nightly", "needs": ["torch<2.12"]}],
        }  # fmt: skip
        desk = make_desk(tmp_path, yaml.safe_dump({"pins": {"tracks": {"tuning": track}}}))
        github = {"GITHUB_API_URL": api.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": "o/r"}
        made = Checkout(desk=replace(desk, environ=desk.environ | github), index=index, api=api)
        desk.write("stack.yaml", STACK)
        made.git("init", "--quiet", "--initial-branch=main")
        made.git("add", "--all")
        made.git("commit", "--quiet", "--message", "first")
        made.git("clone", "--quiet", "--bare", str(desk.folder), str(tmp_path / "origin"))
        made.git("remote", "add", "origin", (tmp_path / "origin").as_uri())
        yield made


def adopt(checkout: Checkout) -> None:
    """What is there is recorded, and 2.9 adopted as of 56 days ago."""
    checkout.pins("record")
    day = (NOW - timedelta(days=56)).strftime("%Y-%m-%dT00:00")
    checkout.pins("record", "tuning", "--pinned-since", day)


def test_every_release_is_recorded_once_with_what_changed(checkout: Checkout) -> None:
    assert "2 recorded, 0 known" in checkout.pins("record")
    ledger = checkout.ledger()
    records = {one["version"]: one for one in map(json.loads, ledger.values())}
    for version, torch in {"2.9": "==2.11.0", "2.10": "==2.12.0"}.items():
        wheel = checkout.index.folder / f"tuning-{version}-py3-none-any.whl"
        one = records[version]
        assert one["sha"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
        assert one["direct"] == {"torch": torch}
        assert f"{version}-{one['sha'][:12]}.json" in ledger
    assert "0 recorded, 2 known" in checkout.pins("record")
    assert checkout.ledger() == ledger
    assert records["2.10"]["changes"] == [{"name": "torch", "before": "==2.11.0", "after": "==2.12.0"}]
    text = checkout.pins("decide", "tuning", "--checklist")
    assert "- `tuning:run`" not in text, "nothing is pinned yet that it could break"


@pytest.mark.gate
def test_requests_and_campaigns_decide_whether_a_pin_may_change(checkout: Checkout) -> None:
    adopt(checkout)
    assert checkout.decided()["action"] == "upgrade"
    checkout.pins("decide", "--check", code=1)
    for _ in range(2):
        checkout.pins("campaign", "autumn")
    assert checkout.decided()["action"] == "wait", "a campaign holds what is only due"
    checkout.pins("decide", "--check")
    for _ in range(2):
        checkout.pins("request", "tuning", "performance", "--text", "faster")
        checkout.pins("request", "tuning", "bug", "--text", "it is wrong", "--sha", MENDED)
    decision = checkout.decided()
    assert (decision["action"], decision["answers"]) == ("upgrade", [1, 2]), "a bug waits for nothing"
    checkout.pins("request", "tuning", "--withdraw", "2")
    assert checkout.decided()["action"] == "wait"
    for _ in range(2):
        checkout.pins("campaign", "autumn", "--over")
    decision = checkout.decided()
    assert (decision["action"], decision["target"]["version"]) == ("upgrade", "2.10")
    assert decision["answers"] == [1]
    kinds = [one["kind"] for one in checkout.desk.read("pins/tuning/events.jsonl")]
    assert sorted(kinds) == sorted(
        ["upgraded", "campaign-started", "requested", "requested", "withdrawn", "campaign-ended"]
    ), "what is told twice is noted once"


@pytest.mark.gate
def test_an_upgrade_becomes_one_branch_and_one_pull_request(checkout: Checkout, golden: Golden) -> None:
    adopt(checkout)
    checkout.pins("request", "tuning", "performance", "--text", "it is slow")
    said = re.search(
        r"would create branch (pins/tuning/2\.10-\w+): ", checkout.pins("apply", "tuning", "--dry-run")
    )
    assert said is not None
    branch = said[1]
    checkout.api.repositories["o/r"].branches[branch] = "b" * 40
    assert (checkout.git("branch", "--list", "pins/*"), checkout.pulls()) == ("", {})
    text = checkout.pins("decide", "tuning", "--checklist")
    hidden = re.sub(r"\d{4}-\d\d-\d\d", "DAY", re.sub(r"\b[0-9a-f]{12}\b", "SHA", text))
    golden("oracle/pins/checklist.md", hidden)
    before = checkout.git("status", "--porcelain", "--untracked-files=all"), checkout.git("rev-parse", "HEAD")
    told = json.loads(checkout.pins("apply", "tuning", "--json"))["sent"]
    assert (told["branch"], told["new"], told["pull"]["state"]) == (branch, True, "opened")
    assert checkout.git("show", f"{branch}:stack.yaml") == STACK.replace("2.9", "2.10").strip()
    names = checkout.git("diff", "--name-only", "main", branch).split()
    assert [name.partition("-")[0] for name in names] == [
        "pins/tuning/2.10",
        "pins/tuning/2.9",
        "pins/tuning/events.jsonl",
        "stack.yaml",
    ]
    last = json.loads(checkout.git("show", f"{branch}:pins/tuning/events.jsonl").splitlines()[-1])
    assert (last["kind"], last["version"], last["answers"]) == ("upgraded", "2.10", [1])
    assert before == (
        checkout.git("status", "--porcelain", "--untracked-files=all"),
        checkout.git("rev-parse", "HEAD"),
    ), "the checkout stays as it was"
    (pull,) = checkout.pulls().values()
    assert (pull["head"]["ref"], pull["base"]["ref"]) == (branch, "main")
    assert pull["body"].strip() == text.strip()
    assert checkout.git("ls-remote", "origin", branch).split()[0] == told["commit"]
    checkout.pins("apply", "tuning")
    assert len(checkout.pulls()) == 1
    checkout.git("clean", "--quiet", "--force", "-d", "pins")
    checkout.git("merge", "--quiet", "--ff-only", branch)
    assert checkout.decided()["action"] == "none"
    assert "nothing to do" in checkout.pins("apply", "tuning")
    assert len(checkout.pulls()) == 1
    assert "2.10" in checkout.pins("status", "tuning")
