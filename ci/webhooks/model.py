"""A file of webhooks: what it may hold, read with every mistake named by file, line and key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator

from ci.config.explain import explain
from ci.config.section import REPOSITORY, Section, check_https
from ci.core.errors import SettingsError
from test_selection.yaml_reader import Document, load_document

GITHUB = "github.com"
DEFAULT_FILE = Path("jenkins/webhooks.yaml")
SEE = "docs/pipelines.md says what a file of webhooks may hold"
_PORTS = {"http": 80, "https": 443}


def _checked_https(address: str) -> str:
    check_https(urlsplit(address), "whoever listens on the way would read what is sent")
    if re.search(r"[\s\\'\"<>`]", address):
        raise ValueError("holds blanks or quotes")
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
        description="address of the API; of GitHub Enterprise https://HOST/api/v3",
    )
    token: TokenName = Field(
        default="SPYRE_CI_GITHUB_TOKEN",
        description="environment variable with the token: SPYRE_CI_GITHUB_TOKEN or one that begins so",
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
            raise ValueError("events: * is all events, and others stand beside it")
        return self


class Repository(Section):
    """A repository and its webhooks."""

    repository: Annotated[str, StringConstraints(pattern=REPOSITORY)] = Field(description="owner/name")
    host: Name = Field(default=GITHUB, description="one of `hosts`; github.com is always there")
    hooks: tuple[Name, ...] = Field(max_length=20, description="names of `hooks`; [] wants none of them")

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
    urls = [identity(hook.url) for hook in found.hooks.values()]
    for number, name in enumerate(found.hooks):
        if urls[number] in urls[:number]:
            other = list(found.hooks)[urls.index(urls[number])]
            raise _error(
                document,
                ["hooks", name, "url"],
                f"{name} has the URL of {other}",
                "give both events to one hook",
            )
    # GitHub takes owner and name in any case for the same.
    keys = [(one.host, one.repository.lower()) for one in found.repositories]
    for number, one in enumerate(found.repositories):
        place: list[str | int] = ["repositories", number]
        if keys[number] in keys[:number]:
            line = document.line(["repositories", keys.index(keys[number])])
            raise _error(
                document,
                [*place, "repository"],
                f"{one.name!r} stands twice",
                f"put both into the one on line {line}",
            )
        _check_name(document, [*place, "host"], "host", one.host, [GITHUB, *found.hosts])
        for index, hook in enumerate(one.hooks):
            _check_name(document, [*place, "hooks", index], "hook", hook, found.hooks)
            if hook in one.hooks[:index]:
                raise _error(
                    document, [*place, "hooks", index], f"the hook {hook!r} stands twice", "keep one of them"
                )
    return found


def identity(url: str) -> str:
    """A URL without what makes no difference: case of the host, default port, last slash, user, fragment.

    One that nobody can read is its own identity.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return url
    netloc = host if port in {None, _PORTS.get(parts.scheme)} else f"{host}:{port}"
    return urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), parts.query, ""))


def _check_name(
    document: Document, place: Sequence[str | int], what: str, name: str, known: Iterable[str]
) -> None:
    if name not in (names := list(known)):
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        guess = f", did you mean {close[0]!r}?" if close else ""
        raise _error(document, place, f"there is no {what} {name!r}{guess}", f"known: {', '.join(names)}")


def _error(document: Document, place: Sequence[str | int], what: str, remedy: str) -> SettingsError:
    key = ".".join(map(str, place))
    return SettingsError(f"{key}: {what}", where=document.place(place), remedy=remedy)
