"""What an image's build is given: its context, package indexes, and secrets as files that steps mount."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from ci.core.addresses import without_credentials
from ci.core.errors import CommandError
from ci.core.repositories import put_files
from ci.image.checkout import put_checkout
from ci.image.containerfile import CERTIFICATES, INDEX_KEY, INDEX_VARIABLES, PIP
from ci.image.model import PYTORCH
from ci.image.resolve import ResolvedStack
from ci.image.roles import start_files


def write_context(
    resolved: ResolvedStack,
    containerfile: str,
    *,
    packages: Path,
    context: Path,
    environ: Mapping[str, str],
    echo: Callable[[str], None],
) -> None:
    """Write what a stack is built of into a folder: below `sources/`, `packages/` and `start/`.

    Args:
        resolved: the stack, named exactly.
        containerfile: as rendered.
        packages: folder that the paths of package files begin in.
        context: is made; must not be there.
        environ: git's.
        echo: takes lines for people.

    Raises:
        CommandError: a commit cannot be fetched, or something of this machine changed since it was named.
    """
    context.mkdir()
    (context / "Containerfile").write_text(containerfile, encoding="utf-8")
    for path, text in start_files(resolved.stack).items():
        _write(context / "start" / path, text.encode())
        (context / "start" / path).chmod(0o755)
    if resolved.pytorch.git is not None:
        echo(f"{PYTORCH}: {resolved.pytorch.git.url} at {resolved.pytorch.commit}")
        put_files(
            resolved.pytorch.git.url, resolved.pytorch.commit, context / "sources" / PYTORCH, environ=environ
        )
    for part in resolved.components:
        name, git = part.component.name, part.component.git
        target = context / "sources" / name
        if part.folder is not None:
            echo(f"{name}: {part.folder} as it stands")
            found = put_checkout(part.folder, target, environ=environ)
            _check_same(part.revision, found, name, part.folder)
        elif git is not None:
            echo(f"{name}: {git.url} at {part.revision}")
            put_files(git.url, part.revision, target, environ=environ)
        for path, sha256 in part.files.items():
            data = (packages / path).read_bytes()
            _check_same(sha256, hashlib.sha256(data).hexdigest(), path, packages)
            _write(context / "packages" / name / Path(path).name, data)
    # Modes are part of the builder's cache, and of the image: they do not depend on whose machine it is.
    for inside in context.rglob("*"):
        if not inside.is_symlink():
            inside.chmod(0o755 if inside.is_dir() or inside.stat().st_mode & 0o100 else 0o644)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _check_same(named: str, found: str, what: str, where: Path) -> None:
    if named != found:
        raise CommandError(
            f"{what} changed while the image was prepared",
            where=where,
            remedy="build again when nothing writes there",
        )


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


def write_secrets(folder: Path, environ: Mapping[str, str], certificates: Path | None) -> dict[str, Path]:
    """Write a build's secrets into a folder that nobody else reads; returns their files by id.

    Args:
        folder: of this process alone.
        environ: of whoever builds; pip's variables name the package indexes, with their credentials.
        certificates: a bundle of certificates in PEM; None: the image's own.
    """
    lines = ["[global]"]
    for name in INDEX_VARIABLES:
        if values := environ.get(name, "").split():
            key = name.removeprefix("PIP_").lower().replace("_", "-")
            lines.append(f"{key} = " + "\n    ".join(values))
    path = folder / PIP
    path.touch(mode=0o600)
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return {PIP: path, **({CERTIFICATES: certificates} if certificates else {})}
