"""Promotion: the very files of a stage index, by name and hash, for publishing to another index."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ci.errors import EXIT_TEST_FAILED, BadFileError, SpyreCiError, UsageError
from ci.package.artifacts import Artifact, artifact
from ci.package.asking import Asker, fetch
from ci.package.listing import Listed, OtherBytesError, key_of, of_version
from ci.package.publishing import note_path, read_published
from ci.package.records import Published, Record
from test_selection.files import read_json

_SHOWN = 3
_DIGEST = re.compile(r"[0-9a-f]{64}")


class NotOnStageError(SpyreCiError):
    """A file that is to be promoted is not on the stage."""

    exit_code = EXIT_TEST_FAILED


class NotProvedError(SpyreCiError):
    """What is published on a stage was not shown to be what users get."""

    exit_code = EXIT_TEST_FAILED


class NotCommittedError(SpyreCiError):
    """What was built of a checkout that differed from its commit."""

    exit_code = EXIT_TEST_FAILED


class YankedError(SpyreCiError):
    """A file that is to be promoted is yanked on the stage."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a release from before.

    Attributes:
        project: its canonical name.
        version: of it.
        commit: it was built from; empty where nothing says so.
        files: SHA-256 in hex by file name.
        source: the file that says so.
        dirty: files that differed from the commit when it was built.
    """

    project: str
    version: Version
    commit: str
    files: dict[str, str]
    source: Path
    dirty: Sequence[str] = ()


def from_note(records: Path, stage: str) -> Known:
    """What was published on a stage, as the command noted it that did.

    Raises:
        MissingInputError: nothing is noted of it.
        BadFileError: the note is damaged, or says that not everything was published.
        NotProvedError: nobody saw that the stage gives what was published, and that it works.
    """
    path = note_path(records, stage)
    known = read_published(path)
    _refuse_unproved(known, stage, path)
    return known_of(known.model_dump(), path)


def from_release(path: Path, stage: str, records: Path) -> Known:
    """What a release.json names, where the stage was seen to give those very files and that they work.

    Args:
        path: of the release.json.
        stage: the index that has it.
        records: folder of what is noted, where it is not noted beside the release.json.

    Raises:
        MissingInputError: there is no such file, or nothing is noted of the stage.
        BadFileError: it is not one that `package release` wrote, or does not name project, version and files
            with their hashes; or the note is damaged, or says that not everything was published.
        NotProvedError: nobody saw that the stage gives what was published, and that it works, or what was
            seen was another release.
    """
    known = known_of(read_json(path, "release"), path)
    places = [note_path(folder, stage) for folder in (path.parent, records)]
    note = next((one for one in places if one.is_file()), None)
    if note is None:
        raise NotProvedError(
            f"nothing says that {stage} gives {known.version} as it was published, and that it works",
            where=places[0],
            remedy=f"publish it there again, which looks and uploads nothing twice: spyre-ci package publish "
            f"--index {stage}; or name the folder of its record with --records",
        )
    said = read_published(note)
    _refuse_unproved(said, stage, note)
    if known_of(said.model_dump(), note).files != known.files:
        raise NotProvedError(
            f"it is of {said.version}, with other files than {path.name} names",
            where=note,
            remedy=f"name the release.json of what {stage} has, or publish these files there first",
        )
    return known


def _refuse_unproved(said: Published, stage: str, path: Path) -> None:
    state = said.state
    is_there = state is not None and not state.get("absent") and not state.get("unsure")
    if not said.complete and not is_there:
        raise BadFileError(
            f"not everything of {said.version} was published on {stage}",
            where=path,
            remedy=f"finish that first: spyre-ci package publish --index {stage}",
        )
    if not said.complete or not said.proved:
        raise NotProvedError(
            f"nobody saw that {stage} gives {said.version} as it was published, and that it works",
            where=path,
            remedy=f"publish it there again, which looks and uploads nothing twice: spyre-ci package publish "
            f"--index {stage}",
        )


def refuse_changed(known: Known, verified: Record | None) -> None:
    """Raise where files were built or verified while the checkout differed from the commit they name.

    Args:
        known: the files.
        verified: the record of the step `verify`; None where it is not there.

    Raises:
        NotCommittedError: they were.
    """
    hashes = {} if verified is None else verified.hashes
    same = any(hashes.get(name) == digest for name, digest in known.files.items())
    dirty = list(dict.fromkeys([*known.dirty, *(verified.dirty if verified is not None and same else ())]))
    if dirty:
        shown = ", ".join(ascii(name)[1:-1] for name in dirty[:_SHOWN])
        more = f" and {len(dirty) - _SHOWN} more" if len(dirty) > _SHOWN else ""
        raise NotCommittedError(
            f"{known.version} was built of a checkout that differed from its commit: {shown}{more}",
            where=known.source,
            remedy="commit the changes; then build, verify and publish that commit on the stage",
        )


def known_of(content: Any, path: Path) -> Known:
    """Read what names a release; every name is one of its files, and no path.

    Raises:
        BadFileError: it does not name project, version and files with their hashes.
    """
    try:
        project, version = canonicalize_name(str(content["project"])), Version(str(content["version"]))
        files = {str(one["name"]): str(one["sha256"]).lower() for one in content["files"]}
        # A record names the commit itself, a release.json its source.
        commit = str(content["commit"] if "commit" in content else content["source"]["commit"])
    except (KeyError, TypeError, AttributeError, InvalidVersion) as error:
        raise _unread(path, f"a key is missing or of the wrong kind: {error}") from error
    told = content.get("source")
    dirty = told.get("dirty", ()) if isinstance(told, dict) else ()
    for name, digest in files.items():
        key = key_of(name)
        if key is None or key[:2] != (project, version) or Path(name).name != name:
            raise _unread(path, f"{name!r} is no file of {project} {version}")
        if not _DIGEST.fullmatch(digest):
            raise _unread(path, f"{name} has no SHA-256")
    if not files:
        raise _unread(path, "it names no file")
    return Known(
        project=project, version=version, commit=commit, files=files, source=path, dirty=_names(dirty, path)
    )


def refuse_other(known: Known, version: str, project: str | None) -> None:
    """Raise where what is known is of another release than the one that was asked for.

    Raises:
        UsageError: it is, or no version was asked for.
    """
    try:
        asked = Version(version)
    except InvalidVersion as error:
        raise UsageError(f"{version!r} is no version", where="VERSION", remedy="such as 1.2.3") from error
    if known.version != asked or (project is not None and known.project != canonicalize_name(project)):
        raise UsageError(
            f"{known.project} {known.version} is known, and {project or known.project} {asked} was asked for",
            where=known.source,
            remedy="name that version, or the release.json of the one you want with --release",
        )


def fetched(asker: Asker, known: Known, folder: Path) -> list[Artifact]:
    """Download the files of a release from a stage, and compare their hashes.

    Raises:
        NotOnStageError: the stage does not have one of them.
        OtherBytesError: it has other bytes.
        YankedError: it is yanked there.
        IndexAwayError: it does not answer.
    """
    listed = of_version(asker.listed(known.project), known.project, known.version)
    by_name = {one.filename: one for one in listed}
    _refuse_missing(asker, known, listed)
    _refuse_yanked(asker, [by_name[name] for name in sorted(known.files)])
    for name, digest in known.files.items():
        seen = by_name[name]
        if seen.sha256 and seen.sha256 != digest:
            raise OtherBytesError(
                f"{name} has other bytes on {asker.name}: sha256 {seen.sha256}, not {digest}",
                where=asker.index.simple,
                remedy="find out who changed it before anybody installs it",
            )
    return [
        artifact(fetch(asker, by_name[name], sha256=digest, folder=folder))
        for name, digest in sorted(known.files.items())
    ]


def _refuse_missing(asker: Asker, known: Known, listed: Sequence[Listed]) -> None:
    missing = sorted(set(known.files) - {one.filename for one in listed})
    if missing:
        raise NotOnStageError(
            f"{len(missing)} of {len(known.files)} files of {known.version} {_are(missing)} not there: "
            f"{', '.join(missing)}",
            where=f"{asker.name} ({asker.index.simple})",
            remedy=f"publish there first: spyre-ci package publish --index {asker.name}",
        )


def _refuse_yanked(asker: Asker, files: Sequence[Listed]) -> None:
    yanked = [f"{one.filename}{one.yanked and f' ({one.yanked})'}" for one in files if one.yanked is not None]
    if yanked:
        raise YankedError(
            f"{', '.join(yanked)} {_are(yanked)} yanked: somebody said that nobody is to install it",
            where=f"{asker.name} ({asker.index.simple})",
            remedy="raise the version; where it was yanked by mistake, take that back on the stage",
        )


def _names(told: Any, path: Path) -> tuple[str, ...]:
    if not isinstance(told, (list, tuple)):
        raise _unread(path, f"source.dirty is no list (seen: {told!r})")
    return tuple(map(str, told))


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _unread(path: Path, what: str) -> BadFileError:
    return BadFileError(what, where=path, remedy="name the record of what was published, or a release.json")
