"""Paths, errors and logs of a cluster, where nothing is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from urllib3.exceptions import MaxRetryError, SSLError

from ci.jobs.cluster import _unanswered, error_of, path_of
from ci.jobs.errors import ClusterAwayError, CredentialsError, ForbiddenError
from ci.jobs.logs import LONGEST_LINE, SECONDS, shown_line, split_lines, without_time

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("Job", "a"), "/apis/batch/v1/namespaces/a/jobs"),
        (("Pod", "a", "x"), "/api/v1/namespaces/a/pods/x"),
        (("Pod",), "/api/v1/pods"),
        (("Node", "a", "n"), "/api/v1/nodes/n"),
        (("PriorityClass", "", "n"), "/apis/scheduling.k8s.io/v1/priorityclasses/n"),
        (("ConfigMap", "../b", "x/y?z"), "/api/v1/namespaces/..%2Fb/configmaps/x%2Fy%3Fz"),
    ],
)
def test_paths_are_those_of_the_api(words: tuple[str, ...], path: str) -> None:
    assert path_of(*words) == path


def test_what_a_cluster_says_steers_no_terminal_and_shows_no_secret() -> None:
    said: dict[str, Any] = {"message": "\x1b[2Jsee https://me:pass@example.com/x?token=abc " + "x" * 10_000}
    told = str(error_of(403, json.dumps(said).encode(), "GET /x"))
    assert "\x1b" not in told
    assert "pass" not in told
    assert "abc" not in told
    assert len(told) < 1000
    assert "docs/jobs-cluster.md" in told
    assert "\nkind: Role\n" in (ROOT / "docs" / "jobs-cluster.md").read_text(encoding="utf-8")
    assert isinstance(error_of(403, b"no", "GET /x"), ForbiddenError)


def test_a_certificate_nobody_trusts_is_told_as_what_it_is() -> None:
    said = SSLError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate")
    told = _unanswered(MaxRetryError(None, "/x", said), "GET /x")  # type: ignore[arg-type]  # no pool is asked
    assert isinstance(told, CredentialsError)
    assert "certificate-authority" in str(told)
    assert isinstance(_unanswered(SSLError("UNEXPECTED_EOF_WHILE_READING"), "GET /x"), ClusterAwayError)


@given(st.lists(st.binary(max_size=8).map(lambda one: one.replace(b"\r", b"")), max_size=8))
def test_lines_are_the_same_however_they_come(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    assert list(split_lines(chunks)) == (whole.removesuffix(b"\n").split(b"\n") if whole else [])
    assert b"".join(split_lines(chunks, longest=3)) == whole.replace(b"\n", b"")
    assert all(len(line) <= 3 for line in split_lines(chunks, longest=3))
    assert LONGEST_LINE > 1000


def test_a_line_is_shown_on_one_line() -> None:
    assert shown_line(b"a\x1b[31mb\rc\r", "[1] ") == "[1] ab\\x0dc"
    assert shown_line(b"::error::x", "") == "| ::error::x"
    assert without_time(b"2026-11-23T00:00:00.1Z a b") == (b"2026-11-23T00:00:00.1Z", b"a b")
    assert without_time(b"the rest of a long line") == (b"", b"the rest of a long line")
    assert SECONDS == {"minutes": 60, "hours": 3600, "days": 86_400, "weeks": 604_800}
