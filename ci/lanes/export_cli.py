"""`spyre-ci lanes export`: the cadence of lanes as the triggers of the CIs that begin them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.config.load import Settings
from ci.core.errors import UsageError
from ci.lanes.export import (
    KIND,
    TriggersDifferError,
    Workflow,
    as_yaml,
    left_out,
    schedules_of,
    triggers,
    workflows,
)
from test_selection.files import document_text, read_json, write_json
from test_selection.yaml_reader import load_document


class Target(StrEnum):
    """Whose triggers they are."""

    GITHUB = "github"
    JENKINS = "jenkins"


def export(
    ctx: typer.Context,
    target: Annotated[Target, typer.Argument(help="Whose triggers.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write Jenkins' triggers there.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check",
            metavar="PATH",
            help="Compare with Jenkins' file, or a folder of workflows; ends with 1 where they differ.",
        ),
    ] = None,
    repository: Annotated[
        str | None, typer.Option("--repository", help="Only workflows of this one: owner/name.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the cadence of lanes that a CI begins as that CI's own triggers, or compare them with its files.

    Example: spyre-ci lanes export jenkins --out triggers.json

    Example: spyre-ci lanes export github --check .github/workflows
    """
    settings = settings_from_context(ctx)
    if target is Target.JENKINS:
        _jenkins(settings, out, check, as_json=as_json)
    else:
        if out is not None:
            raise UsageError(
                "a workflow is written by people, who put its schedule there",
                where="--out",
                remedy="take what is printed, and hold it to the settings with --check .github/workflows",
            )
        _github(settings, check, repository, as_json=as_json)
    if not any(
        one.enabled and one.begun_by == "ci" and one.where.kind == target.value
        for one in settings.model.lanes.values()
    ):
        typer.echo(
            f"no lane is begun by {'GitHub' if target is Target.GITHUB else 'Jenkins'} itself", err=True
        )
    for name, why in left_out(settings.model.lanes, settings.model.stage).items():
        typer.echo(f"lane {name} {why}", err=True)


def _jenkins(settings: Settings, out: Path | None, check: Path | None, *, as_json: bool) -> None:
    content = triggers(settings.model.lanes, time_zone=settings.model.lane_worker.time_zone)
    if check is not None:
        there = read_json(check, KIND)
        _same({key: there.get(key) for key in content}, content, check, f"jenkins --out {check}")
    elif out is not None:
        write_json(out, KIND, content)
    if as_json or (check is None and out is None):
        typer.echo(document_text(KIND, content))


def _github(settings: Settings, check: Path | None, repository: str | None, *, as_json: bool) -> None:
    named = workflows(
        settings.model.lanes, time_zone=settings.model.lane_worker.time_zone, stage=settings.model.stage
    )
    repositories = sorted({one.repository for one in named})
    if repository is not None and repository not in repositories:
        raise UsageError(
            f"no lane has a workflow of {repository!r}",
            where="--repository",
            remedy=f"lanes name {', '.join(repositories) or 'no workflow at all'}",
        )
    found = [one for one in named if repository in {None, one.repository}]
    if check is not None:
        _check_workflows(found, check)
    if as_json:
        typer.echo(document_text("workflows", {"workflows": [asdict(one) for one in found if one.lanes]}))
    elif check is None and (shown := [as_yaml(one) for one in found if one.lanes]):
        typer.echo("\n\n".join(shown))


def _check_workflows(found: Sequence[Workflow], folder: Path) -> None:
    """Compare schedules with those of the files in a folder, also of those that are to have none.

    Raises:
        UsageError: the workflows are of several repositories, and a folder is of one.
        TriggersDifferError: one has other schedules.
    """
    repositories = sorted({one.repository for one in found})
    if len(repositories) > 1:
        raise UsageError(
            f"lanes have workflows of {', '.join(repositories)}, and a folder has those of one repository",
            where="--check",
            remedy="say which with --repository",
        )
    for one in found:
        path = folder / one.file
        if not one.schedules and not path.exists():
            continue  # it begins nothing
        there = [asdict(entry) for entry in schedules_of(load_document(path).content)]
        _same(there, [asdict(entry) for entry in one.schedules], path, "github")


def _same(there: Any, wanted: Any, path: Path, words: str) -> None:
    if there != wanted:
        raise TriggersDifferError(
            f"has {json.dumps(there)}, and the settings say {json.dumps(wanted)}",
            where=path,
            remedy=f"take what `spyre-ci lanes export {words}` writes, or change the lanes",
        )
