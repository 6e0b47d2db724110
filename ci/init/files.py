"""The files of a checkout: rendered, compared with what is there, and written where they are missing."""

from __future__ import annotations

import difflib
import errno
import hashlib
import io
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from ci.config.report_model import Report
from ci.core.errors import FileSystemError, UsageError
from ci.init.checkout import WORKFLOW, Place
from ci.init.detect import BackEnd
from ci.init.toolkit import Toolkit
from ci.runner.compatibility import torch_pin
from ci.runner.inventory import EMULATED_DEVICE
from test_selection.files import atomic_writer, read_bounded

SETTINGS, JENKINSFILE = "spyre-ci.yaml", "Jenkinsfile"
_WORKFLOWS = ".github/workflows/"
# In the order they are shown; the first two are all that `--minimal` writes.
TEMPLATES = {
    SETTINGS: "spyre-ci.yaml",
    WORKFLOW: "pull-request.yml",
    f"{_WORKFLOWS}spyre-ci-label.yml": "label.yml",
    f"{_WORKFLOWS}spyre-ci-nightly.yml": "nightly.yml",
    f"{_WORKFLOWS}spyre-ci-comment.yml": "comment.yml",
    JENKINSFILE: "Jenkinsfile",
}
MINIMAL = list(TEMPLATES)[:2]
# Where torch-spyre has its suite files.
SUITES = "tests/configs"
MOST_BYTES = 1 << 20
_NO_NEWLINE = "\\ No newline at end of file\n"
# What calls the toolkit: a workflow's `uses`, with its version; a Jenkinsfile's address and commit.
_CALL = re.compile(
    r"(?:uses: \S+(?P<workflow>/\.github/workflows/[\w-]+\.yml)@|(?P<key>url|commit): ')[^\n]*"
)


class Status(StrEnum):
    """What becomes of a file; the values are those of `--json`."""

    CREATED = "created"
    OVERWRITTEN = "overwritten"
    UNCHANGED = "unchanged"
    DIFFERS = "differs"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of a file.

    Attributes:
        path: in the checkout.
        status: what becomes of it.
        text: what this version writes.
        current: what is there; None where nothing is.
        why: it is blocked, or its difference is not shown.
    """

    path: str
    status: Status
    text: str
    current: str | None = None
    why: str = ""

    @property
    def writes(self) -> bool:
        """Whether `--write` writes it."""
        return self.status in {Status.CREATED, Status.OVERWRITTEN}

    @property
    def difference(self) -> str:
        """From what is there to what this version writes, as a unified diff of Git's form."""
        if self.why:
            return ""
        current = "" if self.current is None else self.current
        names = ("/dev/null" if self.current is None else f"a/{self.path}", f"b/{self.path}")
        before, after = (io.StringIO(one).readlines() for one in (current, self.text))
        lines = difflib.unified_diff(before, after, *names)
        return "".join(one if one.endswith("\n") else f"{one}\n{_NO_NEWLINE}" for one in lines)


def render(
    back_end: BackEnd, place: Place, toolkit: Toolkit, *, minimal: bool = False, suites: str = ""
) -> dict[str, str]:
    """The texts by path.

    Below a repository's own folder there are settings alone: GitHub and Jenkins look nowhere else.

    Args:
        back_end: of the checkout.
        place: where it stands.
        toolkit: that is called.
        minimal: settings and one workflow.
        suites: the checkout's folder of suite files; empty where it has none.
    """
    project = back_end.project or back_end.package
    values = {
        "project": project,
        "package": _word(back_end.package),
        "device": _word(back_end.device),
        "is_spyre": back_end.device == EMULATED_DEVICE,
        "toplevel": back_end.package != re.sub(r"[-.]", "_", project),
        "repository": place.repository
        if place.repository != Report.model_fields["repository"].default
        else "",
        "branch": place.branch,
        "suites": suites,
        "pin": torch_pin(),
        "toolkit": toolkit,
        # As Jenkins finds a tag; a branch has its own name there.
        "toolkit_commit": f"refs/tags/{toolkit.ref}" if re.match(r"v\d", toolkit.ref) else toolkit.ref,
        "uses": lambda workflow: _uses(toolkit, workflow),
        # Projects start their nights at different minutes, each always at the same.
        "minute": hashlib.sha256(project.encode()).digest()[0] % 60,
    }
    paths = [SETTINGS] if not place.is_root else MINIMAL if minimal else TEMPLATES
    return {path: _environment().get_template(f"{TEMPLATES[path]}.j2").render(values) for path in paths}


