"""`spyre-ci package release`: everything that proves a release, written beside its records.

`release.json` names the source, the files, the image, torch, the runs and what the gates came to; beside it
stand the SBOM (CycloneDX 1.6 in JSON, the same for the same release), SHA256SUMS and the in-toto statement.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ci.config.model import SettingsModel
from ci.config.package_model import Gate
from ci.core.addresses import of_repository
from ci.core.errors import BadFileError, CommandError, MissingInputError, UsageError
from ci.core.provider import BY_DIGEST, detect
from ci.package import gates
from ci.package.artifacts import Artifact, artifacts_in
from ci.package.evidence import records_in, run_from_json, run_to_json
from ci.package.records import BUILD, VERIFY, Record
from ci.package.statement import envelope_of, statement_of
from ci.package.wiring import Bench, read_named
from test_selection.files import read_json, write_json, write_text

NAMESPACE = uuid.UUID("0c5f1c9e-0d0b-5a39-8f0c-6c1d5f6b7a21")
KIND, FILE = "release", "release.json"
SIGNING_KEY = "SPYRE_CI_SIGNING_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a release is proven with.

    Attributes:
        runs: of PyTorch's tests.
        image: it was tested on, name@sha256:…; empty: none.
        overrides: checks somebody answers for.
    """

    runs: Sequence[gates.Run] = ()
    image: str = ""
    overrides: Sequence[gates.Override] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a gate is judged on.

    Attributes:
        model: the settings, for the stage in force.
        project: its canonical name.
        records: folder of what each step noted.
        commit: that is published.
        dirty: files of the checkout that differ from it.
    """

    model: SettingsModel
    project: str
    records: Path
    commit: str
    dirty: Sequence[str] = ()


def ground_of(bench: Bench) -> Ground:
    """What gates judge a checkout on."""
    source = bench.project.source
    return Ground(
        model=bench.settings.model,
        project=bench.project.canonical,
        records=bench.records,
        commit=source.commit,
        dirty=source.dirty,
    )


def write_release(bench: Bench, proof: Proof, gate: Gate, *, at: datetime) -> Path:
    """Write `release.json` and what stands beside it; its path.

    Args:
        bench: the project.
        proof: what it is proven with.
        gate: the one its overrides answer to.
        at: now.

    Raises:
        MissingInputError: nothing was built.
        UsageError: the image is not named by digest, or an override answers for nothing.
        SettingsError: the signing key cannot be used.
    """
    if proof.image and not BY_DIGEST.fullmatch(proof.image):
        raise UsageError(
            f"{proof.image!r} names no image by its digest",
            where="--image",
            remedy="name it as registry/name@sha256:…: a tag may be another image tomorrow",
        )
    artifacts = artifacts_in(bench.dist)
    records = records_in(bench.records)
    judgement = judge_on(ground_of(bench), gate, proof, artifacts)
    content = _content(bench, artifacts, records, proof, judgement)
    content["at"] = at.astimezone(UTC).isoformat(timespec="seconds")
    provider = detect(os.environ, epoch_s=at.timestamp())
    statement = statement_of(content, provider.url or f"spyre-ci/{provider.name}")
    folder = bench.records
    stem = f"{artifacts[0].name}-{artifacts[0].version}"
    # All of it is made before any of it is written, or sums would stand beside another release.json.
    bill, envelope = _bill(bench, artifacts, records, at), envelope_of(statement, _key(bench))
    write_text(folder / f"{stem}.cdx.json", bill)
    write_text(folder / f"{stem}.intoto.json", envelope)
    write_json(folder / FILE, KIND, content)
    write_text(folder / "SHA256SUMS", "".join(f"{one.sha256}  {one.filename}\n" for one in artifacts))
    return folder / FILE


def judge_on(ground: Ground, gate: Gate, proof: Proof, artifacts: Sequence[Artifact]) -> gates.Judgement:
    """What a gate comes to for files of a commit.

    Raises:
        UsageError: an override answers for nothing, or the stage in force is not in the roll-out.
        BadFileError: a record is damaged.
    """
    model = ground.model
    if model.stage not in model.stages:
        raise UsageError(
            f"there is no stage {model.stage}", where="stage (settings)", remedy="set one there is"
        )
    wanted = gates.Wanted(
        gate=gate,
        project=ground.project,
        version=str(artifacts[0].version),
        files={one.filename: one.sha256 for one in artifacts},
        commit=ground.commit,
        dirty=ground.dirty,
        stage=model.stage,
        percent=model.stages[model.stage].percent,
        image=proof.image,
    )
    return gates.judge(wanted, records_in(ground.records), proof.runs, proof.overrides)


def pass_gate(ground: Ground, index: str, gate: Gate, artifacts: Sequence[Artifact]) -> gates.Judgement:
    """What an index's gate comes to for files that are to be published; it is open.

    Args:
        ground: what it is judged on.
        index: its name.
        gate: of the index.
        artifacts: the files.

    Raises:
        GateError: the gate is shut, or release.json is of other files.
        MissingInputError: the gate wants a release.json, and there is none.
        BadFileError: a record is damaged.
    """
    judgement = judge_on(ground, gate, _proof_for(ground, gate, artifacts), artifacts)
    gates.refuse_shut(judgement, index)
    return judgement


def _proof_for(ground: Ground, gate: Gate, artifacts: Sequence[Artifact]) -> Proof:
    try:
        return read_proof(ground.records, artifacts, ground.commit)
    except (MissingInputError, gates.GateError):
        if gate == "full":
            raise
        return Proof()


def read_proof(folder: Path, artifacts: Sequence[Artifact], commit: str) -> Proof:
    """What a release was proven with, if it is the release of these files.

    Args:
        folder: of the records.
        artifacts: that are to be published.
        commit: that is checked out.

    Raises:
        MissingInputError: there is no release.json.
        BadFileError: it is damaged.
        GateError: it is of other files or of another commit.
    """
    path = folder / FILE
    if not path.is_file():
        raise MissingInputError(
            "there is no release.json, which a release to this index is proven by",
            where=path,
            remedy="make it: spyre-ci package release --image NAME@sha256:… --run DIR",
        )
    content = read_json(path, KIND)
    try:
        said = {one["name"]: one["sha256"] for one in content["files"]}
        same = all(said.get(one.filename) == one.sha256 for one in artifacts)
        if content["source"]["commit"] != commit or not same:
            raise gates.GateError(
                "is of other files or of another commit", where=path, remedy="make it anew for these"
            )
        return Proof(
            runs=[run_from_json(one, path) for one in content["runs"]],
            image=str(content["image"]),
            overrides=[
                gates.Override(
                    check=str(one["check"]),
                    gate=one["gate"],
                    by=str(one["by"]),
                    reason=str(one["reason"]),
                    at=str(one["at"]),
                    seen=_seen(one),
                )
                for one in content["gates"]["overrides"]
            ],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise BadFileError(
            f"a key is missing or of the wrong kind: {error}", where=path, remedy="make it anew"
        ) from error


def _seen(word: Mapping[str, Any]) -> str:
    seen = word["seen"]
    if not isinstance(seen, str) or not seen:
        raise TypeError("an override does not say what it is of")
    return seen


def torch_of(requirements: Sequence[str]) -> str:
    """The first requirement of torch; empty where there is none."""
    for line in requirements:
        with suppress(InvalidRequirement):
            if canonicalize_name(Requirement(line).name) == "torch":
                return line
    return ""


def _content(
    bench: Bench,
    artifacts: Sequence[Artifact],
    records: Mapping[str, Record | None],
    proof: Proof,
    judgement: gates.Judgement,
) -> dict[str, Any]:
    built = records[BUILD]
    environment = built.details.get("environment", []) if built else []
    return {
        "project": bench.project.canonical,
        "version": str(artifacts[0].version),
        "source": {**bench.project.source.as_json(), "dirty": _dirty(bench, records)},
        "files": [one.as_json() for one in artifacts],
        "image": proof.image,
        "torch": torch_of([*environment, *bench.constraints]),
        "runs": [run_to_json(run) for run in proof.runs],
        "steps": {
            step: None if record is None else {"commit": record.commit, "passed": record.passed}
            for step, record in records.items()
        },
        "gates": judgement.as_json(),
    }


def _dirty(bench: Bench, records: Mapping[str, Record | None]) -> list[str]:
    """Files that differ from the commit, or did when the artifacts were built or verified."""
    noted = [one.dirty for step in (BUILD, VERIFY) if (one := records[step]) is not None]
    return list(dict.fromkeys(name for names in (bench.project.source.dirty, *noted) for name in names))


def _bill(
    bench: Bench, artifacts: Sequence[Artifact], records: Mapping[str, Record | None], at: datetime
) -> str:
    verified = records[VERIFY]
    installed = verified.details.get("installed_with", []) if verified else []
    source = bench.project.source
    return bill_of(artifacts, list(map(str, installed)), commit=source.commit, url=source.url, at=at)


def _key(bench: Bench) -> bytes | None:
    """The signing key: the environment's, or the file's that the settings name."""
    told = os.environ.get(SIGNING_KEY, "")
    if told:
        return told.encode()
    file = bench.package.signing_key
    return read_named(bench.settings.resolve(file), "package.signing_key") if file is not None else None


def bill_of(
    artifacts: Sequence[Artifact], installed: Sequence[str], *, commit: str, url: str, at: datetime
) -> str:
    """The SBOM, checked against the standard.

    Args:
        artifacts: sdist and wheel of the release.
        installed: what the wheel was installed with, as `pip freeze` names it.
        commit: of the sources.
        url: of their repository; what is no address is left out.
        at: when.

    Raises:
        CommandError: a name makes no valid SBOM.
    """
    from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri  # noqa: PLC0415
    from cyclonedx.model.bom import Bom, BomMetaData  # noqa: PLC0415
    from cyclonedx.model.component import Commit, Component, ComponentType, Pedigree  # noqa: PLC0415
    from cyclonedx.output import make_outputter  # noqa: PLC0415
    from cyclonedx.schema import OutputFormat, SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415
    from packageurl import PackageURL  # noqa: PLC0415

    name, version = artifacts[0].name, str(artifacts[0].version)
    purl = PackageURL("pypi", None, name, version)
    files = [
        Component(
            name=one.filename,
            type=ComponentType.FILE,
            bom_ref=one.filename,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=one.sha256)],
        )
        for one in artifacts
    ]
    address = of_repository(url)
    source = [ExternalReference(type=ExternalReferenceType.VCS, url=XsUri(address))] if address else []
    top = Component(
        name=name,
        version=version,
        bom_ref=str(purl),
        purl=purl,
        components=files,
        pedigree=Pedigree(commits=[Commit(uid=commit)]) if commit else None,
        external_references=source,
    )
    parts = []
    for one, pinned in pinned_of(installed, without=name):
        where = PackageURL("pypi", None, one, pinned)
        parts.append(Component(name=one, version=pinned, bom_ref=str(where), purl=where))
    bom = Bom(
        components=parts,
        metadata=BomMetaData(component=top, timestamp=at),
        serial_number=uuid.uuid5(NAMESPACE, "".join(one.sha256 for one in artifacts)),
    )
    bom.register_dependency(top, parts)
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise CommandError(f"the SBOM is not valid: {str(wrong)[:300]}", where=f"{name} {version}")
    return text + "\n"


def pinned_of(installed: Sequence[str], *, without: str) -> list[tuple[str, str]]:
    """Names and versions of what pip froze, without tools of every environment and the project itself.

    Args:
        installed: lines of `pip freeze`.
        without: the project.
    """
    found = {}
    for line in installed:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        pins = [one.version for one in requirement.specifier if one.operator in {"==", "==="}]
        if pins and requirement.name.lower() not in {"pip", "setuptools", "wheel", without}:
            found[requirement.name] = pins[0]
    return sorted(found.items())
