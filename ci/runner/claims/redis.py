"""A Redis as a store of claims.

Two keys a run: a hash with the terms and the claims, of which a field is set only once, and a list of what
hosts say. Every transaction reads the run's terms as well, with the name of the session in it: a Redis that
came back without its memory, or that somebody emptied, is noticed before anything is thought claimed.
"""

from __future__ import annotations

import json
import secrets
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ci.core.addresses import without_secrets
from ci.runner.claims.store import StoreLostError

TIMEOUT_S = 3.0
# Nobody looks at a run's claims any more after so many seconds without a word from a host.
KEEP_S = 7 * 24 * 3600
# Lines read at a time: who comes late reads all that was ever said, and not in one answer.
ROWS = 2000
TERMS = "terms"
SEPARATOR = ":"


class RedisStore:
    """One run's claims in a Redis."""

    def __init__(
        self, url: str, run: str, me: str, *, password: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            url: `redis://`, `rediss://` or `unix://`.
            run: the name of the run, the same on all hosts.
            me: the name of this host.
            password: where the URL has none.
            timeout_s: how long to wait for a connection and for an answer.

        Raises:
            ValueError: the URL is none.
        """
        _refuse_unescaped(url)
        options: dict[str, Any] = {
            "decode_responses": True,
            "encoding_errors": "replace",  # what others put there need not be text
            "socket_timeout": timeout_s,
            "socket_connect_timeout": timeout_s,
            "retry": Retry(NoBackoff(), 1),
        }
        if password is not None:
            options["password"] = password
        self._client: Any = redis.Redis.from_url(url, **options)
        try:
            self._client.connection_pool.make_connection()  # which does not connect yet
        except TypeError as error:  # a parameter nobody knows
            raise ValueError("a parameter is not known") from error
        self._me = me
        self._hash, self._list = f"spyre-ci:{run}:claims", f"spyre-ci:{run}:said"
        self._session = ""
        self._heard = 0

    def begin(self, terms: str) -> str:
        """Join the run; see `Store.begin`."""
        mine = f"{terms}{SEPARATOR}{secrets.token_hex(4)}"
        try:
            with self._client.pipeline(transaction=True) as pipe:
                pipe.hsetnx(self._hash, TERMS, mine)
                pipe.hget(self._hash, TERMS)
                self._session = str(pipe.execute()[1])
        except (redis.RedisError, OSError) as error:
            raise _lost(error) from error
        return self._session.rpartition(SEPARATOR)[0]

    def put(self, key: str, value: str) -> str:
        """Keep a value; see `Store.put`."""
        return str(self._do(("hsetnx", self._hash, key, value), ("hget", self._hash, key))[1])

    def say(self, line: str) -> None:
        """Add a line; see `Store.say`."""
        self._do(
            ("rpush", self._list, json.dumps([self._me, line])),
            ("expire", self._list, KEEP_S),
            ("expire", self._hash, KEEP_S),
        )

    def hear(self) -> list[tuple[str, str]]:
        """What others said; see `Store.hear`."""
        found: list[str] = []
        while True:
            first = self._heard + len(found)
            found += (rows := self._do(("lrange", self._list, first, first + ROWS - 1))[0])
            if len(rows) < ROWS:
                break
        self._heard += len(found)
        return [(host, line) for host, line in map(_said, found) if host != self._me]

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _do(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Send commands as one transaction; their answers.

        Raises:
            StoreLostError: no answer, or from a Redis that knows nothing of this session.
        """
        session: str | None
        answers: list[Any]
        try:
            with self._client.pipeline(transaction=True) as pipe:
                pipe.hget(self._hash, TERMS)
                for name, *arguments in commands:
                    getattr(pipe, name)(*arguments)
                session, *answers = pipe.execute()
        except (redis.RedisError, OSError) as error:
            raise _lost(error) from error
        if session != self._session:
            raise StoreLostError("the Redis has lost its memory of this run")
        return answers


def _refuse_unescaped(url: str) -> None:
    """Refuse an address that is cut in the middle of a password: its beginning would be taken for the host.

    Raises:
        ValueError: it is one.
    """
    parts = urlsplit(url)
    if parts.scheme != "unix" and "@" in parts.path + parts.query + parts.fragment:
        raise ValueError("a password that is not escaped")


def _said(row: str) -> tuple[str, str]:
    """Who said what; nobody, where the row is not of a host."""
    try:
        host, line = json.loads(row)
    except (ValueError, TypeError, RecursionError):
        return "", row
    return (host, line) if isinstance(host, str) and isinstance(line, str) else ("", row)


def _lost(error: Exception) -> StoreLostError:
    if isinstance(error, redis.ResponseError) and not isinstance(error, redis.AuthenticationError):
        return StoreLostError(without_secrets(f"the Redis refuses: {error}"))
    return StoreLostError(without_secrets(f"the Redis does not answer: {error}"))
