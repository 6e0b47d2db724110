"""What `images/stack.yaml` may say: the base, the components on it, PyTorch, and what the image is for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from ci.config.section import GIT_ADDRESS, Section
from ci.core.addresses import without_credentials

# A name makes part of a stage's name, a label and a path.
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=40)]
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
# Registry, repository and tag, no digest; what a FROM line takes without quoting.
ImageName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.:-]*(/[a-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]*)?$")
]


def _open(address: str) -> str:
    # The value itself is not in the message.
    if without_credentials(address) != address:
        raise ValueError("contains a user or a password, which labels and logs would show")
    return address


GitUrl = Annotated[str, StringConstraints(pattern=GIT_ADDRESS), AfterValidator(_open)]
# No leading dash: git would take it for an option.
Ref = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./+-]*$", max_length=200)]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9_./+@-]+$")]


def _inside(path: str) -> str:
    if ".." in path.split("/"):
        raise ValueError("leads out of its folder")
    return path


RelativePath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_.@+*-][A-Za-z0-9_./@+*-]*$"), AfterValidator(_inside)
]
PackageFile = Annotated[RelativePath, StringConstraints(pattern=r"\.(whl|deb|rpm)$")]
Package = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+_=~:-]*$")]
# PEP 508 without markers and URLs: nothing a shell or pip could take for more.
Requirement = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?([<>=!~]=?[A-Za-z0-9.*+!_-]+(,[<>=!~]=?[A-Za-z0-9.*+!_-]+)*)?$"
    ),
]
# Of packages, in the simple layout; without user and password, which every layer's history would tell.
IndexUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s'\"$`\\@?#]+$", max_length=300)]
PythonVersion = Annotated[str, StringConstraints(pattern=r"^3\.[0-9]{1,2}$")]
# What steps find besides: a value of that name would be lost. Values of `args` get PARAM_ before their name.
_GIVEN = re.compile("PARAM_.*|DESTDIR|WHEELS|JUNIT_DIR|PATH|HOME|SOURCE_DATE_EPOCH|PORT|MODEL|USER|LOGNAME")
_SECRET = re.compile("TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|PRIVATE_KEY|API_?KEY|ACCESS_KEY|_PAT|_PASS")


def _variable(name: str) -> str:
    if _GIVEN.fullmatch(name):
        raise ValueError("is set by the build itself")
    if _SECRET.search(name):
        raise ValueError("looks like a secret, which the image's history would show: use a setting (image.*)")
    return name


Variable = Annotated[
    str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=80), AfterValidator(_variable)
]
Platform = Literal["linux/amd64", "linux/ppc64le", "linux/s390x"]
RoleName = Literal["test", "notebook", "serve"]
PYTORCH = "pytorch"
NIGHTLY_INDEX = "https://download.pytorch.org/whl/nightly/cpu"
PLATFORMS: tuple[Platform, ...] = ("linux/amd64", "linux/ppc64le", "linux/s390x")
Minutes = Annotated[float, Field(gt=0, le=24 * 60)]
Gib = Annotated[float, Field(ge=0.01, le=1e5)]
Version = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)+[a-z0-9.+]*$")]
# On one line: what a builder reads line by line.
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$")]
LabelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", max_length=200)]
Values = Annotated[Mapping[Variable, Annotated[Text, AfterValidator(_open)]], Field(default_factory=dict)]


def _check_one(section: Section, *names: str) -> None:
    given = [name for name in names if getattr(section, name)]
    if len(given) != 1:
        told = " and ".join(given) or "none of them"
        raise ValueError(f"has {told}: give exactly one of {', '.join(names[:-1])} and {names[-1]}")


class Base(Section):
    """What everything stands on."""

    image: ImageName = Field(description="registry, repository and tag")
    digest: Digest | None = Field(default=None, description="sha256:…; none: looked up in the registry")
    packages: tuple[Package, ...] = Field(default=(), description="distribution packages in the image")
    build_packages: tuple[Package, ...] = Field(default=(), description="packages that only builds need")
    manager: Literal["apt", "dnf"] = Field(default="apt", description="the distribution's package manager")
    python: AbsolutePath = Field(default="/usr/bin/python3", description="path of its Python")
    python_version: PythonVersion | None = Field(
        default=None, description="such as 3.12; for an index's wheels"
    )


class Copied(Section):
    """What is taken out of an image, and where it goes."""

    source: AbsolutePath = Field(description="path in that image")
    target: AbsolutePath | None = Field(default=None, description="path in our image; none: the same")


class Git(Section):
    """A component built from a repository: by steps, or by a Containerfile of its own."""

    url: GitUrl = Field(description="address of the repository, without user and password")
    ref: Ref = Field(default="main", description="branch, tag or commit")
    subfolder: RelativePath | None = Field(default=None, description="folder of the repository to build")
    steps: tuple[str, ...] = Field(default=(), description="shell lines that fill $DESTDIR or $WHEELS")
    containerfile: RelativePath | None = Field(default=None, description="Containerfile instead of `steps`")
    target: Name | None = Field(default=None, description="the Containerfile's stage; none: the last")
    paths: tuple[Copied, ...] = Field(default=(), description="what to copy from that image")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        _check_one(self, "steps", "containerfile")
        if bool(self.containerfile) != bool(self.paths) or (self.target and not self.containerfile):
            raise ValueError("`containerfile` needs `paths`; `paths` and `target` need `containerfile`")
        return self


class Prebuilt(Section):
    """A component taken out of an image."""

    name: ImageName = Field(description="registry, repository and tag")
    digest: Digest | None = Field(default=None, description="sha256:…; none: looked up in the registry")
    paths: tuple[Copied, ...] = Field(min_length=1, description="what to copy from it")


class Component(Section):
    """A part of the stack, from exactly one of `git`, `image` and `files`."""

    name: Name
    git: Git | None = Field(default=None, description="a repository and how it is built")
    image: Prebuilt | None = Field(default=None, description="a prebuilt image and what to copy from it")
    files: tuple[PackageFile, ...] = Field(default=(), description="*.whl, *.deb, *.rpm beside this file")
    needs: tuple[Name, ...] = Field(default=(), description="components that its build needs, or `pytorch`")
    test: tuple[str, ...] = Field(default=(), description="shell lines to test it; JUnit in $JUNIT_DIR")
    test_on: Literal["build", "runtime"] = Field(default="build", description="image that `test` runs in")
    requirements: tuple[Requirement, ...] = Field(default=(), description="Python packages it needs")
    device_test: tuple[str, ...] = Field(default=(), description="shell lines of tests that need a device")
    test_minutes: Minutes = Field(default=30, description="time limit of its tests of one kind")
    test_memory_gib: Gib | None = Field(default=None, description="memory limit of its tests; none: no limit")
    development: tuple[Requirement, ...] = Field(default=(), description="Python packages its tests need")
    args: Values = Field(description="variables of its steps, passed as PARAM_<NAME>")
    environment: Values = Field(description="variables of the image")
    platforms: tuple[Platform, ...] = Field(default=PLATFORMS, description="platforms it can be built for")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        _check_one(self, "git", "image", "files")
        if self.name == PYTORCH:
            raise ValueError(f"the name {PYTORCH} is reserved: describe PyTorch under `variants`")
        if (self.test or self.device_test) and self.git is None:
            raise ValueError("has tests but no `git` repository to contain them")
        if self.git is not None and self.git.containerfile:
            if self.needs:
                raise ValueError("has `needs`, which its own Containerfile cannot use")
            if self.test and self.test_on == "build":
                raise ValueError("has tests on the build image: with `containerfile`, set test_on: runtime")
        return self

    @property
    def copied(self) -> tuple[Copied, ...]:
        """What is taken out of an image: a prebuilt one, or the one its Containerfile makes."""
        source = self.image or self.git
        return source.paths if source else ()

    @property
    def has_steps(self) -> bool:
        """Whether it is built in a stage of ours."""
        return self.git is not None and bool(self.git.steps)

    @property
    def on_runtime(self) -> bool:
        """Whether tests of it run on the runtime image."""
        return bool(self.device_test) or (bool(self.test) and self.test_on == "runtime")


class Pytorch(Section):
    """Which PyTorch: a release, a nightly wheel, or PyTorch's repository at a commit."""

    version: Version | None = Field(default=None, description="a release, such as 2.13.0")
    nightly: bool = Field(default=False, description="the newest wheel of the nightly index")
    index: IndexUrl | None = Field(default=None, description="index of the wheel; none: the build's own")
    git: Git | None = Field(
        default=None, description="a repository, and steps that put its wheel into $WHEELS"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        _check_one(self, "version", "nightly", "git")
        if self.git is not None and self.git.containerfile is not None:
            raise ValueError("has a containerfile: PyTorch is built by `steps`, into $WHEELS")
        if self.git is not None and self.index is not None:
            raise ValueError("has git and index: a wheel that is built comes from no index")
        return self

    @property
    def wheel_index(self) -> str | None:
        """The index a wheel is looked up in; None where it is built, or the build's settings say which."""
        return self.index or (NIGHTLY_INDEX if self.nightly else None)


def _one_command(line: str) -> str:
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    try:
        operators = [word for word in words if word and not set(word) - set(";&|()")]
    except ValueError as error:
        raise ValueError(f"is not a command: {error}") from None
    if operators or not line.strip() or "\n" in line:
        raise ValueError("is not one command: put several into a script, so that signals reach the last")
    return line


class Role(Section):
    """What the image does when it is started by the name of a role."""

    command: Annotated[str, AfterValidator(_one_command)] = Field(description="one command for the shell")
    packages: tuple[Requirement, ...] = Field(default=(), description="Python packages it needs in the image")
    check: tuple[str, ...] = Field(default=(), description="words after the role when an image is checked")


class Stack(Section):
    """The whole file."""

    version: Literal[1] = Field(description="version of the file format")
    name: Name = Field(description="last part of the image's name")
    base: Base
    variants: Mapping[Name, Pytorch] = Field(min_length=1, description="PyTorch by variant: pinned, main")
    components: tuple[Component, ...] = Field(default=(), description="any order: `needs` orders the build")
    labels: Mapping[LabelName, Text] = Field(default_factory=dict, description="further labels of the image")
    roles: Mapping[RoleName, Role] = Field(default_factory=dict, description="roles the image can start as")
    args: Values = Field(description="variables of all components' steps, passed as PARAM_<NAME>")
    environment: Values = Field(description="variables of the image")
    platforms: tuple[Platform, ...] = Field(default=("linux/amd64",), description="platforms it is built for")
    user: int = Field(default=10001, ge=1, le=2**31 - 1, description="id of the user it runs as")

    def params_of(self, component: Component | None) -> dict[str, str]:
        """What the steps of a component, or of PyTorch, are given, by variable, in the order of names."""
        given = {**self.args, **(component.args if component else {})}
        return {f"PARAM_{name}": given[name] for name in sorted(given)}

    @property
    def whole_environment(self) -> dict[str, str]:
        """The image's environment, components' parts of it too, in the order of names."""
        parts = [self.environment, *(one.environment for one in self.components)]
        return dict(sorted((name, part[name]) for part in parts for name in part))
