"""A file of webhooks: what it may hold, read with every mistake named by file, line and key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator

from ci.config.explain import explain
from ci.config.section import REPOSITORY, Section, check_https
from ci.core.addresses import host_of
from ci.core.errors import SettingsError
from test_selection.errors import did_you_mean
from test_selection.yaml_reader import load_document

GITHUB = "github.com"
DEFAULT_FILE = Path("jenkins/webhooks.yaml")
SEE = "docs/pipelines.md lists the keys of a file of webhooks"


def _checked_https(address: str) -> str:
    check_https(urlsplit(address), "anyone on the network path would read what is sent")
    if re.search(r"[\s\\'\"<>`]", address):
        raise ValueError("contains blanks or quotes")
    return address


# Prefixes of our own: no change of this file sends another variable of a job to whoever it names.
SecretName = Annotated[str, StringConstraints(pattern=r"^SPYRE_CI_WEBHOOK_[A-Z0-9_]{1,80}$")]
TokenName = Annotated[str, StringConstraints(pattern=r"^SPYRE_CI_GITHUB_TOKEN(_[A-Z0-9_]{1,80})?$")]
Address = Annotated[str, AfterValidator(_checked_https)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,60}$")]
Event = Annotated[str, StringConstraints(pattern=r"^([a-z][a-z_]{0,60}|\*)$")]


class Host(Section):
    """A GitHub: github.com, or one of the company's own."""

    api: Address = Field(
        default="https://api.github.com",
        description="address of the API; for GitHub Enterprise https://HOST/api/v3",
    )
    token: TokenName = Field(
        default="SPYRE_CI_GITHUB_TOKEN",
        description="environment variable with the token: SPYRE_CI_GITHUB_TOKEN or one that starts with it",
    )


class Hook(Section):
    """A webhook as it is to be."""

    url: Address = Field(description="where events go, such as https://jenkins.example.org/github-webhook/")
    events: tuple[Event, ...] = Field(
        min_length=1, max_length=80, description="names of GitHub's events, or * alone for all"
    )
    secret: SecretName = Field(
        description="environment variable with the secret that signs events: SPYRE_CI_WEBHOOK_…"
    )
    content_type: Literal["json", "form"] = Field(default="json", description="json or form")
    ssl_verification: bool = Field(default=True, description="whether GitHub checks the certificate")
    active: bool = Field(default=True, description="whether events are sent")

    @model_validator(mode="after")
    def _check_events(self) -> Hook:
        if "*" in self.events and len(self.events) > 1:
            raise ValueError("events: * means all events, so leave out the others")
        return self


class Repository(Section):
    """A repository and its webhooks."""

    repository: Annotated[str, StringConstraints(pattern=REPOSITORY)] = Field(description="owner/name")
    host: Name = Field(default=GITHUB, description="one of `hosts`; github.com needs no entry")
    hooks: tuple[Name, ...] = Field(max_length=20, description="names of `hooks`; [] for none")

    @property
    def name(self) -> str:
        """The name in messages: with its host, where that is not github.com."""
        return self.repository if self.host == GITHUB else f"{self.host}:{self.repository}"


class Webhooks(Section):
    """A file of webhooks."""

    hosts: dict[Name, Host] = Field(
        default={}, max_length=50, description="GitHub hosts besides github.com, by name"
    )
    hooks: dict[Name, Hook] = Field(default={}, max_length=50, description="webhooks, by name")
    repositories: tuple[Repository, ...] = Field(
        min_length=1, max_length=1000, description="the repositories"
    )

    def host_of(self, repository: Repository) -> Host:
        """The host of one of `repositories`."""
        return self.hosts.get(repository.host) or Host()

    def hooks_of(self, repository: Repository) -> tuple[Hook, ...]:
        """The hooks of one of `repositories`."""
        return tuple(self.hooks[name] for name in repository.hooks)


def read_webhooks(path: Path) -> Webhooks:
    """Read a file.

    Raises:
        MissingInputError: there is no such file.
        SettingsError: a key or value that cannot be taken, a name nobody has, one that stands twice.
    """
    document = load_document(path)
    try:
        found = Webhooks.model_validate(document.content)
    except ValidationError as error:
        raise explain(error, document, Webhooks, see=SEE) from None
    for place, what, remedy in _mistakes(found):
        key = ".".join(map(str, place))
        raise SettingsError(f"{key}: {what}", where=document.place(place), remedy=remedy)
    return found


def identity(url: str) -> str:
    """A URL without what makes no difference: case of the host, default port, last slash, user, fragment.

    One that nobody can read is its own identity.
    """
    if not (host := host_of(url)):
        return url
    parts = urlsplit(url.strip())
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), parts.query, ""))


def _mistakes(found: Webhooks) -> Iterator[tuple[Sequence[str | int], str, str]]:
    """Place, name and remedy of what stands twice, and of names that nobody has."""
    owners: dict[str, str] = {}
    for name, hook_of in found.hooks.items():
        if (other := owners.setdefault(identity(hook_of.url), name)) != name:
            yield ["hooks", name, "url"], f"{name} has the URL of {other}", "put the events of both into one"
    # GitHub takes owner and name in any case for the same.
    first: dict[tuple[str, str], int] = {}
    for number, one in enumerate(found.repositories):
        place: list[str | int] = ["repositories", number]
        if (other_number := first.setdefault((one.host, one.repository.lower()), number)) != number:
            remedy = f"put both into one, such as repositories.{other_number}"
            yield [*place, "repository"], f"{one.name!r} is listed twice", remedy
        yield from _unknown([*place, "host"], "host", one.host, [GITHUB, *found.hosts])
        for index, hook in enumerate(one.hooks):
            yield from _unknown([*place, "hooks", index], "hook", hook, list(found.hooks))
            if hook in one.hooks[:index]:
                yield [*place, "hooks", index], f"the hook {hook!r} is listed twice", "keep one of them"


def _unknown(
    place: Sequence[str | int], what: str, name: str, known: Sequence[str]
) -> Iterator[tuple[Sequence[str | int], str, str]]:
    if name not in known:
        remedy = did_you_mean(name, known, f"known: {', '.join(known)}", cutoff=0.5)
        yield place, f"there is no {what} {name!r}", remedy
