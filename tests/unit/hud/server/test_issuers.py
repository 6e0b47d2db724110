"""Tokens as a hostile client makes them; good ones, and each claim, are in the contract's replay."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from ci.config.hud_model import Issuer
from ci.hud.server.issuers import (
    FRESH_S,
    MAX_KEYS,
    Issuers,
    KeySet,
    KeysUnavailableError,
    TokenRefusedError,
    public_keys,
)

NOW = 1_785_000_000.0
ISSUER = "https://issuer.example"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PUBLIC = KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)
CLAIMS = {"iss": ISSUER, "aud": "pytorch-cross-repo-ci-relay", "exp": NOW + 300, "repository": "o/r"}


def jwk(key: rsa.RSAPrivateKey = KEY, **fields: Any) -> dict[str, Any]:
    return {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())), "kid": "k1", **fields}


def issuers(*keys: dict[str, Any]) -> Issuers:
    content = {"keys": list(keys) or [jwk()]}
    return Issuers([Issuer(url=ISSUER, kind="github")], clock=lambda: NOW, fetch=lambda _: content)


def part(content: Any) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed_as_text(header: dict[str, Any], secret: bytes) -> str:
    said = f"{part(header)}.{part(CLAIMS)}"
    return f"{said}.{part(hmac.new(secret, said.encode(), hashlib.sha256).digest())}"


def test_a_good_token_speaks_for_its_repository() -> None:
    token = jwt.encode(CLAIMS, KEY, algorithm="RS256", headers={"kid": "k1"})
    assert issuers().repository(token) == "o/r"


def elliptic() -> str:
    return jwt.encode(
        CLAIMS, ec.generate_private_key(ec.SECP256R1()), algorithm="ES256", headers={"kid": "k1"}
    )


HOSTILE = {
    "alg none": f"{part({'alg': 'none', 'kid': 'k1'})}.{part(CLAIMS)}.",
    "alg None": f"{part({'alg': 'None', 'kid': 'k1'})}.{part(CLAIMS)}.",
    "no alg": f"{part({'kid': 'k1'})}.{part(CLAIMS)}.",
    "HS256 with the public key": signed_as_text({"alg": "HS256", "kid": "k1"}, PUBLIC),
    "HS256 with an empty key": signed_as_text({"alg": "HS256", "kid": "k1"}, b""),
    "HS256 that says RS256": signed_as_text({"alg": "RS256", "kid": "k1"}, PUBLIC),
    "ES256": elliptic(),
    "RS512": jwt.encode(CLAIMS, KEY, algorithm="RS512", headers={"kid": "k1"}),
    "PS256": jwt.encode(CLAIMS, KEY, algorithm="PS256", headers={"kid": "k1"}),
    "no kid": jwt.encode(CLAIMS, KEY, algorithm="RS256"),
    "a list for a kid": f"{part({'alg': 'RS256', 'kid': ['k1']})}.{part(CLAIMS)}.AA",
    "its own key in the header": jwt.encode(
        CLAIMS,
        rsa.generate_private_key(public_exponent=65537, key_size=2048),
        algorithm="RS256",
        headers={"kid": "k1", "jku": "https://evil.example/jwks", "jwk": {"kty": "RSA"}},
    ),
    "an unknown critical header": jwt.encode(
        CLAIMS, KEY, algorithm="RS256", headers={"kid": "k1", "crit": ["exotic"], "exotic": 1}
    ),
    "a detached payload": f"{part({'alg': 'RS256', 'kid': 'k1', 'b64': False, 'crit': ['b64']})}..AA",
    "claims that are a list": f"{part({'alg': 'RS256', 'kid': 'k1'})}.{part([CLAIMS])}.AA",
    "claims that are deep": f"{part({'alg': 'RS256', 'kid': 'k1'})}.{part(b'[' * 9000)}.AA",
    "a list for the issuer": f"{part({'alg': 'RS256', 'kid': 'k1'})}.{part({**CLAIMS, 'iss': [ISSUER]})}.AA",
    "no base64": "***.***.***",
    "too long": "a" * 40_000,
    "half a surrogate": "\ud800.\ud800.\ud800",
    "five parts": "a.b.c.d.e",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_forged_token_is_refused_and_never_repeated(name: str) -> None:
    with pytest.raises(TokenRefusedError) as caught:
        issuers().repository(HOSTILE[name])
    assert caught.value.status == 401
    assert HOSTILE[name][:40] not in str(caught.value)


@pytest.mark.parametrize("field", ["exp", "nbf", "iat"])
@pytest.mark.parametrize("value", ["soon", True, [], 1e300, 10**400, -(10**400), float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(field: str, value: Any) -> None:
    # Signed by hand: the library makes no such token.
    said = f"{part({'alg': 'RS256', 'kid': 'k1'})}.{part({**CLAIMS, field: value})}"
    token = f"{said}.{part(KEY.sign(said.encode(), padding.PKCS1v15(), hashes.SHA256()))}"
    with pytest.raises(TokenRefusedError):
        issuers().repository(token)


USELESS: dict[str, Any] = {
    "symmetric": {"kty": "oct", "kid": "k1", "k": part(PUBLIC)},
    "of another algorithm": jwk(alg="HS256"),
    "to encrypt with": jwk(use="enc"),
    "with a number for an id": jwk(kid=5),
    "with no base64": {**jwk(), "n": "***"},
    "with a number for a modulus": {**jwk(), "n": 5},
    "with an empty exponent": {**jwk(), "e": ""},
    "of another kind": {**jwk(), "kty": "EC"},
    "an id alone": {"kid": "k1"},
    "text": "text",
    "too short": jwk(rsa.generate_private_key(public_exponent=65537, key_size=1024)),  # noqa: S505  # refused
}


@pytest.mark.parametrize("name", USELESS)
def test_a_key_that_cannot_check_rs256_is_passed_over(name: str) -> None:
    assert public_keys({"keys": [USELESS[name]]}) == {}
    assert list(public_keys({"keys": [USELESS[name], jwk()]})) == ["k1"]


def test_a_modulus_with_the_sign_byte_jenkins_puts_before_it_is_read() -> None:
    number = KEY.public_key().public_numbers().n
    signed = part(b"\0" + number.to_bytes(256, "big"))
    (key,) = public_keys({"keys": [jwk(n=signed)]}).values()
    assert key.public_numbers().n == number


@pytest.mark.parametrize("content", [[], {}, {"keys": {}}, None, "text"])
def test_what_is_no_jwks_is_said(content: Any) -> None:
    with pytest.raises(KeysUnavailableError, match="no JWKS"):
        public_keys(content)


def test_a_jwks_of_a_million_keys_is_read_in_part() -> None:
    assert len(public_keys({"keys": [jwk(kid=f"k{n}") for n in range(MAX_KEYS + 5)]})) == MAX_KEYS


class Source:
    """Keys behind a URL that can fail, and time that the test moves."""

    def __init__(self) -> None:
        self.now = NOW
        self.asked = 0
        self.works = True
        self.keys = [jwk()]
        self.set = KeySet(ISSUER, clock=lambda: self.now, fetch=self.fetch)

    def fetch(self, _: str) -> Any:
        self.asked += 1
        if not self.works:
            raise KeysUnavailableError("no answer")
        return {"keys": self.keys}


def test_keys_are_fetched_once_and_again_after_an_hour() -> None:
    source = Source()
    for _ in range(5):
        assert source.set.key("k1") is not None
    assert source.asked == 1
    source.now += 3601
    source.set.key("k1")
    assert source.asked == 2


def test_an_unknown_key_asks_again_at_most_once_a_minute() -> None:
    source = Source()
    for _ in range(100):
        assert source.set.key("new") is None
    assert source.asked == 1
    source.keys = [jwk(kid="new")]
    source.now += 61
    assert source.set.key("new") is not None
    assert source.asked == 2


def test_an_issuer_out_of_reach_is_asked_again_after_ten_seconds() -> None:
    source = Source()
    source.works = False
    for _ in range(5):
        with pytest.raises(KeysUnavailableError, match="no answer"):
            source.set.key("k1")
    assert source.asked == 1
    source.works = True
    source.now += 11
    assert source.set.key("k1") is not None


def test_known_keys_outlive_their_issuer_by_a_day_and_no_more() -> None:
    source = Source()
    source.set.key("k1")
    source.works = False
    source.now += 23 * 3600
    assert source.set.key("k1") is not None
    source.now += 2 * 3600
    with pytest.raises(KeysUnavailableError):
        source.set.key("k1")


def test_a_key_that_is_known_is_used_while_another_request_asks_for_newer_ones() -> None:
    now, asked = [NOW], []

    def fetch(url: str) -> Any:
        asked.append(url)
        if len(asked) > 1:
            # As from another thread: this one holds the lock.
            assert keys.key("k1") is not None
        return {"keys": [jwk()]}

    keys = KeySet(f"{ISSUER}/jwks", clock=lambda: now[0], fetch=fetch)
    assert keys.key("k1") is not None
    now[0] += FRESH_S + 1
    assert keys.key("k1") is not None
    assert len(asked) == 2


def test_who_waits_for_keys_that_do_not_come_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci.hud.server.issuers.TOTAL_S", 0.01)

    def fetch(_: str) -> Any:
        with pytest.raises(KeysUnavailableError, match="does not answer"):
            keys.key("k1")
        return {"keys": [jwk()]}

    keys = KeySet(f"{ISSUER}/jwks", clock=lambda: NOW, fetch=fetch)
    assert keys.key("k1") is not None
