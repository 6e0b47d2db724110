"""The software bill of materials of an image: CycloneDX 1.6 in JSON, the same for the same image."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ci.core.addresses import without_credentials
from ci.core.errors import CommandError
from ci.image.resolved import ResolvedComponent, ResolvedStack, by_digest
from ci.image.verify.inventory import Inventory

# Its parser of licences alone takes a second, which verbs that write no SBOM need not pay.
if TYPE_CHECKING:
    from cyclonedx.model import ExternalReference, HashType
    from cyclonedx.model.component import Component

# So that the serial number of an SBOM is that of the image alone.
NAMESPACE = uuid.UUID("5a1b1c5e-6a0e-5c0b-9a55-0d6a6f1f7d11")
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The image an SBOM is of.

    Attributes:
        name: repository, without a tag.
        version: its tag.
        image: its id, `sha256:…`.
        created: when; of the image or SOURCE_DATE_EPOCH.
        stack: what it is made of; None: not known.
    """

    name: str
    version: str
    image: str
    created: datetime
    stack: ResolvedStack | None = None


def check_library() -> None:
    """Say at once that what writes it is not there, not after an hour's build.

    Raises:
        CommandError: it is not installed.
    """
    try:
        import cyclonedx.validation.json  # noqa: F401, PLC0415
    except ImportError as error:
        raise CommandError(
            f"an SBOM wants cyclonedx-python-lib: {error}",
            where="--sbom",
            remedy="install it: pip install 'spyre-ci[image]'",
        ) from error


def sbom_of(described: Described, inventory: Inventory) -> str:
    """The SBOM, checked against the standard.

    Args:
        described: the image.
        inventory: what is in it.

    Raises:
        CommandError: the library is not installed, or a name in the image makes no valid SBOM.
    """
    check_library()
    from cyclonedx.model.bom import Bom, BomMetaData  # noqa: PLC0415
    from cyclonedx.output import make_outputter  # noqa: PLC0415
    from cyclonedx.schema import OutputFormat, SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    top = _image(described)
    parts = [*_python(inventory), *_distribution(inventory)]
    if described.stack is not None:
        parts += [_base(described.stack), *map(_component, described.stack.components)]
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


def _image(described: Described) -> Component:
    from cyclonedx.model.component import Component, ComponentType  # noqa: PLC0415

    return Component(
        name=described.name,
        version=described.version,
        type=ComponentType.CONTAINER,
        bom_ref="image",
        hashes=[_sha256(described.image)],
    )


def _python(inventory: Inventory) -> Iterator[Component]:
    from cyclonedx.model.component import Component  # noqa: PLC0415
    from packageurl import PackageURL  # noqa: PLC0415

    for name, version in inventory.python:
        purl = PackageURL("pypi", None, name, version)
        yield Component(name=name, version=version, bom_ref=str(purl), purl=purl)


def _distribution(inventory: Inventory) -> Iterator[Component]:
    from cyclonedx.model.component import Component  # noqa: PLC0415
    from packageurl import PackageURL  # noqa: PLC0415

    for name, version, architecture in inventory.packages:
        purl = PackageURL(inventory.kind, inventory.distribution, name, version, {"arch": architecture})
        yield Component(name=name, version=version, bom_ref=str(purl), purl=purl)


def _base(stack: ResolvedStack) -> Component:
    from cyclonedx.model.component import Component, ComponentType  # noqa: PLC0415

    return Component(
        name=stack.stack.base.image,
        version=stack.base_digest,
        type=ComponentType.CONTAINER,
        bom_ref="base",
        hashes=[_sha256(stack.base_digest)],
        external_references=[_found_at(f"oci://{stack.base}")],
    )


def _component(one: ResolvedComponent) -> Component:
    from cyclonedx.model import XsUri  # noqa: PLC0415
    from cyclonedx.model.component import Commit, Component, ComponentType, Pedigree  # noqa: PLC0415

    component = one.component
    ref = f"component/{component.name}"
    if component.git is not None:
        url = without_credentials(component.git.url)
        return Component(
            name=component.name,
            version=one.commit,
            bom_ref=ref,
            pedigree=Pedigree(commits=[Commit(uid=one.commit, url=XsUri(url))]),
            external_references=[_found_at(url, vcs=True)],
        )
    if component.image is not None:
        return Component(
            name=component.name,
            version=one.digest,
            type=ComponentType.CONTAINER,
            bom_ref=ref,
            hashes=[_sha256(one.digest)],
            external_references=[_found_at(f"oci://{by_digest(component.image.name, one.digest)}")],
        )
    return Component(
        name=component.name,
        bom_ref=ref,
        components=[
            Component(
                name=file.path,
                type=ComponentType.FILE,
                bom_ref=f"{ref}/{file.path}",
                hashes=[_sha256(file.sha256)],
            )
            for file in one.files
        ],
    )


def _sha256(digest: str) -> HashType:
    from cyclonedx.model import HashAlgorithm, HashType  # noqa: PLC0415

    return HashType(alg=HashAlgorithm.SHA_256, content=digest.removeprefix("sha256:"))


def _found_at(url: str, *, vcs: bool = False) -> ExternalReference:
    from cyclonedx.model import ExternalReference, ExternalReferenceType, XsUri  # noqa: PLC0415

    kind = ExternalReferenceType.VCS if vcs else ExternalReferenceType.DISTRIBUTION
    return ExternalReference(type=kind, url=XsUri(url))


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
