"""The settings of pins: which versions are held, where they stand, and when they may change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from ci.config.package_model import IndexUrl
from ci.config.section import Section

TRACK_NAME = r"^[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?$"


def _requirement(text: str) -> str:
    try:
        Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"is no requirement: {error}") from error
    return text


PackageName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"),
    AfterValidator(canonicalize_name),
]
RequirementText = Annotated[str, AfterValidator(_requirement)]
EntryPoint = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
]


class PinPlace(Section):
    """The one place where the version in use stands."""

    file: Path = Field(description="YAML or TOML, relative to the settings")
    key: str = Field(min_length=1, description="dotted path of the value, such as variants.pinned.version")


class Suite(Section):
    """An experiment or a test suite that runs on it, and what it needs; deprecated where that is gone."""

    name: str = Field(min_length=1, max_length=200, description="of the experiment or suite")
    needs: list[RequirementText] = Field(
        default_factory=list, description="requirements on its packages, such as torch>=2.11,<3"
    )
    calls: list[EntryPoint] = Field(default_factory=list, description="entry points it calls")


class Track(Section):
    """An image or a package whose releases are followed: exactly one of `image` and `package`."""

    image: str | None = Field(default=None, min_length=1, description="repository of the image, without tag")
    tags: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="which tags of the image are releases, such as *-ubi9; none: those that are versions",
    )
    package: PackageName | None = Field(default=None, description="name of the package on its index")
    index: IndexUrl = Field(
        default="https://pypi.org/simple/",
        description="of the package, as pip's --index-url",
    )
    direct: list[PackageName] = Field(
        min_length=1, description="direct dependencies whose versions are compared from release to release"
    )
    pin: PinPlace | None = Field(default=None, description="where the version in use stands; none: nowhere")
    entry_points: list[EntryPoint] = Field(
        default_factory=list, description="module:name of what is called; signatures are compared"
    )
    suites: list[Suite] = Field(default_factory=list, description="what runs on it")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.image is None) == (self.package is None):
            raise ValueError("needs exactly one of image and package")
        if "index" in self.model_fields_set and self.package is None:
            raise ValueError("an index is of a package; an image has none")
        if self.tags is not None and self.image is None:
            raise ValueError("tags are of an image; a package has none")
        return self


class Pins(Section):
    """Versions that are held, their ledger, and the protocol of upgrades."""

    ledger: Path = Field(default=Path("pins"), description="folder of ledgers, committed beside the settings")
    cycle_days: int = Field(
        default=56, ge=1, le=3650, description="days after the last upgrade on which the next is due"
    )
    closer_days: int = Field(
        default=14,
        ge=0,
        le=3650,
        description="days after the end of a campaign within which a scheduled release may be waited for",
    )
    tracks: dict[Annotated[str, StringConstraints(pattern=TRACK_NAME)], Track] = Field(
        default_factory=dict, description="what is followed, by name"
    )
