"""The client against a server with faults, over real sockets."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ci.core.commands import run_command
from ci.hud.answers import Outcome
from ci.hud.client import Target, UnansweredError, post

TOKEN = "s3cret-token"


def target(url: str, *, timeout_s: float = 20) -> Target:
    return Target(url=f"{url}/github/callback", repository="o/r", token=lambda: TOKEN, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("step", "doubtful", "said"),
    [
        ("hang", True, "no complete response: "),
        ("drip", True, "no complete response: "),
        ("", False, "no connection: "),
    ],
)
def test_a_server_that_gives_no_whole_answer_leaves_doubt_where_it_was_reached(
    faulty: Any, payload: dict[str, Any], step: str, doubtful: bool, said: str
) -> None:
    faulty.script = [step]
    with pytest.raises(UnansweredError) as caught:
        post(payload, target(faulty.url if step else "http://127.0.0.1:1", timeout_s=0.5))
    answer = caught.value.answer
    assert (answer.outcome, answer.doubtful) == (Outcome.RETRY, doubtful)
    assert answer.detail.startswith(said)


def test_a_netrc_entry_does_not_replace_the_token(
    faulty: Any, payload: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password wrong\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setattr("ci.core.http.leads_here", lambda _: False)
    post(payload, target(faulty.url))
    assert faulty.requests[0]["headers"]["Authorization"] == f"Bearer {TOKEN}"


def test_a_proxy_does_not_stand_before_this_machine(
    faulty: Any, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert post(payload, target(faulty.url)).outcome is Outcome.DELIVERED


@pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes the certificate, is missing"
)
def test_a_certificate_nobody_vouches_for_is_refused_and_the_token_kept(
    faulty: Any, payload: dict[str, Any], tmp_path: Path
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = (
        "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    run_command(["openssl", *words.split(), "-keyout", key, "-out", certificate], timeout_s=60)
    faulty.use_certificate(certificate, key)
    with pytest.raises(UnansweredError) as caught:
        post(payload, target(faulty.url))
    answer = caught.value.answer
    assert answer.outcome is Outcome.REFUSED
    assert answer.detail.startswith("the server's certificate cannot be trusted: ")
    assert faulty.requests == []
