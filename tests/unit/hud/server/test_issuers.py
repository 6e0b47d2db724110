"""Who an OIDC token speaks for, tokens as a hostile client makes them, and keys as an issuer gives them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from starlette.exceptions import HTTPException

from ci.config.hud_model import Issuer
from ci.hud.server.issuers import FAILED_S, FRESH_S, UNKNOWN_KEY_S, Issuers, Keys

NOW = time.time()
GITHUB = "https://token.actions.githubusercontent.com"
BUILDKITE = "https://agent.buildkite.com"
JENKINS = "https://jenkins.example/oidc"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
SHORT_KEY = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505  # it is refused
PUBLIC = KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)
CLAIMS = {
    "iss": GITHUB,
    "aud": "pytorch-cross-repo-ci-relay",
    "exp": NOW + 3600,
    "iat": NOW,
    "repository": "o/r",
}
GONE = object()


def jwk(key: rsa.RSAPrivateKey = KEY, **fields: Any) -> dict[str, Any]:
    return {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())), "kid": "k1", **fields}


class Source:
    """What an issuer answers to whoever asks for its keys, and PyJWT's time, which the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: Any = {"keys": [jwk()]}
        self.asked = 0
        self.now = time.monotonic()
        monkeypatch.setattr(Keys, "_read", lambda _: self.read())
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def read(self) -> bytes:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return json.dumps(self.answer).encode()


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(monkeypatch)


@pytest.fixture
def issuers(source: Source) -> Issuers:
    assert source.asked == 0
    return Issuers(
        [
            Issuer(url=GITHUB, kind="github"),
            Issuer(url=BUILDKITE, kind="buildkite", repositories={"spyre/nightly": "o/r"}),
            Issuer(url=JENKINS, kind="jenkins", repositories={"https://jenkins.example/job/spyre/*": "o/r"}),
        ]
    )


def part(content: Any) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def token_of(key: Any = KEY, algorithm: str = "RS256", headers: Any = None, **claims: Any) -> str:
    content = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not GONE}
    return jwt.encode(content, key, algorithm=algorithm, headers={"kid": "k1", **(headers or {})})


def signed_as_text(header: dict[str, Any], secret: bytes) -> str:
    said = f"{part(header)}.{part(CLAIMS)}"
    return f"{said}.{part(hmac.new(secret, said.encode(), hashlib.sha256).digest())}"


def signed_by_hand(claims: dict[str, Any], key: rsa.RSAPrivateKey = KEY) -> str:
    # The library makes no such token.
    said = f"{part({'alg': 'RS256', 'kid': 'k1'})}.{part({**CLAIMS, **claims})}"
    return f"{said}.{part(key.sign(said.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def unsigned(header: dict[str, Any], claims: Any = CLAIMS, signature: str = "AA") -> str:
    return f"{part(header)}.{part(claims)}.{signature}"


# Made when they are asked for: the library looks at the machine's clock.
GOOD: dict[str, Callable[[], str]] = {
    "a GitHub token": token_of,
    "expired within the leeway": lambda: token_of(exp=time.time() - 10),
    "a Buildkite pipeline that is mapped": lambda: token_of(
        iss=BUILDKITE, organization_slug="spyre", pipeline_slug="nightly"
    ),
    "a Jenkins job that is mapped": lambda: token_of(
        iss=JENKINS, sub="https://jenkins.example/job/spyre/job/main/"
    ),
}


def answer(issuers: Issuers, token: str) -> tuple[int, str]:
    """The status, with the repository that the token speaks for or the reason of the refusal."""
    try:
        return 200, issuers.repository(token)
    except HTTPException as error:
        return error.status_code, error.detail


@pytest.mark.parametrize("name", GOOD)
def test_a_good_token_speaks_for_its_repository(issuers: Issuers, name: str) -> None:
    assert answer(issuers, GOOD[name]()) == (200, "o/r")


