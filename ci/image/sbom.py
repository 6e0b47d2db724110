"""The software bill of materials of an image: CycloneDX 1.6 in JSON, the same for the same image."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import docker
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Commit, Component, ComponentType, Pedigree
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from ci.core.addresses import without_credentials
from ci.core.containers import container, follow
from ci.core.errors import CommandError
from ci.core.registry import by_digest, parse_image
from ci.image.resolved import ResolvedComponent, ResolvedStack
from ci.image.smoke import STRICT, how

# So that the serial number of an SBOM is that of the image alone.
NAMESPACE = uuid.UUID("5a1b1c5e-6a0e-5c0b-9a55-0d6a6f1f7d11")
NEVER = datetime(1970, 1, 1, tzinfo=UTC)
TIMEOUT_S = 600
# What pip and the distribution say that there is; a line a package.
_LIST = r"""
python -m pip list --format=freeze --disable-pip-version-check
. /etc/os-release
dpkg-query -W -f "deb/$ID\t\${Package}\t\${Version}\t\${Architecture}\n" 2>/dev/null ||
rpm -qa --queryformat "rpm/$ID\t%{NAME}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\t%{ARCH}\n" || true
"""
_PYTHON = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The image an SBOM is of.

    Attributes:
        name: of it, with a tag or a digest.
        image: its id, `sha256:…`.
        created: when; of the image or SOURCE_DATE_EPOCH.
        stack: what it is made of; None: not known.
    """

    name: str
    image: str
    created: datetime
    stack: ResolvedStack | None = None


def lines_of(client: docker.DockerClient, image: str) -> list[str]:
    """What an image's own pip and package manager say is in it.

    Raises:
        CommandError: it cannot say it.
    """
    lines: list[str] = []
    with container(client, image, ["run", "sh", "-ec", _LIST], STRICT) as made:
        ended = follow(made, timeout_s=TIMEOUT_S, echo=lines.append)
    if ended.exit_code != 0:
        raise CommandError(
            f"what is in the image cannot be told: pip list {how(ended)}",
            where=image,
            remedy="let `run python -m pip list` work in it",
        )
    return lines


def packages_in(lines: Iterable[str]) -> Iterator[Component]:
    """The packages of what `lines_of` says."""
    for line in lines:
        if found := _PYTHON.fullmatch(line):
            yield _package(PackageURL("pypi", None, found[1], found[2]), found[1])
        elif line.count("\t") == 3:  # noqa: PLR2004  # as the package managers were asked
            place, name, version, architecture = line.split("\t")
            kind, _, distribution = place.partition("/")
            yield _package(PackageURL(kind, distribution, name, version, {"arch": architecture}), name)


def _package(purl: PackageURL, name: str) -> Component:
    return Component(name=name, version=purl.version, bom_ref=str(purl), purl=purl)


def sbom_of(described: Described, lines: Iterable[str]) -> str:
    """The SBOM, checked against the standard.

    Args:
        described: the image.
        lines: see `lines_of`.

    Raises:
        CommandError: a name in the image makes no valid SBOM.
    """
    name = parse_image(described.name)
    top = Component(
        name=name.repository,
        version=name.tag or name.digest,
        type=ComponentType.CONTAINER,
        bom_ref="image",
        hashes=[_sha256(described.image)],
    )
    parts = list(packages_in(lines))
    if (stack := described.stack) is not None:
        parts += [
            _container(stack.stack.base.image, stack.base_digest, "base"),
            *map(_part, stack.components),
        ]
    bom = Bom(
        components=parts,
        metadata=BomMetaData(component=top, timestamp=described.created),
        serial_number=uuid.uuid5(NAMESPACE, described.image),
    )
    bom.register_dependency(top, parts)
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise CommandError(f"the SBOM is not valid: {str(wrong)[:300]}", where=described.image)
    return text + "\n"


def _part(one: ResolvedComponent) -> Component:
    component = one.component
    ref = f"component/{component.name}"
    if component.image is not None:
        return _container(component.image.name, one.digest, ref, name=component.name)
    if component.git is not None:
        url = XsUri(without_credentials(component.git.url))
        return Component(
            name=component.name,
            version=one.revision,
            bom_ref=ref,
            pedigree=Pedigree(commits=[Commit(uid=one.commit, url=url)]) if one.commit else None,
            external_references=[ExternalReference(type=ExternalReferenceType.VCS, url=url)],
        )
    files = [
        Component(
            name=file.path,
            type=ComponentType.FILE,
            bom_ref=f"{ref}/{file.path}",
            hashes=[_sha256(file.sha256)],
        )
        for file in one.files
    ]
    return Component(name=component.name, bom_ref=ref, components=files)


def _container(image: str, digest: str, ref: str, *, name: str = "") -> Component:
    found = XsUri(f"oci://{by_digest(image, digest)}")
    return Component(
        name=name or image,
        version=digest,
        type=ComponentType.CONTAINER,
        bom_ref=ref,
        hashes=[_sha256(digest)],
        external_references=[ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=found)],
    )


def _sha256(digest: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=digest.removeprefix("sha256:"))


def created_at(told: str, epoch: str) -> datetime:
    """When an image was made.

    Args:
        told: by the engine, in ISO 8601.
        epoch: SOURCE_DATE_EPOCH, in seconds; goes first; empty: not set.
    """
    if epoch.isdecimal():
        return datetime.fromtimestamp(int(epoch), tz=UTC)
    try:
        # Engines tell nanoseconds.
        return datetime.fromisoformat(told[:19]).replace(tzinfo=UTC)
    except ValueError:
        return NEVER
