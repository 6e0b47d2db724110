"""`spyre-ci init`: settings, workflows and a Jenkinsfile in a back end's checkout, shown before written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ci.config import Settings
from ci.config.load import parse_settings
from ci.core.errors import EXIT_OK, EXIT_TEST_FAILED, UsageError
from ci.core.text import counted, plain
from ci.init.checkout import WORKFLOW, Place, find_place
from ci.init.detect import detect
from ci.init.files import SETTINGS, SUITES, Change, Status, compare, render, write
from ci.init.first_run import describe
from ci.init.toolkit import Toolkit, choose, installed
from ci.runner.compatibility import back_end_missing, torch_excluded, torch_pin
from ci.steps import options
from test_selection.files import document_text

VERBS = {
    Status.CREATED: "would create",
    Status.OVERWRITTEN: "would overwrite",
    Status.UNCHANGED: "up to date:",
    Status.DIFFERS: "differs, left as it is:",
    Status.BLOCKED: "cannot write",
}
DONE = {Status.CREATED: "created", Status.OVERWRITTEN: "overwrote"}


def init(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="The back end's checkout.")] = Path(),
    write_files: Annotated[bool, typer.Option("--write", help="Create the files that are missing.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit code 1 where a file is missing or, settings aside, differs."),
    ] = False,
    minimal: Annotated[
        bool, typer.Option("--minimal", help="Settings and the workflow of pull requests alone.")
    ] = False,
    overwrite: Annotated[
        list[str] | None,
        typer.Option("--overwrite", metavar="FILE", help="Replace this file, too; may be given again."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Name that PrivateUse1 gets; default: as the sources say."),
    ] = None,
    package: Annotated[
        str | None,
        typer.Option("--package", help="Package that registers it; default: as the project says."),
    ] = None,
    toolkit: Annotated[
        str | None,
        typer.Option("--toolkit", metavar="OWNER/NAME", help="Repository that workflows call."),
    ] = None,
    toolkit_ref: Annotated[
        str | None,
        typer.Option("--toolkit-ref", metavar="REF", help="Commit of it; default: that of this spyre-ci."),
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Set up a back end's checkout: settings, workflows and a Jenkinsfile.

    Without --write nothing is written, only shown. Existing files are not changed; their difference to what
    this version writes is shown. Nothing of the checkout is imported or run.

    Example: spyre-ci init --minimal
    """
    if write_files and check:
        raise UsageError("--write and --check are both given", remedy="leave one of them out")
    context = options.make_context(ctx, {}, json_output=json_output)
    place = find_place(folder)
    with context.console.status("reading the checkout"):
        back_end = detect(place.folder, device=device, package=package)
    chosen = choose(*installed(), repository=toolkit, ref=toolkit_ref)
    suites = SUITES if any((place.folder / SUITES).glob("*.yaml")) else ""
    texts = render(back_end, place, chosen, minimal=minimal, suites=suites)
    named = toolkit is not None or toolkit_ref is not None
    changes = compare(place.folder, texts, overwrite=overwrite or (), toolkit_named=named)
    settings = _settings(place.folder, changes[0])
    if write_files:
        write(place.folder, changes)
    content: dict[str, Any] = {
        "written": write_files,
        "exit_code": EXIT_TEST_FAILED if _is_wrong(changes, check=check) else EXIT_OK,
        "device": back_end.device,
        "package": back_end.package,
        "project": back_end.project,
        "branch": place.branch,
        "repository": place.repository,
        "toolkit": {"repository": chosen.repository, "ref": chosen.ref, "version": chosen.version},
        "notes": [*back_end.notes, *place.notes, _calls(place, chosen)],
        "warnings": _warnings(place.folder, settings.model.device.name),
        "first_pull_request": [*describe(settings, [*texts])] if _has_workflow(changes) else [],
        "files": [
            {"path": one.path, "status": one.status, "why": one.why, "difference": one.difference}
            for one in changes
        ],
    }
    if json_output:
        typer.echo(document_text("init", content))
    else:
        for line in _lines(changes, content):
            # Files of a checkout hold neither markup nor a terminal's commands.
            context.console.print(Text(plain(line)), soft_wrap=True)
    raise typer.Exit(content["exit_code"])


def _settings(folder: Path, change: Change) -> Settings:
    """The settings as they will be: those that are there, or those that are proposed.

    Raises:
        SettingsError: those that are there are not valid.
    """
    text = change.text if change.writes or change.current is None else change.current
    return parse_settings(text, path=folder / SETTINGS, environ={}, base=folder)


def _is_wrong(changes: Sequence[Change], *, check: bool) -> bool:
    """Whether the exit code is 1; settings are the project's own, so theirs may differ."""
    return any(
        one.status is Status.BLOCKED
        or (check and (one.writes or (one.status is Status.DIFFERS and one.path != SETTINGS)))
        for one in changes
    )


def _has_workflow(changes: Sequence[Change]) -> bool:
    """Whether pull requests will run anything: their workflow is there, or is to be written."""
    return any(one.path == WORKFLOW and one.status is not Status.BLOCKED for one in changes)


def _calls(place: Place, toolkit: Toolkit) -> str:
    calls = f"new files call {toolkit.repository} at {toolkit.ref}"
    if not place.is_root:
        return "a folder below the repository's own gets settings alone: GitHub and Jenkins look only there"
    if toolkit.is_pinned:
        return f"{calls}: that commit has to be on GitHub"
    return f"{calls}, a tag or branch that can be moved; --toolkit-ref names a commit"


def _warnings(folder: Path, device: str) -> list[str]:
    """What will go wrong in a run, each with its remedy."""
    missing = back_end_missing(device, os.environ)
    found = [*torch_excluded(folder, torch_pin()), *([missing] if missing else [])]
    return [f"{one.message}; {one.remedy}" for one in found]


def _lines(changes: Sequence[Change], content: Mapping[str, Any]) -> Iterator[str]:
    """What is shown to people."""
    written = content["written"]
    words = VERBS | (DONE if written else {})
    for change in changes:
        yield f"{words[change.status]} {change.path}{change.why and ': '}{change.why}"
        if not (written and change.writes) and change.difference:
            yield change.difference.rstrip("\n")
    yield from (f"note: {one}" for one in content["notes"])
    yield from (f"warning: {one}" for one in content["warnings"])
    yield from content["first_pull_request"]
    if count := sum(one.writes for one in changes):
        yield f"{counted(count, 'file')} {'written' if written else 'to write: --write writes them'}"
    else:
        same = sum(one.status is Status.UNCHANGED for one in changes)
        yield f"{same} of {counted(len(changes), 'file')} up to date"
