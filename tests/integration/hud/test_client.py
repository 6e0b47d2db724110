"""The client against a server with faults, over real sockets."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ci.core.process import run_command
from ci.hud.answers import Answer, Outcome
from ci.hud.client import Target, UnansweredError, post

TOKEN = "s3cret-token"


def send(
    url: str, payload: dict[str, Any], *, timeout_s: float = 20, path: str = "/github/callback"
) -> Answer:
    target = Target(url=url + path, repository="o/r", token=lambda: TOKEN, timeout_s=timeout_s)
    try:
        return post(payload, target)
    except UnansweredError as error:
        return error.answer


@pytest.mark.parametrize("step", ["hang", "drip"])
def test_a_server_that_never_ends_its_answer_is_given_up(
    faulty: Any, payload: dict[str, Any], step: str
) -> None:
    faulty.script = [step]
    answer = send(faulty.url, payload, timeout_s=0.5)
    assert (answer.outcome, answer.doubtful) == (Outcome.RETRY, True)
    assert answer.detail.startswith("no whole answer: ")


def test_nobody_there_leaves_no_doubt(payload: dict[str, Any]) -> None:
    answer = send("http://127.0.0.1:1", payload)
    assert (answer.outcome, answer.doubtful) == (Outcome.RETRY, False)
    assert answer.detail.startswith("no connection: ")


def test_a_long_answer_is_cut(faulty: Any, payload: dict[str, Any]) -> None:
    faulty.script = [(400, {}, "x" * 10**6)]
    assert len(send(faulty.url, payload).detail) < 400


def test_a_netrc_entry_does_not_replace_the_token(
    faulty: Any, payload: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password wrong\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setattr("ci.core.http.leads_here", lambda _: False)
    send(faulty.url, payload)
    assert faulty.requests[0]["headers"]["Authorization"] == f"Bearer {TOKEN}"


def test_a_proxy_does_not_stand_before_this_machine(
    faulty: Any, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert send(faulty.url, payload).outcome is Outcome.DELIVERED


@pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes the certificate, is missing"
)
def test_a_certificate_nobody_vouches_for_is_refused_and_the_token_kept(
    faulty: Any, payload: dict[str, Any], tmp_path: Path
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    argv = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=127.0.0.1",
    ]
    run_command(
        [*argv, "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate], timeout_s=60
    )
    faulty.use_certificate(certificate, key)
    answer = send(faulty.url, payload)
    assert answer.outcome is Outcome.REFUSED
    assert answer.detail.startswith("the server's certificate cannot be trusted: ")
    assert faulty.requests == []