UNKNOWN = {
    "a path for a repository": token_of(repository="a/b/c"),
    "a Buildkite pipeline that is not mapped": token_of(
        iss=BUILDKITE, organization_slug="spyre", pipeline_slug="other"
    ),
    "a slug that plays two": token_of(iss=BUILDKITE, organization_slug="x", pipeline_slug="spyre/nightly"),
    "a Jenkins job that is not mapped": token_of(iss=JENKINS, sub="https://jenkins.example/job/other/"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_genuine_token_of_somebody_unknown_is_a_403(issuers: Issuers, name: str) -> None:
    status, said = answer(issuers, UNKNOWN[name])
    assert (status, said.partition(" is ")[2]) == (403, "not registered here")


REFUSED = {
    "expired": token_of(exp=NOW - 60),
    "without an end": token_of(exp=GONE),
    "not valid yet": token_of(nbf=NOW + 3600),
    "of the future": token_of(iat=NOW + 3600),
    "another audience": token_of(aud="sts.amazonaws.com"),
    "no audience": token_of(aud=GONE),
    "another issuer": token_of(iss="https://evil.example"),
    "no issuer": token_of(iss=GONE),
    "a list for the issuer": unsigned({"alg": "RS256", "kid": "k1"}, {**CLAIMS, "iss": [GITHUB]}),
    "half a surrogate for the issuer": token_of(iss="https://x\ud800"),
    "no repository": token_of(repository=GONE),
    "a number for a repository": token_of(repository=5),
    "no pipeline": token_of(iss=BUILDKITE, organization_slug="spyre"),
    "an unknown kid": token_of(headers={"kid": "k2"}),
    "no kid": jwt.encode(CLAIMS, KEY, algorithm="RS256"),
    "a list for a kid": unsigned({"alg": "RS256", "kid": ["k1"]}),
    "another key": token_of(OTHER_KEY),
    "its own key in the header": token_of(
        OTHER_KEY, headers={"jku": "https://evil.example/jwks", "jwk": {"kty": "RSA"}}
    ),
    "alg none": unsigned({"alg": "none", "kid": "k1"}, signature=""),
    "alg None": unsigned({"alg": "None", "kid": "k1"}, signature=""),
    "no alg": unsigned({"kid": "k1"}, signature=""),
    "HS256 with the public key": signed_as_text({"alg": "HS256", "kid": "k1"}, PUBLIC),
    "HS256 with an empty key": signed_as_text({"alg": "HS256", "kid": "k1"}, b""),
    "HS256 that says RS256": signed_as_text({"alg": "RS256", "kid": "k1"}, PUBLIC),
    "ES256": token_of(ec.generate_private_key(ec.SECP256R1()), "ES256"),
    "RS512": token_of(algorithm="RS512"),
    "PS256": token_of(algorithm="PS256"),
    "an unknown critical header": token_of(headers={"crit": ["exotic"], "exotic": 1}),
    "a detached payload": f"{part({'alg': 'RS256', 'kid': 'k1', 'b64': False, 'crit': ['b64']})}..AA",
    "claims that are a list": unsigned({"alg": "RS256", "kid": "k1"}, [CLAIMS]),
    "claims that are deep": unsigned({"alg": "RS256", "kid": "k1"}, b"[" * 9000),
    "no base64": "***.***.***",
    "too long": "a" * 40_000,
    "half a surrogate": "\ud800.\ud800.\ud800",
    "five parts": "a.b.c.d.e",
    "nothing": "",
}
NO_TIMES: tuple[Any, ...] = ("soon", [], float("nan"), float("inf"))
REFUSED |= {
    f"{field} {value}": signed_by_hand({field: value})
    for field in ("exp", "nbf", "iat")
    for value in NO_TIMES
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_token_that_does_not_hold_is_refused_and_never_repeated(issuers: Issuers, name: str) -> None:
    token = REFUSED[name]
    status, said = answer(issuers, token)
    assert status == 401
    assert not token or token[:40] not in said


USELESS: dict[str, Any] = {
    "symmetric": {"kty": "oct", "kid": "k1", "k": part(PUBLIC)},
    "of another algorithm": {"kty": "EC", "crv": "P-256", "kid": "k1", "x": part(b"x"), "y": part(b"y")},
    "to encrypt with": jwk(use="enc"),
    "with a number for an id": jwk(kid=5),
    "an id alone": {"kid": "k1"},
    "too short": jwk(SHORT_KEY),
}


@pytest.mark.parametrize("name", USELESS)
def test_a_key_that_cannot_check_rs256_vouches_for_nobody(
    issuers: Issuers, source: Source, name: str
) -> None:
    source.answer = {"keys": [USELESS[name], jwk(kid="k2")]}
    for token in (token_of(), signed_by_hand({}, SHORT_KEY), REFUSED["HS256 with the public key"]):
        assert answer(issuers, token)[0] == 401
    assert answer(issuers, token_of(headers={"kid": "k2"}))[0] == 200


def test_a_modulus_with_the_sign_byte_jenkins_puts_before_it_is_read(
    issuers: Issuers, source: Source
) -> None:
    number = KEY.public_key().public_numbers().n
    source.answer = {"keys": [jwk(n=part(b"\0" + number.to_bytes(256, "big")))]}
    assert answer(issuers, token_of())[0] == 200


@pytest.mark.parametrize("told", [[], {}, {"keys": {}}, {"keys": []}, {"keys": [1]}, None, "text", OSError()])
def test_keys_that_cannot_be_had_are_said_and_asked_for_again_after_a_while(
    issuers: Issuers, source: Source, told: Any
) -> None:
    source.answer = told
    for _ in range(3):
        status, said = answer(issuers, token_of())
        assert (status, "returns no keys" in said) == (503, True)
    assert source.asked == 1
    source.answer = {"keys": [jwk()]}
    source.now += FAILED_S + 1
    assert answer(issuers, token_of())[0] == 200


def test_keys_are_kept_for_an_hour_and_an_unknown_id_asks_once_a_minute(
    issuers: Issuers, source: Source
) -> None:
    rotated = token_of(headers={"kid": "new"})
    assert answer(issuers, token_of())[0] == 200
    source.answer = {"keys": [jwk(kid="new")]}
    assert [answer(issuers, rotated)[0] for _ in range(5)] == [401] * 5
    asked = [source.asked]
    for pause in (UNKNOWN_KEY_S, FRESH_S):
        source.now += pause + 1
        assert answer(issuers, rotated)[0] == 200
        asked.append(source.asked)
    assert asked == [1, 2, 3]
