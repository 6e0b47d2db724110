"""Ask a cluster until it answers, page by page: bounded, and never twice what may have been done."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ci.jobs.answers import Reply, asked_wait_s, content_of, error_of, is_untouched, is_worth_another
from ci.jobs.errors import ClusterAwayError, ClusterError, CutError
from ci.jobs.wire import Method, NoAnswerError, Wire

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The outside world of a cluster's client: time and chance.

    Attributes:
        monotonic: seconds, for how long something takes.
        sleep: waits so many seconds.
        rng: a number from 0 to 1, so that many clients do not come back at the same moment.
    """

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    rng: Callable[[], float] = field(default_factory=lambda: random.SystemRandom().random)


class Asking:
    """Requests with second tries.

    Args:
        wire: the way to the cluster.
        effects: time and chance.
        patience_s: how long one call may wait in all.
    """

    def __init__(self, wire: Wire, effects: Effects, patience_s: float) -> None:
        self._wire = wire
        self._effects = effects
        self._patience_s = patience_s

    def answer(
        self,
        method: Method,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        again: bool = True,
    ) -> dict[str, Any]:
        """What a request is answered with.

        Args:
            method: of HTTP.
            path: of the API.
            query: of the address.
            body: sent as JSON.
            again: whether it may be sent twice, where nobody knows if the first was taken.

        Raises:
            ClusterError: see `ci.jobs.errors`.
        """
        what = f"{method} {path}"
        reply = self._until(what, lambda: self._wire.exchange(method, path, query, body), again=again)
        return content_of(reply, what)

    def pieces(
        self, path: str, query: Mapping[str, str], *, read_s: float, patience_s: float | None = None
    ) -> Iterator[bytes]:
        """An answer that comes bit by bit.

        Args:
            path: of the API.
            query: of the address.
            read_s: seconds after which an answer that says nothing is over.
            patience_s: how long it may wait in all to begin; None: as every call.

        Raises:
            ClusterError: it does not begin; see `ci.jobs.errors`.
            CutError: once it has begun, and does not come to its end.
        """
        found: list[Iterator[bytes]] = []

        def begin() -> Reply:
            reply, pieces = self._wire.stream(path, query, read_s=read_s)
            found[:] = [pieces]
            return reply

        self._until(f"GET {path}", begin, again=True, patience_s=patience_s)
        return _to_the_end(found[0], f"GET {path}")

    def _until(
        self, what: str, ask: Callable[[], Reply], *, again: bool, patience_s: float | None = None
    ) -> Reply:
        """The first answer that is ok."""
        end = self._effects.monotonic() + (self._patience_s if patience_s is None else patience_s)
        tries = 0
        while True:
            tries += 1
            try:
                reply = ask()
            except NoAnswerError as error:
                failure, wait_s = _no_answer(error, what), self._pause_s(tries)
                worth = again or not error.taken
            else:
                if reply.ok:
                    return reply
                failure, wait_s = error_of(reply, what), max(asked_wait_s(reply), self._pause_s(tries))
                worth = is_untouched(reply.status) or (again and is_worth_another(reply.status))
            if not worth or self._effects.monotonic() + wait_s > end:
                raise failure
            self._effects.sleep(wait_s)

    def _pause_s(self, tries: int) -> float:
        """Longer after each try, and not the same for everybody."""
        usual = min(FIRST_WAIT_S * 2.0 ** min(tries - 1, 10), LONGEST_WAIT_S)
        return usual * (0.5 + self._effects.rng())


def _to_the_end(pieces: Iterator[bytes], what: str) -> Iterator[bytes]:
    try:
        yield from pieces
    except NoAnswerError as error:
        raise CutError(f"the answer to {what} was cut: {error}", remedy="do it again") from None


def _no_answer(error: NoAnswerError, what: str) -> ClusterError:
    doubt = " (it may have been done all the same)" if error.taken and not what.startswith("GET") else ""
    return ClusterAwayError(
        f"the cluster gives no answer to {what}{doubt}: {error}",
        remedy="check the network, the cluster's address and its certificate, and do it again",
    )


PAGE = 500


def all_pages(asking: Asking, path: str, narrowed: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
    """What a list holds, and the version it is of.

    Args:
        asking: the cluster.
        path: of the list.
        narrowed: selectors, as the address has them.

    Raises:
        GoneError: the version was dropped under way.
        ClusterError: see `ci.jobs.errors`.
    """
    found: list[dict[str, Any]] = []
    query = {**narrowed, "limit": str(PAGE)}
    while True:
        page = asking.answer("GET", path, query)
        about, rows = page.get("metadata") or {}, page.get("items")
        if not isinstance(rows, list):
            raise ClusterAwayError(
                f"the answer to GET {path} is no list", remedy="check the cluster's address"
            )
        found += rows
        if not about.get("continue"):
            return found, str(about.get("resourceVersion", ""))
        query["continue"] = about["continue"]
