"""The store of claims on a real Redis: first come, passwords, and a Redis that goes, sleeps or forgets."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ci.core.errors import CommandError
from ci.runner.claims.folder import FolderStore
from ci.runner.claims.joining import ClaimSettings
from ci.runner.claims.redis import RedisStore
from ci.runner.claims.store import Store, StoreLostError

from .conftest import RedisServer

pytestmark = pytest.mark.nightly


def joined(server: RedisServer, me: str, run: str = "nightly", password: str | None = None) -> RedisStore:
    made = RedisStore(server.url, run, me, password=password, timeout_s=0.5)
    assert made.begin("terms") == "terms"
    return made


def claims(where: str, password: str | None = None) -> ClaimSettings:
    return ClaimSettings(
        where=where, run="r", lease_s=9.0, clock=time.monotonic, say=lambda _: None, password=password
    )


@pytest.fixture
def locked(redis_server: RedisServer, tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that wants a password."""
    redis_server.stop()
    made = RedisServer(tmp_path / "redis", password="open sesame")
    made.start()
    yield made
    made.stop()


def test_the_first_claim_stands_and_runs_stay_apart(redis_server: RedisServer) -> None:
    a, b = joined(redis_server, "a"), joined(redis_server, "b")
    assert (a.put("0/1.1", "a"), b.put("0/1.1", "b"), a.put("0/1.1", "a")) == ("a", "a", "a")
    assert joined(redis_server, "b", run="weekly").put("0/1.1", "b") == "b"
    assert RedisStore(redis_server.url, "nightly", "c").begin("others") == "terms"
    a.say("hello")
    b.say("mine")
    assert b.hear() == [("a", "hello")]
    assert b.hear() == []
    for store in (a, b):
        store.close()


@pytest.mark.parametrize("kind", ["folder", "redis"])
def test_of_many_that_claim_at_once_one_has_each_piece(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def host(me: str) -> list[str]:
        store: Store = FolderStore(tmp_path / "share", me) if kind == "folder" else RedisStore(url, "r", me)
        store.begin("terms")
        return [key for number in range(200) if store.put(key := f"{number % 7}/{number}.1", me) == me]

    url = request.getfixturevalue("redis_url") if kind == "redis" else ""
    with ThreadPoolExecutor(8) as pool:
        taken = [key for keys in pool.map(host, [f"h{number}" for number in range(8)]) for key in keys]
    assert len(taken) == len(set(taken)) == 200


def test_a_redis_that_forgot_is_lost_before_anything_is_thought_claimed(redis_server: RedisServer) -> None:
    a = joined(redis_server, "a")
    a.put("0/1.1", "a")
    redis_server.stop()
    with pytest.raises(StoreLostError, match="does not answer"):
        a.put("0/2.1", "a")
    redis_server.start()
    with pytest.raises(StoreLostError, match="lost its memory"):
        a.put("0/2.1", "a")
    joined(redis_server, "b")
    for act in (lambda: a.put("0/2.1", "a"), lambda: a.say("x"), a.hear):
        with pytest.raises(StoreLostError, match="lost its memory"):
            act()


def test_a_redis_that_sleeps_is_waited_for_no_longer_than_said(redis_server: RedisServer) -> None:
    a = joined(redis_server, "a")
    redis_server.send(signal.SIGSTOP)
    with pytest.raises(StoreLostError, match="does not answer"):
        a.put("0/2.1", "a")
    redis_server.send(signal.SIGCONT)
    assert a.put("0/2.1", "a") == "a"


def test_a_password_is_handed_on_and_never_told(locked: RedisServer) -> None:
    joined(locked, "a", password="open sesame").close()
    for given in (None, "wrong secret"):
        with pytest.raises(CommandError) as told:
            claims(locked.url, given).join("f" * 64, [], 1.0)
        assert "secret" not in str(told.value)
        assert "password" in str(told.value.remedy)


def test_a_redis_that_is_not_there_is_told_of_without_its_password(tmp_path: Path) -> None:
    pytest.importorskip("redis", reason="the package redis is not found")
    with pytest.raises(CommandError, match="does not answer") as told:
        claims(f"unix://ci:secret@{tmp_path}/none.sock").join("f" * 64, [], 1.0)
    assert "secret" not in str(told.value)
    assert "--static" in str(told.value.remedy)


def test_a_host_that_comes_late_hears_all_that_was_said(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci.runner.claims.redis.ROWS", 4)
    a = joined(redis_server, "a")
    for count in (3, 4, 5, 8):
        b = joined(redis_server, f"b{count}")
        b.hear()
        said = [("a", f"{count}.{number}") for number in range(count)]
        for _, line in said:
            a.say(line)
        assert b.hear() == said
        assert b.hear() == []
        b.close()


def test_what_is_foreign_in_a_redis_is_passed_over_or_told_of_without_a_traceback(
    redis_server: RedisServer,
) -> None:
    redis = pytest.importorskip("redis")
    a, b = joined(redis_server, "a"), joined(redis_server, "b")
    client = redis.Redis.from_url(redis_server.url)
    strange = [b"\xff\xfe", b"{", b"[]", b"7", b'["x"]', b'[["x"], "y"]', b'["x", 3]', b"[" * 100_000]
    for row in strange:
        client.rpush("spyre-ci:nightly:said", row)
    a.say("1")
    assert [line for host, line in b.hear() if host] == ["1"]
    assert b.put("0/1.1", "b") == "b"
    client.hset("spyre-ci:nightly:claims", "0/2.1", b"\xff")
    assert b.put("0/2.1", "b") == "\ufffd"
    client.delete("spyre-ci:nightly:said")
    client.set("spyre-ci:nightly:said", "a string")
    with pytest.raises(StoreLostError, match="the Redis refuses"):
        b.hear()
    client.set("spyre-ci:other-1:claims", "a string")
    with pytest.raises(CommandError, match="the Redis refuses"):
        replace(claims(redis_server.url), run="other-1").join("f" * 64, [], 1.0)
    client.close()
