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
from ci.package.artifacts import Artifact, artifacts_in
from ci.package.gate import Release, check_gate, steps_of
from ci.package.records import records_in
from ci.package.wiring import Bench, index_of
from test_selection.files import read_json, write_json, write_text

KIND, FILE = "release", "release.json"
_SUMMARY = "summary.json"


def release_of(bench: Bench) -> Release:
    """The release that a checkout's dist folder holds.

    Raises:
        MissingInputError: nothing was built.
        BadFileError: files of more than one release are there.
    """
    source = bench.project.source
    return Release(
        project=bench.project.canonical,
        commit=source.commit,
        dirty=source.dirty,
        artifacts=artifacts_in(bench.dist),
    )


def refuse_others(folder: Path, artifacts: Sequence[Artifact]) -> None:
    """Refuse a folder that a whole is uploaded of and that holds more than what was verified.

    Raises:
        BadFileError: it does.
    """
    known = {one.path for one in artifacts}
    others = [path.name for path in sorted(folder.iterdir()) if path not in known and path.name[0] != "."]
    if others:
        raise BadFileError(
            f"holds more than sdist and wheels: {listed(others)}", where=folder, remedy="delete the others"
        )


def check_release(bench: Bench, release: Release, index: str) -> list[Finding]:
    """What the gate of an index comes to.

    Raises:
        BadFileError: a record is damaged.
    """
    gate = index_of(bench.package, index).gate
    return list(check_gate(release, gate, records_in(bench.records, steps_of(gate))))


def write_release(
    bench: Bench,
    release: Release,
    findings: Sequence[Finding],
    *,
    image: str,
    runs: Sequence[Mapping[str, Any]],
    now: datetime,
) -> Path:
    """Write `release.json` and SHA256SUMS; the path of the former.

    Args:
        bench: the project.
        release: its files.
        findings: what the gate came to.
        image: it was tested on, name@sha256:…; empty: none.
        runs: of PyTorch's tests, as `read_run` has them.
        now: the moment.

    Raises:
        UsageError: the image is not named by its digest.
    """
    if image and not BY_DIGEST.fullmatch(image):
        raise UsageError(
            f"{image!r} names no image by its digest",
            where="--image",
            remedy="name it as registry/name@sha256:…: a tag may be another image tomorrow",
        )
    content = {
        "project": release.project,
        "version": str(release.artifacts[0].version),
        "source": bench.project.source.as_json(),
        "files": [one.as_json() for one in release.artifacts],
        "image": image,
        "runs": list(runs),
        "checks": [one.as_json() for one in findings],
        "at": now.astimezone(UTC).isoformat(timespec="seconds"),
    }
    write_json(bench.records / FILE, KIND, content)
    sums = "".join(f"{one.sha256}  {one.filename}\n" for one in release.artifacts)
    write_text(bench.records / "SHA256SUMS", sums)
    return bench.records / FILE


def read_run(where: Path) -> dict[str, Any]:
    """What a release says of a run of PyTorch's tests, by its folder or its `summary.json`.

    Raises:
        MissingInputError: there is no summary.
        BadFileError: it is damaged.
    """
    path = where / _SUMMARY if where.is_dir() else where
    content = read_json(path, "summary")
    try:
        identity = {key: content["identity"][key] for key in ("run", "run_id", "url", "stage", "percent")}
        identity["url"] = without_credentials(str(identity["url"]))
        return {
            "identity": identity
            | {"run": str(identity["run"]), "pytorch_sha": content["identity"]["pytorch_sha"]},
            "exit_code": content["exit_code"],
            "planned": content["planned"],
            "verdicts": content["verdicts"],
        }
    except (KeyError, TypeError) as error:
        raise BadFileError(
            f"a key is missing or of the wrong kind: {error}",
            where=path,
            remedy="report the run again: spyre-ci report --run-dir DIR",
        ) from error


def check_run(run: Mapping[str, Any]) -> Finding:
    """Check that a run of PyTorch's tests is green."""
    name, code = run["identity"]["run"], run["exit_code"]
    return judged(
        "PyTorch's tests",
        f"{name} ended with {code}",
        holds=code == 0,
        remedy="release a commit whose run is green",
    )
