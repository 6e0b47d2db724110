"""What a build is given besides its context: package indexes, and secrets as files that steps mount."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from ci.core.addresses import without_credentials
from ci.image.containerfile import CERTIFICATES, INDEX_KEY, INDEX_VARIABLES, PIP


def index_key(environ: Mapping[str, str]) -> str:
    """What tells one package index from another, without telling where it is: 12 hex digits.

    Args:
        environ: of whoever builds; an index's credentials make no difference.
    """
    said = [without_credentials(environ.get(name, "")) for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:12]


def index_arguments(environ: Mapping[str, str]) -> dict[str, str]:
    """The build's arguments that tell its package indexes, without their credentials."""
    told = {name: without_credentials(environ[name]) for name in INDEX_VARIABLES if environ.get(name)}
    return {INDEX_KEY: index_key(environ), **told}


def pip_settings(environ: Mapping[str, str]) -> str:
    """Pip's file of settings that names the package indexes of an environment, with their credentials."""
    lines = ["[global]"]
    for name in INDEX_VARIABLES:
        if values := environ.get(name, "").split():
            key = name.removeprefix("PIP_").lower().replace("_", "-")
            lines.append(f"{key} = " + "\n    ".join(values))
    return "\n".join(lines) + "\n"


def write_secrets(folder: Path, environ: Mapping[str, str], certificates: Path | None) -> dict[str, Path]:
    """Write a build's secrets into a folder that nobody else reads; returns their files by id.

    Args:
        folder: of this process alone.
        environ: of whoever builds.
        certificates: a bundle of certificates in PEM; None: the image's own.
    """
    path = folder / PIP
    path.touch(mode=0o600)
    path.write_text(pip_settings(environ), encoding="utf-8")
    return {PIP: path, **({CERTIFICATES: certificates} if certificates else {})}