def compare(
    folder: Path, texts: Mapping[str, str], *, overwrite: Collection[str] = (), toolkit_named: bool = False
) -> list[Change]:
    """What becomes of each file.

    Args:
        folder: of the checkout.
        texts: rendered, by path.
        overwrite: files that are replaced.
        toolkit_named: the toolkit was named, so files are to call that one; else those that are there keep
            the commit they call, which Dependabot renews.

    Raises:
        UsageError: `overwrite` names a file that is not written.
    """
    for name in overwrite:
        if name not in texts:
            raise UsageError(f"--overwrite names {name!r}", remedy=f"name one of {', '.join(texts)}")
    return [_compared(folder, path, text, path in overwrite, toolkit_named) for path, text in texts.items()]


def _compared(folder: Path, path: str, text: str, overwrite: bool, toolkit_named: bool) -> Change:
    if why := _blocked(folder, path):
        return Change(path=path, status=Status.BLOCKED, text=text, why=why)
    if not (folder / path).exists():
        return Change(path=path, status=Status.CREATED, text=text)
    status = Status.OVERWRITTEN if overwrite else Status.DIFFERS
    try:
        current = read_bounded(folder / path, MOST_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError as error:
        if error.errno == errno.EFBIG:
            return Change(path=path, status=status, text=text, why="too large to show")
        return Change(path=path, status=Status.BLOCKED, text=text, why=f"cannot be read: {error.strerror}")
    wanted = text if toolkit_named else _with_calls_of(current, text)
    return Change(
        path=path, status=Status.UNCHANGED if current == wanted else status, text=wanted, current=current
    )


def _blocked(folder: Path, path: str) -> str:
    """Why a file is neither read nor written: nothing behind a link is."""
    for part in (*reversed((folder / path).relative_to(folder).parents[:-1]), Path(path)):
        here = folder / part
        if here.is_symlink():
            return f"{part} is a link"
        if here.exists() and not (here.is_file() if str(part) == path else here.is_dir()):
            return f"{part} is not a {'file' if str(part) == path else 'folder'}"
    return ""


def _with_calls_of(current: str, text: str) -> str:
    """The text with each call of the toolkit as the file that is there has it."""
    calls = {one["workflow"] or one["key"]: one[0] for one in _CALL.finditer(current)}
    return _CALL.sub(lambda one: calls.get(one["workflow"] or one["key"], one[0]), text)


def write(folder: Path, changes: Collection[Change]) -> None:
    """Write what is to be written; a file that appeared meanwhile is not overwritten.

    Raises:
        UsageError: such a file is there.
        FileSystemError: one cannot be written; those before it are, and the next call writes the rest.
    """
    written = list[str]()
    for change in changes:
        if not change.writes:
            continue
        before = f"; written before: {', '.join(written)}" if written else "; nothing was written before"
        path = folder / change.path
        if change.status is Status.CREATED and path.exists():
            raise UsageError(f"appeared meanwhile{before}", where=path, remedy="call `spyre-ci init` again")
        try:
            with atomic_writer(path) as stream:
                stream.write(change.text.encode())
        except OSError as error:
            remedy = "check the folder's rights and its disk, then call `spyre-ci init --write` again"
            said = f"cannot be written: {error.strerror or error}{before}"
            raise FileSystemError(said, where=path, remedy=remedy) from error
        written.append(change.path)


def _uses(toolkit: Toolkit, workflow: str) -> str:
    """The line that calls a workflow of the toolkit."""
    line = f"uses: {toolkit.repository}/.github/workflows/{workflow}@{toolkit.ref}"
    if not toolkit.is_pinned:
        return f"{line} # zizmor: ignore[unpinned-uses] a tag or branch, as no commit is known"
    # As Dependabot writes it, which then renews both.
    return f"{line} # v{toolkit.version}"


def _word(name: str) -> str:
    """A name in YAML, quoted where YAML takes it for something else."""
    return name if yaml.safe_load(name) == name else json.dumps(name)


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("ci.init"),
        undefined=StrictUndefined,
        # `{{` is GitHub's.
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  # not for a page
    )
