"""What `spyre-ci init` would do in a checkout: looked at, decided, and shown or written."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci.config.load import parse_settings
from ci.core.errors import SettingsError, UsageError
from ci.init import files, noted
from ci.init.checkout import Place, read_sources
from ci.init.checkout import look as look_where
from ci.init.decide import Change, Merge, Status, decide, merge
from ci.init.detect import BackEnd, detect
from ci.init.files import Seen, Writing, write_all
from ci.init.noted import Notes
from ci.init.rendered import SETTINGS, Checkout, render
from ci.init.toolkit import Toolkit, choose
from test_selection.files import json_text, schema_name

# Where torch-spyre has its suite files.
SUITES = "tests/configs"
KIND = "init"
# A word and what is to be done, by what becomes of a file.
WORDS = {
    Status.CREATED: "new",
    Status.UNCHANGED: "as it is to be",
    Status.UPDATED: "renewed: nobody changed it",
    Status.MERGED: "merged: your changes stay, and what is new comes in",
    Status.KEPT: "left alone",
    Status.CONFLICT: "in conflict",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What people say on the command line.

    Attributes:
        device, package, toolkit, ref: names, where they are said.
        again: files that were removed and are made again.
        keep: files that stay as they are.
    """

    device: str | None = None
    package: str | None = None
    toolkit: str | None = None
    ref: str | None = None
    again: Sequence[str] = ()
    keep: Sequence[str] = ()

    def named(self) -> dict[str, str]:
        """The names that are said."""
        every = {"device": self.device, "package": self.package, "toolkit": self.toolkit, "ref": self.ref}
        return {name: value for name, value in every.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What would be done.

    Attributes:
        place: where the checkout stands.
        back_end: that it is of.
        toolkit: that its files call.
        changes: what becomes of each file, the notes last.
        notes: what was found, and what is assumed; a sentence each.
    """

    place: Place
    back_end: BackEnd
    toolkit: Toolkit
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def writes(self) -> list[Change]:
        """Files that would be written."""
        return [one for one in self.changes if one.writes]

    @property
    def conflicts(self) -> list[Change]:
        """Files that people have to look at."""
        return [one for one in self.changes if one.status is Status.CONFLICT]


def propose(
    folder: Path,
    wanted: Wanted,
    installed: tuple[str, str],
    *,
    merge: Merge = merge,
    show: Callable[[int], None] = lambda _: None,
) -> Proposal:
    """Look at a checkout and decide; nothing is written.

    Args:
        folder: of the checkout.
        wanted: what people say.
        installed: version and commit of the toolkit; the commit is empty where it is not known.
        merge: of three texts.
        show: is told how many files were looked at, now and then.

    Raises:
        MissingInputError, UsageError: the folder, a flag or the notes' file cannot be taken.
        BadFileError: the notes are none.
        OSError: a file cannot be read.
    """
    place = look_where(folder)
    before, notes_seen = _notes_of(place.folder)
    said = {**before.asked, **wanted.named()}
    toolkit = _toolkit(before, said, wanted, installed)
    sources = read_sources(place.folder, show=show)
    back_end = detect(sources, device=said.get("device"), package=said.get("package"))
    suites = SUITES if any((place.folder / SUITES).glob("*.yaml")) else ""
    ours = render(Checkout(back_end=back_end, place=place, toolkit=toolkit, suites=suites))
    _refuse_unknown(wanted, [*ours, *before.texts])
    changes = [
        _change(path, files.look(place.folder, path), text, before, wanted, merge=merge)
        for path, text in ours.items()
    ]
    after = _after(before, changes, ours, toolkit, said)
    changes.append(_change_of_notes(notes_seen, noted.to_text(after)))
    return Proposal(
        place=place,
        back_end=back_end,
        toolkit=toolkit,
        changes=tuple(changes),
        notes=(*back_end.notes, *place.notes, *_told(place, toolkit, before, ours)),
    )


def carry_out(proposal: Proposal) -> None:
    """Write what is proposed; files in conflict stay as they are.

    Raises:
        UsageError: a file changed since it was looked at.
        OSError: one cannot be written; none is then.
    """
    files = [Writing(path=one.path, seen=one.seen, text=one.text or "") for one in proposal.writes]
    write_all(proposal.place.folder, files)


def _notes_of(folder: Path) -> tuple[Notes, Seen]:
    found = files.look(folder, noted.FILE)
    if found.odd:
        raise UsageError(
            f"is no file of notes: {found.odd}", where=folder / noted.FILE, remedy="move it aside"
        )
    if found.text is None:
        return Notes(), found
    return noted.parse(found.text, folder / noted.FILE), found


def _toolkit(before: Notes, said: dict[str, str], wanted: Wanted, installed: tuple[str, str]) -> Toolkit:
    version, commit = installed
    fresh = choose(version, commit, repository=said.get("toolkit"), ref=wanted.ref)
    # A ref that somebody said holds for the toolkit that it was said to, not for the next one.
    if wanted.ref is None and "ref" in said:
        if before.toolkit == fresh.identity:
            return choose(version, commit, repository=said.get("toolkit"), ref=said["ref"])
        del said["ref"]
    return fresh


def _change(path: str, found: Seen, text: str, before: Notes, wanted: Wanted, *, merge: Merge) -> Change:
    return decide(
        path,
        found,
        text,
        before.texts.get(path),
        merge,
        keep=path in wanted.keep,
        again=path in wanted.again,
        wrong=_wrong_settings if path == SETTINGS else lambda _: "",
    )


def _wrong_settings(text: str) -> str:
    try:
        parse_settings(text, path=Path(SETTINGS), environ={}, base=Path())
    except SettingsError as error:
        return f"merged it would be no settings: {error.what.splitlines()[0]}"
    return ""


def _after(
    before: Notes,
    changes: Sequence[Change],
    ours: Mapping[str, str],
    toolkit: Toolkit,
    said: Mapping[str, str],
) -> Notes:
    # What this version has no more of stays noted: it may be there still, and another version have it again.
    texts = {path: text for path, text in before.texts.items() if path not in ours}
    texts |= {one.path: one.base for one in changes if one.base is not None}
    return Notes(toolkit=toolkit.identity, asked=said, texts=texts)


def _change_of_notes(found: Seen, text: str) -> Change:
    status = Status.CREATED if found.text is None else Status.UPDATED
    if found.text == text:
        status = Status.UNCHANGED
    return Change(
        path=noted.FILE, status=status, seen=found, text=text, why="what was written last; commit it"
    )


def _refuse_unknown(wanted: Wanted, known: Sequence[str]) -> None:
    for flag, names in (("--again", wanted.again), ("--keep", wanted.keep)):
        for name in names:
            if name not in known:
                raise UsageError(
                    f"{flag} names {name!r}, which is no file of spyre-ci init",
                    remedy=f"its files are {', '.join(dict.fromkeys(known))}",
                )


def _told(place: Place, toolkit: Toolkit, before: Notes, ours: Mapping[str, str]) -> list[str]:
    told = []
    if not place.is_root:
        told.append(
            "this is a folder of a repository, and GitHub and Jenkins look into the repository's own: "
            "settings alone are written"
        )
    elif toolkit.is_pinned:
        told.append(
            f"workflows call {toolkit.repository} at commit {toolkit.ref:.12}, which has to be there; "
            "--toolkit and --toolkit-ref name another"
        )
    else:
        told.append(
            f"workflows call {toolkit.repository} at {toolkit.ref}, which somebody can move; "
            "--toolkit-ref names a commit"
        )
    gone = sorted(before.texts.keys() - ours.keys())
    if gone and place.is_root:
        told.append(f"this version writes no more: {', '.join(gone)}; remove what you need no longer")
    return told


def difference(change: Change) -> str:
    """What a file would be, as a unified difference; of a conflict with the merge's marks."""
    if change.text is None or change.status is Status.UNCHANGED:
        return ""
    before = _lines(change.seen.text or "")
    name = "/dev/null" if change.seen.text is None else f"a/{change.path}"
    return "".join(difflib.unified_diff(before, _lines(change.text), name, f"b/{change.path}"))


def _lines(text: str) -> list[str]:
    """Lines with their ends; one without is marked as `diff` marks it."""
    lines = text.split("\n")
    whole = [f"{line}\n" for line in lines[:-1]]
    return whole + ([f"{lines[-1]}\n\\ No newline at end of file\n"] if lines[-1] else [])


def differences(changes: Sequence[Change]) -> Iterator[str]:
    """The differences of files that people read: notes are none of these."""
    for change in changes:
        if change.path != noted.FILE and (text := difference(change)):
            yield text


def lines(proposal: Proposal) -> Iterator[str]:
    """What becomes of each file, a line each; those that are right are counted."""
    right = [one for one in proposal.changes if one.status is Status.UNCHANGED]
    for change in proposal.changes:
        if change.status is not Status.UNCHANGED:
            why = f" ({change.why})" if change.why else ""
            yield f"{change.status:<9} {change.path}: {WORDS[change.status]}{why}"
    if right:
        yield f"{Status.UNCHANGED:<9} {len(right)} of {len(proposal.changes)} files are as they are to be"


def remedies(proposal: Proposal) -> Iterator[str]:
    """What people do about conflicts."""
    for change in proposal.conflicts:
        if change.text is None:
            yield f"{change.path}: {change.why}; move it aside, or leave it with --keep {change.path}"
        else:
            yield (
                f"{change.path}: {change.why}; put in of the difference what you want, then "
                f"`spyre-ci init --write --keep {change.path}`"
            )


def document(proposal: Proposal, *, written: bool, code: int) -> str:
    """The proposal for machines: one line of JSON."""
    toolkit, place = proposal.toolkit, proposal.place
    content = {
        "schema": schema_name(KIND),
        "written": written,
        "exit_code": code,
        "device": proposal.back_end.device,
        "package": proposal.back_end.package,
        "project": proposal.back_end.project,
        "branch": place.branch,
        "repository": place.repository,
        "toolkit": {"repository": toolkit.repository, "ref": toolkit.ref, "version": toolkit.version},
        "notes": list(proposal.notes),
        "files": [
            {
                "path": one.path,
                "status": one.status,
                "why": one.why,
                "difference": "" if one.path == noted.FILE else difference(one),
            }
            for one in proposal.changes
        ],
    }
    return json_text(content)
