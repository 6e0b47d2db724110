from __future__ import annotations

import hashlib
from typing import Any

import pytest
import requests

from ci.hud.hmac_auth import HmacAuth, check_header, header

SECRET = "s" * 32
NOW = 1_785_000_000.0
URL = "https://hud.example/github/callback"


def prepared(url: str = URL, data: Any = b"body", method: str = "POST", at: float = NOW) -> str:
    request = requests.Request(method, url, data=data, auth=HmacAuth("ci", lambda: SECRET, clock=lambda: at))
    return str(request.prepare().headers["Authorization"])


def check(value: str, *, target: str = "/github/callback", method: str = "POST", at: float = NOW) -> Any:
    return check_header(value, {"ci": SECRET, "other": "t" * 32}, at=at, method=method, target=target)


def test_what_is_signed_is_known_by_its_name_and_digest() -> None:
    assert check(prepared()) == ("ci", hashlib.sha256(b"body").hexdigest())
    assert check(prepared(data=None)) == ("ci", hashlib.sha256(b"").hexdigest())
    assert check(prepared(f"{URL}?a=1&b=x%20y"), target="/github/callback?a=1&b=x%20y") is not None


@pytest.mark.parametrize("late", [-300, 300, 0])
def test_five_minutes_are_allowed(late: float) -> None:
    assert check(prepared(at=NOW + late)) is not None


@pytest.mark.parametrize("late", [-302, 302, -NOW])
def test_a_time_out_of_the_window_is_refused(late: float) -> None:
    assert check(prepared(at=NOW + late)) is None


def test_another_target_method_or_secret_is_refused() -> None:
    assert check(prepared(), target="/api/dispatch") is None
    assert check(prepared(f"{URL}?a=1")) is None
    assert check(prepared(), method="PUT") is None
    stolen = header("other", SECRET, at=NOW, method="POST", target="/github/callback", body=b"")
    assert check(stolen) is None


def test_an_unknown_name_is_refused_even_if_it_signs_with_nothing() -> None:
    assert check(header("nobody", "", at=NOW, method="POST", target="/github/callback", body=b"")) is None


def bent() -> list[str]:
    scheme, _, rest = prepared().partition(" ")
    name, time, digest, signature = rest.split(":")
    return [
        "",
        scheme,
        f"{scheme} ",
        f"{scheme} {rest}:more",
        f"{scheme} {name}:{time}:{digest}:{signature[:-1]}0{'' if signature[-1] != '0' else '1'}",
        f"{scheme} {name}:{time}:{'0' * 64}:{signature}",
        f"{scheme} {name}:{int(time) + 1}:{digest}:{signature}",
        f"{scheme} {name}:-5:{digest}:{signature}",
        f"{scheme} {name}:{'9' * 400}:{digest}:{signature}",
        f"{scheme} {name}:\u0661\u0662:{digest}:{signature}",
        f"Bearer {rest}",
        f"{scheme} {rest}\n",
    ]


@pytest.mark.parametrize("value", bent(), ids=range(12))
def test_a_bent_header_is_refused(value: str) -> None:
    assert check(value) is None


def test_a_stream_is_not_signed() -> None:
    with pytest.raises(TypeError, match="cannot be signed"):
        prepared(data=iter([b"a"]))
