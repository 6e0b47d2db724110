"""`spyre-ci job`: jobs on Kubernetes and OpenShift, from a spec to what they left."""

from __future__ import annotations

import os
import secrets
import sys
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TextIO, cast

import typer
from rich.console import Console

from ci.config import Settings
from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.core.addresses import shown
from ci.core.errors import EXIT_OK, UsageError
from ci.core.findings import PASSED, Finding
from ci.core.object_store import Bucket
from ci.core.provider import detect, in_log
from ci.core.text import counted, iso_utc
from ci.core.workflow_commands import Defused
from ci.jobs.access import configuration_of
from ci.jobs.cluster import Cluster, open_cluster
from ci.jobs.cluster_cli import InContext, Namespace, cancel, list_jobs, logs, watch
from ci.jobs.labels import job_name
from ci.jobs.spec import read_spec
from ci.jobs.transfer import Moved, amount, fetch, put
from ci.jobs.validate.checks import (
    About,
    check_all,
    check_out,
    counts,
    digest,
    exit_code,
    rows,
    table,
    unasked,
    write_report,
)
from ci.jobs.validate.facts import Asked, Facts, Node, card_nodes, name_of
from ci.jobs.validate.fetch import facts_of
from ci.jobs.validate.probing import try_cards, try_image
from test_selection.files import document_text

# The stage that holds no tests yet: a cluster is validated in it.
FIRST_STAGE = 0
HOUR_S = 3600.0
PULL_S = 300.0
NO_IMAGE = "name one in the spec (image.name), or with --image"
# What reads a spec or reports a run stands above the room and is registered there.
app = typer.Typer(help="Jobs on Kubernetes and OpenShift.", no_args_is_help=True)


def fetch_verb(
    source: Annotated[str, typer.Argument(help="s3://bucket/prefix", metavar="SOURCE")],
    folder: Annotated[Path, typer.Argument(help="that is filled; made where it is not there")],
    json_output: Json = False,
) -> None:
    """Fetch all that is below an address of a bucket into a folder; what is there is not fetched again.

    Example: spyre-ci job fetch s3://models/small model
    """
    bucket = Bucket(source, where="SOURCE")
    _tell("fetched", fetch(bucket, folder, say=_say, clock=time.monotonic), json_output=json_output)


def put_verb(
    folder: Annotated[Path, typer.Argument(help="whose files are put")],
    to: Annotated[str, typer.Argument(help="s3://bucket/prefix", metavar="TO")],
    json_output: Json = False,
) -> None:
    """Put a folder below an address of a bucket; what is there is left, and a manifest is put last.

    Example: spyre-ci job put results s3://models/results
    """
    bucket = Bucket(to, where="TO")
    _tell("put", put(folder, bucket, say=_say, clock=time.monotonic), json_output=json_output)


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _tell(word: str, moved: Moved, *, json_output: bool) -> None:
    if json_output:
        typer.echo(document_text("job-transfer", asdict(moved)))
        return
    files = counted(moved.files, "file")
    typer.echo(
        f"{word} {moved.moved} of {files} ({amount(moved.size)}); the others were there already"
        if moved.moved < moved.files
        else f"{word} {files} ({amount(moved.size)})"
    )


