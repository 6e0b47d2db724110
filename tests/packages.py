"""Sdists and wheels made by hand, in no time and with whatever is to be wrong about them."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

PLAIN = {
    "Metadata-Version": "2.4",
    "Summary": "made for tests",
    "License-Expression": "Apache-2.0",
    "License-File": "LICENSE",
    "Description-Content-Type": "text/markdown",
    "Requires-Python": ">=3.11",
}
README = "# A package\n\nMade for tests.\n"


def metadata_of(name: str, version: str, fields: Mapping[str, str | None] | None = None) -> str:
    """Core metadata; a field that is None is left out."""
    rows = {"Name": name, "Version": version, **PLAIN, **(fields or {})}
    body = rows.pop("Description", README)
    head = [f"{key.partition('#')[0]}: {value}" for key, value in rows.items() if value is not None]
    return "\n".join(head) + f"\n\n{body or ''}"


def make_wheel(
    folder: Path,
    name: str = "demo",
    version: str = "1.0",
    *,
    files: Mapping[str, str | bytes] | None = None,
    fields: Mapping[str, str | None] | None = None,
    tag: str = "py3-none-any",
    stated: str | None = None,
    pure: bool = True,
    record: bool = True,
) -> Path:
    """A wheel; `files` take the place of a module of its name."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    content: dict[str, bytes] = {
        key: value.encode() if isinstance(value, str) else value
        for key, value in (files or {f"{name.replace('-', '_')}/__init__.py": "ANSWER = 42\n"}).items()
    }
    content[f"{info}/METADATA"] = metadata_of(name, version, fields).encode()
    said = (
        f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {str(pure).lower()}\nTag: {stated or tag}\n"
    )
    content[f"{info}/WHEEL"] = said.encode()
    content.setdefault(f"{info}/licenses/LICENSE", b"Apache-2.0\n")
    lines = [f"{path},{_digest(data)},{len(data)}" for path, data in content.items()]
    if record:
        content[f"{info}/RECORD"] = ("\n".join([*lines, f"{info}/RECORD,,"]) + "\n").encode()
    path = folder / f"{name.replace('-', '_')}-{version}-{tag}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, data in content.items():
            archive.writestr(zipfile.ZipInfo(key, (2026, 1, 1, 0, 0, 0)), data)
    return path


def make_sdist(
    folder: Path,
    name: str = "demo",
    version: str = "1.0",
    *,
    files: Mapping[str, str | bytes | tarfile.TarInfo] | None = None,
    fields: Mapping[str, str | None] | None = None,
) -> Path:
    """An sdist that setuptools can build; a `TarInfo` among the files is put in as it is."""
    stem = f"{name.replace('-', '_')}-{version}"
    package = name.replace("-", "_")
    project = (
        '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "{name}"\nversion = "{version}"\n[tool.setuptools]\npackages = ["{package}"]\n'
    )
    content: dict[str, str | bytes | tarfile.TarInfo] = {
        f"{stem}/PKG-INFO": metadata_of(name, version, fields),
        f"{stem}/pyproject.toml": project,
        f"{stem}/LICENSE": "Apache-2.0\n",
        f"{stem}/{package}/__init__.py": "ANSWER = 42\n",
        **(files or {}),
    }
    path = folder / f"{stem}.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as packed:
        for key, value in content.items():
            if isinstance(value, tarfile.TarInfo):
                packed.addfile(value)
                continue
            data = value.encode() if isinstance(value, str) else value
            entry = tarfile.TarInfo(key)
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))
    return path


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
