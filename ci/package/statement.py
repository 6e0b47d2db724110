"""The in-toto statement of a release, its signature, and the check of both.

Statement: in-toto attestation framework, v1; predicate: SLSA provenance, v1; envelope: DSSE.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel, BeforeValidator, Field

from ci.core.addresses import of_repository
from ci.core.errors import EXIT_TEST_FAILED, BadFileError, SettingsError, SpyreCiError
from ci.package.artifacts import Artifact
from ci.package.records import checked
from ci.package.text import harmless

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
# What externalParameters mean: docs/packaging.md.
BUILD_TYPE = "https://github.com/torch-spyre/spyre-ci/blob/main/docs/packaging.md#provenance"


_REMEDY = "name the *.intoto.json that spyre-ci package release wrote"


class StatementError(SpyreCiError):
    """A statement that does not hold: its signature, or what it says of a file."""

    exit_code = EXIT_TEST_FAILED


def _decoded(text: Any) -> bytes:
    """Base64, the usual or that of addresses (DSSE takes both)."""
    if not isinstance(text, str):
        raise ValueError("is no text")  # noqa: TRY004  # what pydantic reports
    return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)


_Bytes = Annotated[bytes, BeforeValidator(_decoded)]


class _Signature(BaseModel):
    """A signature of an envelope."""

    sig: _Bytes


class _Envelope(BaseModel):
    """An envelope (DSSE), as far as it is read."""

    payload: _Bytes
    payload_type: str = Field(alias="payloadType")
    signatures: list[_Signature]


class _Subject(BaseModel):
    """A file that a statement is of."""

    name: str
    digest: dict[str, str]


class _Source(BaseModel):
    """Where it was built from."""

    commit: str


class _Parameters(BaseModel):
    """What it was built with."""

    source: _Source


class _Definition(BaseModel):
    """How it was built."""

    parameters: _Parameters = Field(alias="externalParameters")


class _Predicate(BaseModel):
    """What is said of the files."""

    definition: _Definition = Field(alias="buildDefinition")


class _Statement(BaseModel):
    """A statement of a release, as far as it is read."""

    subject: list[_Subject]
    predicate: _Predicate


def statement_of(release: Mapping[str, Any], builder: str) -> dict[str, Any]:
    """The statement of a release.

    Args:
        release: as `release.json` holds it.
        builder: who built it, such as the address of the CI's run.
    """
    source, torch = release["source"], release["torch"]
    materials: list[dict[str, Any]] = []
    if address := of_repository(source["url"]):
        uri = f"git+{address}@{source['commit']}"
        materials.append({"uri": uri, "digest": {"gitCommit": source["commit"]}})
    elif source["commit"]:
        materials.append({"name": "source", "digest": {"gitCommit": source["commit"]}})
    if image := release["image"]:
        name, _, digest = image.partition("@sha256:")
        materials.append({"uri": f"oci://{name}", "digest": {"sha256": digest}})
    if torch:
        materials.append({"uri": _purl(torch)})
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": one["name"], "digest": {"sha256": one["sha256"]}} for one in release["files"]],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "project": release["project"],
                    "version": release["version"],
                    "source": source,
                },
                "internalParameters": {"runs": release["runs"], "gates": release["gates"]},
                "resolvedDependencies": materials,
            },
            "runDetails": {
                "builder": {"id": builder},
                "metadata": {"finishedOn": release["at"]},
            },
        },
    }


def envelope_of(statement: Mapping[str, Any], key: bytes | None) -> str:
    """The statement in its envelope, signed where there is a key.

    Args:
        statement: of a release.
        key: a private key in PEM (Ed25519, ECDSA or RSA), not encrypted; None: nobody signs.

    Raises:
        SettingsError: the key cannot be read.
    """
    from securesystemslib.dsse import Envelope  # noqa: PLC0415  # takes a part of a second

    payload = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
    envelope = Envelope(payload, PAYLOAD_TYPE, {})
    if key is not None:
        envelope.sign(_signer(key))
    return json.dumps(envelope.to_dict(), indent=1, sort_keys=True) + "\n"


def check_envelope(path: Path, key: bytes) -> dict[str, Any]:
    """The statement of an envelope whose signature holds.

    Args:
        path: of the envelope.
        key: the public key, in PEM.

    Raises:
        BadFileError: it is no envelope of a statement.
        SettingsError: the key cannot be read.
        StatementError: it is not signed, or not with that key.
    """
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415
    from securesystemslib.dsse import Envelope  # noqa: PLC0415
    from securesystemslib.signer import SSlibKey  # noqa: PLC0415

    try:
        public = SSlibKey.from_crypto(load_pem_public_key(key))
    except (ValueError, TypeError) as error:
        raise SettingsError(
            f"the key cannot be read: {error}", where="--key", remedy="give a public key in PEM"
        ) from error
    envelope, statement = _read(path)
    signed = Envelope(envelope.payload, PAYLOAD_TYPE, {}).pae()
    if not any(_is_signed(public, signature, signed) for signature in envelope.signatures):
        raise StatementError(
            "it is not signed with this key",
            where=path,
            remedy="trust nothing it says; ask who publishes for the right key",
        )
    checked(_Statement, statement, path, _REMEDY)
    return statement


def _read(path: Path) -> tuple[_Envelope, dict[str, Any]]:
    """An envelope and the statement in it, whose shape and signature are still to be checked.

    Raises:
        BadFileError: it is none.
    """
    try:
        envelope = checked(_Envelope, json.loads(path.read_bytes()), path, _REMEDY)
        statement = json.loads(envelope.payload)
        typed = envelope.payload_type == PAYLOAD_TYPE and statement["_type"] == STATEMENT_TYPE
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadFileError(f"is no envelope of a statement: {error}", where=path, remedy=_REMEDY) from error
    if not typed:
        what = f"holds {harmless(envelope.payload_type)}, no in-toto statement"
        raise BadFileError(what, where=path, remedy=_REMEDY)
    return envelope, statement


def _is_signed(public: Any, signature: _Signature, signed: bytes) -> bool:
    """Whether a signature is of the key: the id it names is a hint that nobody signed, and may be missing."""
    from securesystemslib.exceptions import Error  # noqa: PLC0415
    from securesystemslib.signer import Signature  # noqa: PLC0415

    try:
        public.verify_signature(Signature(public.keyid, signature.sig.hex()), signed)
    except (Error, ValueError):
        return False
    return True


def check_subjects(statement: Mapping[str, Any], artifacts: Sequence[Artifact], where: Path) -> None:
    """Whether files are those a statement is of.

    Raises:
        StatementError: one is not.
    """
    stated = {one["name"]: one["digest"].get("sha256", "") for one in statement["subject"]}
    for one in artifacts:
        if stated.get(one.filename) != one.sha256:
            said = stated.get(one.filename)
            raise StatementError(
                f"{one.filename} has sha256 {one.sha256}, the statement says {said}"
                if said
                else f"{one.filename} is none of its files: {', '.join(sorted(stated))}",
                where=where,
                remedy="use the file that was published under this name",
            )


def _purl(requirement: str) -> str:
    """A requirement as a package URL; with the version where it is pinned."""
    said = Requirement(requirement)
    pins = [one.version for one in said.specifier if one.operator in {"==", "==="} and "*" not in one.version]
    name = f"pkg:pypi/{canonicalize_name(said.name)}"
    return f"{name}@{quote(pins[0], safe='')}" if pins else name


def _signer(key: bytes) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415
    from securesystemslib.signer import CryptoSigner  # noqa: PLC0415

    try:
        return CryptoSigner(load_pem_private_key(key, password=None))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # Whatever it says of the key's bytes stays unsaid.
        raise SettingsError(
            f"the signing key cannot be used ({type(error).__name__})",
            where="SPYRE_CI_SIGNING_KEY",
            remedy="give an Ed25519, ECDSA or RSA private key in PEM, without a pass phrase",
        ) from None
