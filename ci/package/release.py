"""`spyre-ci package release`: what was verified, written down as a release beside its records.

`release.json` names the source, the files, the image, the runs of PyTorch's tests and what the gate came to;
beside it stands SHA256SUMS. `spyre-ci prune` keeps what a release names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ci.core.addresses import without_credentials
from ci.core.errors import BadFileError, UsageError
from ci.core.findings import Finding, judged
from ci.core.provider import BY_DIGEST
from ci.core.text import listed
from ci.package.artifacts import artifacts_in
from ci.package.context import Context
from ci.package.gate import STEPS, Release, check_gate
from ci.package.records import VERIFY, find_record
from test_selection.files import read_json, write_json, write_text

_OF_A_RUN = ("run", "run_id", "url", "stage", "percent", "pytorch_sha")


def release_of(context: Context) -> Release:
    """The release that a checkout's dist folder holds.

    Raises:
        MissingInputError: nothing was built.
        BadFileError: files of more than one release are there.
    """
    project = context.project
    return Release(
        project=project.canonical,
        commit=project.source.commit,
        dirty=project.source.dirty,
        artifacts=artifacts_in(context.dist),
    )


def refuse_others(folder: Path, release: Release) -> None:
    """Refuse a folder that a whole is uploaded of and that holds more than what was verified.

    Raises:
        BadFileError: it does.
    """
    known = {one.path for one in release.artifacts}
    others = [path.name for path in sorted(folder.iterdir()) if path not in known and path.name[0] != "."]
    if others:
        what = f"contains more than sdist and wheels: {listed(others)}"
        raise BadFileError(what, where=folder, remedy="delete the others")


def check_release(context: Context, release: Release, index: str) -> list[Finding]:
    """What the gate of an index comes to.

    Raises:
        BadFileError: a record is damaged.
    """
    gate = context.index(index).gate
    records = {step: find_record(context.records, step) for step in (*STEPS[gate], VERIFY)}
    return list(check_gate(release, gate, records))


def write_release(
    context: Context,
    release: Release,
    findings: Sequence[Finding],
    *,
    image: str,
    runs: Sequence[Mapping[str, Any]],
) -> Path:
    """Write `release.json` and SHA256SUMS; the path of the former.

    Args:
        context: of the project.
        release: its files.
        findings: what the gate came to.
        image: it was tested on, name@sha256:…; empty: none.
        runs: of PyTorch's tests, as `read_run` has them.

    Raises:
        UsageError: the image is not named by its digest.
    """
    if image and not BY_DIGEST.fullmatch(image):
        raise UsageError(
            f"{image!r} does not name an image by its digest",
            where="--image",
            remedy="name it as registry/name@sha256:…, because a tag can change",
        )
    content = {
        "project": release.project,
        "version": str(release.version),
        "source": context.project.source.as_json(),
        "files": [one.as_json() for one in release.artifacts],
        "image": image,
        "runs": list(runs),
        "checks": [one.as_json() for one in findings],
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    path = context.records / "release.json"
    write_json(path, "release", content)
    sums = "".join(f"{one.sha256}  {one.filename}\n" for one in release.artifacts)
    write_text(context.records / "SHA256SUMS", sums)
    return path


def read_run(where: Path) -> dict[str, Any]:
    """What a release says of a run of PyTorch's tests, by its folder or its `summary.json`.

    Raises:
        MissingInputError: there is no summary.
        BadFileError: it is damaged.
    """
    path = where / "summary.json" if where.is_dir() else where
    content = read_json(path, "summary")
    try:
        identity = {key: content["identity"][key] for key in _OF_A_RUN}
        own = {"run": str(identity["run"]), "url": without_credentials(str(identity["url"]))}
        told = {key: content[key] for key in ("exit_code", "planned", "verdicts")}
    except (KeyError, TypeError) as error:
        raise BadFileError(
            f"a key is missing or of the wrong kind: {error}",
            where=path,
            remedy="report the run again: spyre-ci report --run-dir DIR",
        ) from error
    return {"identity": identity | own, **told}


def check_run(run: Mapping[str, Any]) -> Finding:
    """Check that a run of PyTorch's tests is green."""
    seen, green = f"{run['identity']['run']} ended with {run['exit_code']}", run["exit_code"] == 0
    return judged("PyTorch's tests", seen, holds=green, remedy="release a commit whose run is green")
