"""What a folder in a bucket holds, checked before a byte of it is moved; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ci.core.errors import BadFileError, NotWholeError
from ci.core.object_store import Held
from ci.jobs.parts import leads_out
from test_selection.files import schema_name

# The last object of a folder that was put: who finds it in force knows that the folder is whole.
MANIFEST = "spyre-ci-manifest.json"
# What a fetch keeps for itself in the folder it fills.
OWN = ".spyre-ci-fetch"
# Of a manifest with a hundred thousand files about twenty.
LARGEST_MANIFEST = 256 * 1024 * 1024
_LONGEST_PART = 255


class Sum(BaseModel):
    """What a file holds."""

    model_config = ConfigDict(frozen=True)

    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """What tells whether a folder in a bucket is whole; `whole` is false while it is being put."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    form: str = Field(default=schema_name("manifest"), alias="schema", pattern=r"^spyre-ci/manifest/1$")
    whole: bool
    files: dict[str, Sum]

    def as_bytes(self) -> bytes:
        """As it is put."""
        return self.model_dump_json(by_alias=True, indent=1).encode() + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A file that is to be fetched; `sha256` is empty where nobody told it."""

    name: str
    size: int
    etag: str
    sha256: str = ""


def check_names(names: Iterable[str], where: str) -> None:
    """Refuse names that lead out of a folder, or that cannot all be in one.

    Args:
        names: with `/` between their parts.
        where: what errors name: the bucket or the folder.

    Raises:
        BadFileError: the first of them that is refused, and why.
    """
    known = set(names)
    for name in sorted(known):
        above = {str(one) for one in PurePosixPath(name).parents}
        why = _fault(name) or ("is both a file and a folder" if above & known else "")
        if above & known:
            name = min(above & known)  # noqa: PLW2901  # it is the one that cannot be a file
        if why:
            raise BadFileError(
                f"the name {name!r} {why}",
                where=where,
                remedy="rename or remove it there; nothing was moved",
            )


def _fault(name: str) -> str:
    parts = name.split("/")
    if leads_out(name):
        return "leads out of the folder"
    if {"", "."} & set(parts):
        return "has an empty part"
    if not name.isprintable():
        return "has characters that are not printed"
    if max(len(part.encode()) for part in parts) > _LONGEST_PART:
        return f"has a part of more than {_LONGEST_PART} bytes"
    if parts[0] == OWN or name == MANIFEST:
        return "is one that transfers keep for themselves"
    return ""


def read_manifest(data: bytes, where: str) -> Manifest:
    """A manifest that `put` wrote.

    Raises:
        BadFileError: it is none.
    """
    try:
        return Manifest.model_validate_json(data)
    except ValidationError as error:
        raise BadFileError(
            f"is no manifest: {error.errors()[0]['msg']}",
            where=where,
            remedy="put the folder again with `spyre-ci job put`, or remove this object",
        ) from None


def wanted(held: Sequence[Held], manifest: Manifest | None, where: str) -> list[Wanted]:
    """What is to be fetched of a folder in a bucket.

    Args:
        held: every object of it.
        manifest: of the folder; None: nobody left one, so that what is there is taken as it is.
        where: its address.

    Raises:
        BadFileError: it is empty, or holds a name that is refused.
        NotWholeError: its manifest names what is not there, or was not finished.
    """
    there = {one.name: one for one in held if one.name != MANIFEST and not _shows_a_folder(one)}
    if manifest is not None:
        _check_whole(manifest, there, where)
        there = {name: there[name] for name in manifest.files}
    if not there:
        raise BadFileError(
            "holds no object", where=where, remedy="check the address: it names a folder, not one object"
        )
    check_names(there, where)
    sums = {} if manifest is None else manifest.files
    return [
        Wanted(name=name, size=one.size, etag=one.etag, sha256=sums[name].sha256 if name in sums else "")
        for name, one in sorted(there.items())
    ]


def _shows_a_folder(one: Held) -> bool:
    """Whether it is one of the empty objects that consoles make to show a folder."""
    return not one.size and (not one.name or one.name.endswith("/"))


def _check_whole(manifest: Manifest, there: dict[str, Held], where: str) -> None:
    if not manifest.whole:
        raise NotWholeError(
            "a put to this folder is under way or broke off",
            where=where,
            remedy="wait for `spyre-ci job put`, or do it again",
        )
    others = [
        name for name, told in manifest.files.items() if name not in there or there[name].size != told.size
    ]
    if others:
        raise NotWholeError(
            f"{len(others)} of {len(manifest.files)} files are not as the manifest tells, like {others[0]!r}",
            where=where,
            remedy="put the folder again with `spyre-ci job put`",
        )
