"""The software bill of materials of an image: CycloneDX 1.6 in JSON, the same for the same image."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import docker
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Commit, Component, ComponentType, Pedigree
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from ci.core.containers import container, follow
from ci.core.errors import CommandError
from ci.core.registry import by_digest, parse_image
from ci.image.resolve import ResolvedComponent, ResolvedStack
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
_PACKAGE = re.compile(r"(deb|rpm)/(\S+)\t(\S+)\t(\S+)\t(\S+)")


def make_sbom(
    client: docker.DockerClient, image: str, *, name: str, stack: ResolvedStack, epoch: str = ""
) -> str:
    """The SBOM of an image.

    Args:
        client: the engine, which has it.
        image: its name or id.
        name: that the image is called.
        stack: what it is made of.
        epoch: SOURCE_DATE_EPOCH; empty: not set.

    Raises:
        CommandError: the image cannot tell what is in it, or a name in it makes no valid SBOM.
    """
    lines: list[str] = []
    with container(client, image, ["run", "sh", "-ec", _LIST], STRICT) as made:
        ended = follow(made, timeout_s=TIMEOUT_S, echo=lines.append)
    if ended.exit_code != 0:
        raise CommandError(
            f"cannot list the image's packages: pip list {how(ended)}",
            where=image,
            remedy="make `run python -m pip list` work in the image",
        )
    attrs = client.images.get(image).attrs
    created = created_at(str(attrs.get("Created", "")), epoch)
    return sbom_of(lines, name=name, image=str(attrs["Id"]), created=created, stack=stack)


def sbom_of(lines: Iterable[str], *, name: str, image: str, created: datetime, stack: ResolvedStack) -> str:
    """The SBOM, checked against the standard.

    Args:
        lines: what the image's own pip and package manager say is in it.
        name: that it is called, with a tag or a digest.
        image: its id, `sha256:…`.
        created: when; of the image or SOURCE_DATE_EPOCH.
        stack: what it is made of.

    Raises:
        CommandError: a name in the image makes no valid SBOM.
    """
    parsed = parse_image(name)
    top = _container(parsed.repository, "image", image, parsed.tag or parsed.digest)
    base = stack.stack.base.image
    parts = [*_packages_in(lines), _container(base, "base", stack.base_digest, url=stack.base)]
    parts += [part for one in stack.components for part in _parts(one)]
    bom = Bom(
        components=parts,
        metadata=BomMetaData(component=top, timestamp=created),
        serial_number=uuid.uuid5(NAMESPACE, image),
    )
    bom.register_dependency(top, parts)
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise CommandError(f"the SBOM is not valid: {str(wrong)[:300]}", where=image)
    return text + "\n"


def _packages_in(lines: Iterable[str]) -> Iterator[Component]:
    for line in lines:
        if found := _PYTHON.fullmatch(line):
            purl = PackageURL("pypi", None, found[1], found[2])
        elif found := _PACKAGE.fullmatch(line):
            purl = PackageURL(found[1], found[2], found[3], found[4], {"arch": found[5]})
        else:
            continue
        name = found[1] if purl.type == "pypi" else found[3]
        yield Component(name=name, version=purl.version, bom_ref=str(purl), purl=purl)


def _parts(one: ResolvedComponent) -> Iterator[Component]:
    component, ref = one.component, f"component/{one.component.name}"
    if component.image is not None:
        image = by_digest(component.image.name, one.revision)
        yield _container(component.name, ref, one.revision, url=image)
    elif component.git is not None:
        url = XsUri(component.git.url)
        commit = None if one.folder else Pedigree(commits=[Commit(uid=one.revision, url=url)])
        reference = ExternalReference(type=ExternalReferenceType.VCS, url=url)
        yield Component(
            name=component.name,
            version=one.revision,
            bom_ref=ref,
            pedigree=commit,
            external_references=[reference],
        )
    for path, sha256 in one.files.items():
        hashes = [HashType(alg=HashAlgorithm.SHA_256, content=sha256)]
        yield Component(name=component.name, version=path, bom_ref=f"{ref}/{path}", hashes=hashes)


def _container(name: str, ref: str, digest: str, version: str = "", *, url: str = "") -> Component:
    reference = ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(f"oci://{url}"))
    return Component(
        name=name,
        version=version or digest,
        type=ComponentType.CONTAINER,
        bom_ref=ref,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest.removeprefix("sha256:"))],
        external_references=[reference] if url else [],
    )


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
