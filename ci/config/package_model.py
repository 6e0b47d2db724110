"""The settings of packaging: how a project is linted, tested, built, verified and published."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from ci.config.section import Seconds, Section, check_https

PYPI, TESTPYPI = "pypi", "testpypi"
Gate = Literal["none", "merge", "full"]
# What a back end links against and finds at run time: torch's own libraries and the card's.
AT_RUN_TIME = [
    f"{name}.so*" for name in ("libtorch*", "libc10*", "libshm*", "libgomp*", "libsendnn*", "libflex*")
]


def _index_url(text: str) -> str:
    """An https URL without query, fragment or credentials; http where this machine is asked."""
    check_https(urlsplit(text), "who can change files on their way can publish for everybody")
    return text


def _index_name(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", text):
        raise ValueError(
            "is no name for an index: variables such as SPYRE_CI__PACKAGE__INDEXES__MY_STAGE__UPLOAD hold "
            "it, so it is of a-z, 0-9 and single underscores between them"
        )
    return text


IndexUrl = Annotated[str, AfterValidator(_index_url)]
Line = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\r\n]+$")]
# A requirement must not become a flag of pip.
Requirement = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][^\r\n]*$")]


class Index(Section):
    """A package index that is published to."""

    upload: IndexUrl = Field(description="where twine uploads to")
    simple: IndexUrl = Field(description="its simple API, which pip reads")
    gate: Gate = Field(
        default="merge",
        description="what must be green of the commit besides verify: none: nothing; merge: lint and unit; "
        "full: device tests on cards, too",
    )
    local_versions: bool = Field(
        default=True, description="whether it takes versions such as 1.2.dev3+gabc; PyPI does not"
    )
    linux_tags: bool = Field(
        default=True, description="whether it takes wheels tagged linux_*; PyPI needs manylinux"
    )
    max_mib: float = Field(default=100, gt=0, description="MiB a file may have")
    token_file: Path | None = Field(
        default=None,
        description="file with the token; SPYRE_CI_INDEX_TOKEN wins",
    )
    user: str = Field(
        default="__token__", pattern=r"^[A-Za-z0-9_.@+-]+$", description="user the token belongs to"
    )
    timeout_s: Seconds = Field(default=30, description="within which it must answer a question")


def _indexes() -> dict[str, Index]:
    return {
        TESTPYPI: Index(
            upload="https://test.pypi.org/legacy/",
            simple="https://test.pypi.org/simple/",
            local_versions=False,
            linux_tags=False,
        ),
        PYPI: Index(
            upload="https://upload.pypi.org/legacy/",
            simple="https://pypi.org/simple/",
            gate="full",
            local_versions=False,
            linux_tags=False,
        ),
    }


class Lint(Section):
    """Which linters look at a project."""

    skip: list[str] = Field(default_factory=list, description="linters, by name, that do not")
    timeout_s: Seconds = Field(default=900, description="after which a linter, or installing all, is ended")


class PackageTests(Section):
    """The project's own tests."""

    unit: list[Line] = Field(
        default_factory=list,
        description="arguments of pytest for the tests that need no device, such as tests/unit; none: "
        "tests/unit where it is there, or the tests without the marker `device_marker`",
    )
    device: list[Line] = Field(
        default_factory=list,
        description="folders and files of the tests that need a card; none: tests/device where it is there",
    )
    device_marker: str = Field(
        default="device", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="marker of tests that need a card"
    )
    emulated: bool = Field(
        default=False, description="whether the tests without a card run with the emulated device"
    )
    requirements: list[Requirement] = Field(
        default_factory=lambda: ["pytest"],
        description="what tests need besides the project's extra or dependency group `test`",
    )
    keep_sources: bool = Field(
        default=False,
        description="whether the packages' sources stay beside the tests, which read them; tests must not "
        "import them from there then (pytest's --import-mode=importlib)",
    )
    timeout_s: Seconds = Field(default=3600, description="after which the tests are ended")


class Package(Section):
    """How torch-spyre, or any project, is packaged."""

    dist: Path = Field(default=Path("dist"), description="folder of sdist and wheel, in the project")
    records: Path = Field(
        default=Path(".spyre-ci/records"),
        description="folder of what is noted of each step, in the project; gates read it",
    )
    version: Literal["git", "declared"] = Field(
        default="git",
        description="git: the tag, or X.Y.Z.devN+gSHA of the next release; declared: as the back end says",
    )
    version_file: Path | None = Field(
        default=None, description="module that assigns __version__; none: as pyproject.toml says"
    )
    tag_prefix: str = Field(
        default="v", pattern=r"^[A-Za-z0-9_/.-]*$", description="what release tags begin with"
    )
    toplevel: list[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]] = Field(
        default_factory=list,
        description="what the wheel may install at the top level; none: the project's own name",
    )
    constraints: list[Requirement] = Field(
        default_factory=list,
        description="requirements that hold wherever something is installed; none: the torch of this "
        "release, where the project takes it",
    )
    build_image: str = Field(
        default="", description="image that builds run in, with what is there; none: in isolation, here"
    )
    memory_gib_per_job: float = Field(
        default=2, gt=0, description="GiB of memory one compiler job is given (MAX_JOBS)"
    )
    ccache: Literal["auto", "off"] = Field(
        default="auto", description="auto: the compiler runs behind ccache where it is installed"
    )
    build_timeout_s: Seconds = Field(default=3 * 3600, description="after which a build is ended")
    repair: bool = Field(
        default=True, description="whether auditwheel gives an extension's wheel its manylinux tag"
    )
    repair_exclude: list[Line] = Field(
        default_factory=lambda: list(AT_RUN_TIME),
        description="libraries that are found at run time and never copied into a wheel",
    )
    pythons: list[Line] = Field(
        default_factory=list,
        description="interpreters that wheels are installed with; none: all supported ones",
    )
    smoke: list[Line] = Field(
        default_factory=list,
        description="tests, by path in the project, run against what was installed; none: it is imported",
    )
    smoke_requirements: list[Requirement] = Field(
        default_factory=lambda: ["pytest"], description="what the smoke tests need"
    )
    publish_timeout_s: Seconds = Field(
        default=600,
        description="within which a file must be uploaded, and an index must show what was uploaded",
    )
    lint: Lint = Field(default_factory=Lint)
    tests: PackageTests = Field(default_factory=PackageTests)
    indexes: dict[Annotated[str, AfterValidator(_index_name)], Index] = Field(
        default_factory=dict, description="package indexes by name, besides pypi and testpypi"
    )

    @model_validator(mode="after")
    def _leaves_pypi_alone(self) -> Package:
        taken = sorted({PYPI, TESTPYPI} & set(self.indexes))
        if taken:
            raise ValueError(f"indexes: {', '.join(taken)} is always the one of that name; use another name")
        return self

    @property
    def all_indexes(self) -> dict[str, Index]:
        """Every index there is, by name."""
        return {**_indexes(), **self.indexes}
