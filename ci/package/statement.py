"""The in-toto statement of a release, its signature, and the check of both.

Statement: in-toto attestation framework, v1; predicate: SLSA provenance, v1; envelope: DSSE.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ci.errors import EXIT_TEST_FAILED, BadFileError, SettingsError, SpyreCiError
from ci.package.artifacts import Artifact

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
# What externalParameters mean: docs/packaging.md.
BUILD_TYPE = "https://github.com/torch-spyre/spyre-ci/blob/main/docs/packaging.md#provenance"


class StatementError(SpyreCiError):
    """A statement that does not hold: its signature, or what it says of a file."""

    exit_code = EXIT_TEST_FAILED


def statement_of(release: Mapping[str, Any], builder: str) -> dict[str, Any]:
    """The statement of a release.

    Args:
        release: as `release.json` holds it.
        builder: who built it, such as the address of the CI's run.
    """
    source, torch = release["source"], release["torch"]
    materials = [
        {"uri": f"git+{source['url']}@{source['commit']}", "digest": {"gitCommit": source["commit"]}},
    ]
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
    from securesystemslib.exceptions import VerificationError  # noqa: PLC0415
    from securesystemslib.signer import SSlibKey  # noqa: PLC0415

    try:
        public = SSlibKey.from_crypto(load_pem_public_key(key))
    except (ValueError, TypeError) as error:
        raise SettingsError(
            f"the key cannot be read: {error}", where="--key", remedy="give a public key in PEM"
        ) from error
    try:
        envelope = Envelope.from_dict(json.loads(path.read_bytes()))
        statement = json.loads(envelope.payload)
        typed = envelope.payload_type == PAYLOAD_TYPE and statement["_type"] == STATEMENT_TYPE
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadFileError(f"is no envelope of a statement: {error}", where=path) from error
    if not typed:
        raise BadFileError(f"holds {envelope.payload_type}, no in-toto statement", where=path)
    try:
        envelope.verify([public], 1)
    except VerificationError as error:
        raise StatementError(
            "it is not signed with this key",
            where=path,
            remedy="trust nothing it says; ask who publishes for the right key",
        ) from error
    return dict(statement)


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
