"""Releases of a package: what its index shows, and what the metadata of each requires.

A wheel's metadata is asked for by itself where the index has it (PEP 658). Otherwise the wheel is downloaded,
and so it is where signatures are wanted of it; of a release without wheels its sdist. What comes is compared
with the hash that the index shows before anything of it is read, and nothing of it is run.
"""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from ci.core.addresses import without_credentials
from ci.core.archives import damage
from ci.core.errors import BadFileError, MissingInputError, SettingsError
from ci.core.text import counted
from ci.package.artifacts import artifact, key_of, metadata_of
from ci.package.index_client import IndexAwayError, IndexClient, IndexFile, OtherBytesError
from ci.pins.compatibility import ANY, SEPARATOR
from ci.pins.entry_points import signatures
from ci.pins.record import parsed
from ci.pins.recording import Release

# Names come from the index, and files are written by them.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")


@dataclass(frozen=True, kw_only=True)
class IndexSource:
    """A package on an index.

    Attributes:
        client: asks the index.
        package: the canonical name.
        entry_points: whose signatures are read.
        echo: takes lines for people.
    """

    client: IndexClient
    package: str
    entry_points: Sequence[str]
    echo: Callable[[str], None]

    @property
    def name(self) -> str:
        """The address of its simple API."""
        return self.client.index.simple

    def releases(self, only: str | None) -> list[Release]:
        """Every version the index has, pre-releases and those that were taken back too, or the one named.

        Raises:
            MissingInputError: the index has no such package or version.
            IndexAwayError: it is away.
            SettingsError: it wants a login.
        """
        wanted = None if only is None else parsed(only)
        found = [
            _release(one, self._files[one]) for one in sorted(self._files) if only is None or one == wanted
        ]
        if not found:
            said = f"the index has no release of {self.package}{'' if only is None else f' {only}'}"
            remedy = "check the package's name, its version and pins.tracks.*.index"
            raise MissingInputError(said, where=self.name, remedy=remedy)
        return found

    def look(self, release: Release) -> dict[str, Any]:
        """What a release requires, by its metadata, as fields of a record.

        Raises:
            OtherBytesError: a file is not the one that the index shows the hash of.
            BadFileError: it is damaged, or of something else.
            IndexAwayError: the index does not give it.
        """
        version = Version(release.version)
        files = self._files[version]
        file = _chosen(files)
        sha, read_by, found = file.sha256, "METADATA beside the wheel", {}
        with TemporaryDirectory(prefix="spyre-ci-") as name:
            data = self._beside(file, Path(name))
            if data is None:
                one = artifact(self._got(file, file.sha256, Path(name)))
                sha, data, read_by = one.sha256, metadata_of(one), "METADATA"
                if one.kind == "sdist":
                    # A build may add to what it says there.
                    read_by = "PKG-INFO"
                elif self.entry_points:
                    with damage(one.path), zipfile.ZipFile(one.path) as archive:
                        found = signatures(self.entry_points, archive)
        packages, origins = parse_metadata(data, self.package, version, where=file.filename, echo=self.echo)
        at = min((each.uploaded for each in files if each.uploaded), default=None)
        about = {"sha": sha, "released_at": at, "read_by": read_by}
        return {**about, "packages": packages, "origins": origins, "signatures": found}

    @cached_property
    def _files(self) -> Mapping[Version, list[IndexFile]]:
        """Wheels and sdists by version."""
        found: dict[Version, list[IndexFile]] = defaultdict(list)
        try:
            listed = self.client.files(self.package)
        except SettingsError as error:
            raise SettingsError(error.what, where=self.name, remedy=error.remedy) from error
        for one in listed:
            key = key_of(one.filename) if _PLAIN.fullmatch(one.filename) else None
            if key is not None and key.name == self.package:
                found[key.version].append(one)
        if passed := len(listed) - sum(map(len, found.values())):
            what = "file that is neither wheel nor sdist is", "files that are neither wheel nor sdist are"
            self.echo(f"{self.package}: {counted(passed, *what)} ignored")
        return found

    def _beside(self, file: IndexFile, folder: Path) -> bytes | None:
        """The metadata that the index has beside a wheel; None where the wheel itself is wanted."""
        if file.metadata and file.sha256 and not self.entry_points:
            beside = IndexFile(filename=f"{file.filename}.metadata", url=f"{file.url}.metadata")
            with suppress(IndexAwayError):
                return self._got(beside, file.metadata, folder).read_bytes()
        return None

    def _got(self, file: IndexFile, sha256: str, folder: Path) -> Path:
        """A file of the index, downloaded and compared with its hash, where the index shows one."""
        path = folder / file.filename
        came = self.client.download(file, path)
        if sha256 and came != sha256:
            said = f"does not match its hash on the index: sha256 {came}, not {sha256}"
            remedy = "find out who changed it before anybody installs it; it was not recorded"
            raise OtherBytesError(f"{file.filename} {said}", where=self.name, remedy=remedy)
        return path


def _release(version: Version, files: Sequence[IndexFile]) -> Release:
    file = _chosen(files)
    yanked = file.yanked if all(one.yanked is not None for one in files) else None
    also = frozenset(one.sha256 for one in files if one.sha256)
    return Release(version=str(version), sha=file.sha256, also=also, yanked=yanked)


def _chosen(files: Sequence[IndexFile]) -> IndexFile:
    """The file that speaks for a release: a wheel for every platform, else one for Linux, else the first."""
    return min(
        files,
        key=lambda one: (
            one.yanked is not None,
            not one.filename.endswith(".whl"),
            not one.filename.endswith("-any.whl"),
            "linux" not in one.filename,
            one.filename,
        ),
    )


def parse_metadata(
    data: bytes, name: str, version: Version, *, where: str, echo: Callable[[str], None]
) -> tuple[dict[str, str], dict[str, str]]:
    """What a release requires by name, itself by its version, and addresses of what is from no index; pure.

    Args:
        data: METADATA of a wheel, or PKG-INFO of an sdist.
        name: the canonical name of the package.
        version: of the release.
        where: it was read, for errors.
        echo: takes lines that are no requirement.

    Raises:
        BadFileError: it is of another package or release, or of none.
    """
    raw, _ = parse_email(data)
    told = raw.get("name", ""), raw.get("version", "")
    if canonicalize_name(told[0]) != name or parsed(told[1]) != version:
        said = f"its metadata is for {told[0][:80]!r} {told[1][:80]!r}, not for {name} {version}"
        raise BadFileError(said, where=where, remedy="find out how it was built; it was not recorded")
    wanted: dict[str, list[str]] = {name: [told[1].strip()]}
    origins: dict[str, str] = {}
    for line in raw.get("requires_dist", []):
        try:
            one = Requirement(line)
        except InvalidRequirement:
            echo(f"{where}: not a requirement: {without_credentials(line)}")
            continue
        key = canonicalize_name(one.name)
        if key != name:  # `demo[all]` of itself is no other version
            wanted.setdefault(key, []).append(without_credentials(str(one)[len(one.name) :].strip()) or ANY)
            if one.url:
                origins[key] = without_credentials(one.url)
    return {key: SEPARATOR.join(lines) for key, lines in wanted.items()}, origins