def validate(  # typer makes options of them
    ctx: typer.Context,
    spec: Annotated[
        Path | None, typer.Option("--spec", metavar="FILE", help="Spec of a job that is to run there.")
    ] = None,
    stage: Annotated[int, typer.Option(help="Row of the roll-out whose cards are wanted.")] = FIRST_STAGE,
    image: Annotated[str | None, typer.Option(help="Image to try; default: the spec's.")] = None,
    namespace: Namespace = None,
    context: InContext = None,
    preflight: Annotated[
        bool, typer.Option("--preflight/--no-preflight", help="Pull the image and check every card.")
    ] = True,
    preflight_timeout: Annotated[
        float, typer.Option(help="Seconds after which a node that is silent has not answered.")
    ] = 900,
    out: Annotated[Path | None, typer.Option("--out", help="Report to write and sign: .html or .md.")] = None,
    json_output: Json = False,
) -> None:
    """Check a cluster for a stage: nodes, operator, cards, storage, quota, rights; then try every card.

    Example: spyre-ci job validate --stage 1 --spec examples/tests-stage1.yaml --out validation.html
    """
    check_out(out)
    if not 0 < preflight_timeout <= HOUR_S:
        raise UsageError(
            f"--preflight-timeout is {preflight_timeout:g}",
            remedy=f"give seconds above 0, {HOUR_S:,g} at most",
        )
    settings = settings_from_context(ctx)
    cluster = open_cluster(os.environ, namespace=namespace, context=context)
    asked = _asked(settings, cluster, spec, stage, image)
    console = _console(stderr=json_output)
    facts = facts_of(cluster, asked)
    nodes = card_nodes(facts, asked)
    found = check_all(facts, asked)
    if preflight:
        found += _tried(cluster, asked, nodes, preflight_timeout, settings.model.run.preflight_timeout_s)
    if out is not None:
        address = str(configuration_of(os.environ, context=context)[0].host)
        write_report(out, _about(asked, facts, address), found, nodes)
        console.print(f"report: {out}", markup=False, highlight=False, soft_wrap=True)
    if json_output:
        content = {"digest": digest(found), "findings": rows(found)}
        typer.echo(document_text("job-validate", content))
    else:
        console.print(table(found))
        console.print(counts(found), markup=False, highlight=False)
    if (code := exit_code(found)) != EXIT_OK:
        raise typer.Exit(code)


def _asked(
    settings: Settings, cluster: Cluster, spec_file: Path | None, stage: int, image: str | None
) -> Asked:
    row = settings.model.stages.get(stage)
    if row is None:
        known = ", ".join(map(str, sorted(settings.model.stages)))
        raise UsageError(f"there is no stage {stage}", where="--stage", remedy=f"the stages are {known}")
    spec = None if spec_file is None else read_spec(spec_file)
    return Asked(
        stage=stage,
        cards=row.cards,
        namespace=cluster.namespace,
        spec=spec,
        image=image or (spec.image.name if spec else None) or "",
    )


def _tried(
    cluster: Cluster, asked: Asked, nodes: list[Node], timeout_s: float, card_s: float
) -> list[Finding]:
    """The image's pull, and then the cards' checks."""
    if not asked.image:
        return [unasked(check, "no image is known", NO_IMAGE) for check in ("image", "preflight")]
    name = job_name("validate", secrets.token_hex(8))
    pulled = try_image(cluster, asked, name, timeout_s=PULL_S)
    if pulled.state != PASSED:
        return [pulled, unasked("preflight", "the image was not pulled", "mend that first")]
    return [pulled, *try_cards(cluster, asked, nodes, name, timeout_s=timeout_s, card_s=card_s)]


def _about(asked: Asked, facts: Facts, address: str) -> About:
    versions = {"Kubernetes": str(facts.version.get("gitVersion", ""))}
    cluster = shown(address)
    for one in facts.cluster_versions:
        versions["OpenShift"] = str(((one.get("status") or {}).get("desired") or {}).get("version", ""))
        cluster += f" ({(one.get('spec') or {}).get('clusterID') or name_of(one)})"
    for one in facts.policies:
        plugin = (one.get("spec") or {}).get("devicePlugin") or {}
        versions["Spyre device plugin"] = str(plugin.get("version") or "not said")
    versions["spyre-ci"] = version("spyre-ci")
    return About(
        cluster=cluster,
        namespace=asked.namespace,
        versions=versions,
        at=iso_utc(time.time()),
        stage=f"{asked.stage}: {asked.cards:,} cards",
        image=asked.image,
    )


def _console(*, stderr: bool) -> Console:
    """Where words go; what a cluster says is no command to the CI whose log it is."""
    terminal = False if in_log(os.environ) else None
    if detect(os.environ, epoch_s=0).name != "github":
        return Console(stderr=stderr, force_terminal=terminal)
    stream = Defused(sys.stderr if stderr else sys.stdout)
    return Console(file=cast("TextIO", stream), force_terminal=terminal)


app.command()(watch)
app.command()(logs)
app.command()(cancel)
app.command("list")(list_jobs)
app.command()(validate)
app.command("fetch")(fetch_verb)
app.command("put")(put_verb)
