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
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.version import Version

from ci.core.archives import damage
from ci.core.errors import MissingInputError, SettingsError
from ci.core.text import counted
from ci.package.artifacts import artifact, key_of, metadata_of
from ci.package.index_client import IndexAwayError, IndexClient, IndexFile, OtherBytesError
from ci.pins.entry_points import files_of, signatures
from ci.pins.packages import is_final, parse_metadata
from ci.pins.releases import parsed
from ci.pins.signatures import Signature
from ci.pins.sources import Release, Seen

BESIDE, WHEEL, SDIST = "METADATA beside the wheel", "METADATA", "PKG-INFO"
NOT_FINAL = "PKG-INFO, which leaves it to a build"
# Names come from the index, and files are written by them.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")
_DATA = re.compile(r"[^/]+\.data/(?:purelib|platlib)/")
_MOST_SOURCE = 16 << 20


@dataclass(frozen=True, kw_only=True)
class IndexSource:
    """A package on an index.

    Attributes:
        asker: asks the index.
        package: the canonical name.
        entry_points: whose signatures are read.
        echo: takes lines for people.
    """

    asker: IndexClient
    package: str
    entry_points: Sequence[str]
    echo: Callable[[str], None]

    @property
    def name(self) -> str:
        """The address of its simple API."""
        return self.asker.index.simple

    def releases(self, only: str | None) -> list[Release]:
        """Every version the index has, pre-releases and those that were taken back too.

        Args:
            only: one version; None: all.

        Raises:
            MissingInputError: the index has no such package or version.
            IndexAwayError: it is away.
            SettingsError: it wants a login.
        """
        found = self._files
        if only is not None:
            wanted = parsed(only)
            found = {version: files for version, files in found.items() if version == wanted}
        if not found:
            named = self.package if only is None else f"{self.package} {only}"
            raise MissingInputError(
                f"the index has no release of {named}",
                where=self.name,
                remedy="check the package's name, its version and pins.tracks.*.index",
            )
        return [_release(version, found[version]) for version in sorted(found)]

    def look(self, release: Release) -> Seen:
        """What a release requires, by its metadata.

        Args:
            release: one that `releases` told.

        Raises:
            OtherBytesError: a file is not the one that the index shows the hash of.
            BadFileError: it is damaged, or of something else.
            IndexAwayError: the index does not give it.
        """
        version = Version(release.version)
        files = self._files[version]
        file = _chosen(files)
        with TemporaryDirectory(prefix="spyre-ci-") as name:
            folder = Path(name)
            beside = self._beside(file, folder)
            path = None if beside is not None else self._got(file, file.sha256, folder)
            if path is None:
                sha, data, read_by = file.sha256, beside or b"", BESIDE
            else:
                one = artifact(path)
                sha, data = one.sha256, metadata_of(one)
                read_by = WHEEL if one.kind == "wheel" else SDIST if is_final(data) else NOT_FINAL
            found = parse_metadata(data, name=self.package, version=version, where=file.filename)
            return Seen(
                sha=sha,
                released_at=min((one.uploaded for one in files if one.uploaded), default=None),
                packages=found.versions,
                origins=found.origins,
                read_by=read_by,
                signatures=self._signatures(path) if path and read_by == WHEEL else {},
                unread=found.unread,
            )

    @cached_property
    def _files(self) -> Mapping[Version, list[IndexFile]]:
        """Wheels and sdists by version."""
        found: dict[Version, list[IndexFile]] = defaultdict(list)
        passed = []
        try:
            listed = self.asker.files(self.package)
        except SettingsError as error:
            raise SettingsError(error.what, where=self.name, remedy=error.remedy) from error
        for one in listed:
            key = key_of(one.filename) if _PLAIN.fullmatch(one.filename) else None
            if key is not None and key.name == self.package:
                found[key.version].append(one)
            else:
                passed.append(one.filename)
        if passed:
            what = "file that is neither wheel nor sdist is", "files that are neither wheel nor sdist are"
            self.echo(f"{self.package}: {counted(len(passed), *what)} passed over")
        return found

    def _beside(self, file: IndexFile, folder: Path) -> bytes | None:
        """The metadata that the index has beside a wheel; None where the wheel itself is wanted."""
        if not (file.metadata and file.sha256) or self.entry_points:
            return None
        beside = IndexFile(filename=f"{file.filename}.metadata", url=f"{file.url}.metadata")
        try:
            return self._got(beside, file.metadata, folder).read_bytes()
        except IndexAwayError as error:
            self.echo(f"{error.what}: the wheel is asked for it")
            return None

    def _got(self, file: IndexFile, sha256: str, folder: Path) -> Path:
        """A file of the index, downloaded and compared with its hash, where the index shows one."""
        path = folder / file.filename
        came = self.asker.download(file, path)
        if sha256 and came != sha256:
            raise OtherBytesError(
                f"{file.filename} came with other bytes than the index shows the hash of: sha256 {came}, "
                f"not {sha256}",
                where=self.name,
                remedy="find out who changed it before anybody installs it; it is not recorded",
            )
        return path

    def _signatures(self, wheel: Path) -> dict[str, Signature | None]:
        with damage(wheel), zipfile.ZipFile(wheel) as archive:
            names = {_DATA.sub("", one.filename): one for one in archive.infolist()}

            def source(module: str) -> tuple[Path, str] | None:
                for path in files_of(module):
                    member = names.get(path.as_posix())
                    if member is not None and member.file_size <= _MOST_SOURCE:
                        return path, archive.read(member).decode("utf-8", "replace")
                return None

            return signatures(self.entry_points, source)


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
