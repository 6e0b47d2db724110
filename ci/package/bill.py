"""The software bill of materials of a release: CycloneDX 1.6 in JSON, the same for the same release."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime

from packaging.requirements import InvalidRequirement, Requirement

from ci.core.addresses import of_repository
from ci.core.errors import CommandError
from ci.package.artifacts import Artifact

NAMESPACE = uuid.UUID("0c5f1c9e-0d0b-5a39-8f0c-6c1d5f6b7a21")


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
