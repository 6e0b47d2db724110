"""A file of webhooks: what it may hold, read with every mistake named, and when two URLs are the same."""

from __future__ import annotations

import difflib
import re
import string
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator

from ci.config.explain import explain
from ci.config.section import REPOSITORY, Section, check_https
from ci.core.errors import SettingsError
from test_selection.yaml_reader import Document, load_document

GITHUB = "github.com"
GITHUB_API = "https://api.github.com"
GITHUB_TOKEN = "SPYRE_CI_GITHUB_TOKEN"  # noqa: S105  # the variable's name, not a secret
MAX_REPOSITORIES = 1000
DEFAULT_FILE = Path("jenkins/webhooks.yaml")
SEE = "docs/pipelines.md says what a file of webhooks may hold"
_PORTS = {"http": 80, "https": 443}
# What a URL may say with or without an escape, to the same effect (RFC 3986, 6.2.2).
_UNRESERVED = string.ascii_letters + string.digits + "-._~"


def _checked_https(address: str) -> str:
    check_https(urlsplit(address), "whoever listens on the way would read what is sent")
    if re.search(r"[\s\\'\"<>`]", address):
        raise ValueError("holds blanks or quotes")
    return address


def _checked_base(address: str) -> str:
    return _checked_https(address).rstrip("/")


def _checked_job(path: str) -> str:
    if any(part.strip() in {"", ".", ".."} for part in path.split("/")):
        raise ValueError("is no path of a job: give folders and job, such as spyre/pull-request")
    return path


# A prefix of our own: no change of this file sends another variable of a job to whoever it names.
SecretName = Annotated[str, StringConstraints(pattern=r"^SPYRE_CI_WEBHOOK_[A-Z0-9_]{1,80}$")]
TokenName = Annotated[str, StringConstraints(pattern=r"^SPYRE_CI_GITHUB_TOKEN(_[A-Z0-9_]{1,80})?$")]
JenkinsName = Annotated[str, StringConstraints(pattern=r"^SPYRE_CI_JENKINS_[A-Z0-9_]{1,80}$")]
Address = Annotated[str, AfterValidator(_checked_https)]
Base = Annotated[str, AfterValidator(_checked_base)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,60}$")]
Event = Annotated[str, StringConstraints(pattern=r"^([a-z][a-z_]{0,60}|\*)$")]
# Names of folders and of the job, as in Jenkins: no `job/` between them, nothing a URL would read anew.
JobPath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_. /-]{1,300}$"), AfterValidator(_checked_job)
]
# A branch's name, or a pattern of names: * for anything, ? for one character.
Pattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.*?/+@#=-]{1,200}$")]


class Host(Section):
    """A GitHub: github.com, or one of the company's own."""

    api: Base = Field(description="address of the API; of GitHub Enterprise https://HOST/api/v3")
    token: TokenName = Field(
        default=GITHUB_TOKEN,
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
    token: SecretName | None = Field(
        default=None,
        description="environment variable with a token that is added to the URL as ?token=, by which the "
        "Generic Webhook Trigger of Jenkins finds its job: SPYRE_CI_WEBHOOK_…",
    )
    content_type: Literal["json", "form"] = Field(default="json", description="json or form")
    ssl_verification: bool = Field(default=True, description="whether GitHub checks the certificate")
    active: bool = Field(default=True, description="whether events are sent")

    @model_validator(mode="after")
    def _check_events(self) -> Hook:
        if "*" in self.events and len(self.events) > 1:
            raise ValueError("events: * is all events, and others stand beside it")
        return self


class Start(Section):
    """How a head is tested."""

    job: JobPath = Field(description="the Jenkins job with its folders, such as spyre/pull-request")


class PullRequests(Start):
    """Heads of open pull requests."""

    bases: tuple[Pattern, ...] = Field(
        default=("*",), min_length=1, max_length=50, description="branches they want to go to"
    )
    trust: Literal["repository", "members", "contributors", "everyone"] = Field(
        default="contributors",
        description="whose are started: of branches of the repository itself; of its members too; of who has "
        "contributed before too; of everyone",
    )


class Branches(Start):
    """Heads of branches."""

    names: tuple[Pattern, ...] = Field(min_length=1, max_length=50, description="branches, such as main")


class Poll(Section):
    """What is asked for because no webhook can tell."""

    pull_requests: PullRequests | None = Field(default=None, description="start heads of pull requests")
    branches: Branches | None = Field(default=None, description="start heads of branches")

    @model_validator(mode="after")
    def _check_some(self) -> Poll:
        if self.pull_requests is None and self.branches is None:
            raise ValueError("names neither pull_requests nor branches, so nothing would be started")
        return self


class Repository(Section):
    """A repository, with its webhooks or what is polled of it."""

    repository: Annotated[str, StringConstraints(pattern=REPOSITORY)] = Field(description="owner/name")
    host: Name = Field(default=GITHUB, description="one of `hosts`; github.com is always there")
    hooks: tuple[Name, ...] | None = Field(
        default=None,
        max_length=20,
        description="names of `hooks`; without the key nobody looks at its webhooks, and [] wants none",
    )
    poll: Poll | None = Field(default=None, description="what is polled, where webhooks cannot reach Jenkins")

    @property
    def name(self) -> str:
        """What people, state and messages call it: with its host, where that is not github.com."""
        return self.repository if self.host == GITHUB else f"{self.host}:{self.repository}"


class Jenkins(Section):
    """The Jenkins that the poller starts jobs of."""

    url: Base = Field(description="its address, such as https://jenkins.example.org")
    user: JenkinsName = Field(
        default="SPYRE_CI_JENKINS_USER", description="environment variable with the user's name"
    )
    token: JenkinsName = Field(
        default="SPYRE_CI_JENKINS_TOKEN", description="environment variable with the user's API token"
    )


class Webhooks(Section):
    """A file of webhooks."""

    hosts: dict[Name, Host] = Field(
        default={}, max_length=50, description="GitHub hosts besides github.com, by name"
    )
    hooks: dict[Name, Hook] = Field(default={}, max_length=50, description="webhooks, by name")
    keep: tuple[Address, ...] = Field(
        default=(), max_length=100, description="URLs of hooks on our host that are somebody else's"
    )
    jenkins: Jenkins | None = Field(default=None, description="the Jenkins that polling starts jobs of")
    repositories: tuple[Repository, ...] = Field(
        default=(), max_length=MAX_REPOSITORIES, description="the repositories"
    )

    def host_of(self, repository: Repository) -> Host:
        """The host of one of `repositories`."""
        return self.hosts.get(repository.host) or Host(api=GITHUB_API)

    def hooks_of(self, repository: Repository) -> tuple[Hook, ...]:
        """The hooks of one of `repositories`."""
        return tuple(self.hooks[name] for name in repository.hooks or ())


def read_webhooks(path: Path) -> Webhooks:
    """The content of a file.

    Raises:
        MissingInputError: there is no such file.
        SettingsError: a key or value that cannot be taken, a name nobody has, a repository that stands twice.
    """
    document = load_document(path)
    try:
        found = Webhooks.model_validate(document.content)
    except ValidationError as error:
        raise explain(error, document, Webhooks, see=SEE) from None
    _check_targets(found, document)
    seen: dict[tuple[str, str], int] = {}
    for index, one in enumerate(found.repositories):
        _check_names(found, one, index, document)
        # GitHub takes owner and name in any case for the same.
        key = (one.host, one.repository.lower())
        if key in seen:
            raise _error(
                document,
                ["repositories", index, "repository"],
                f"{one.name!r} stands twice",
                f"put both into the one on line {document.line(['repositories', seen[key]])}",
            )
        seen[key] = index
    return found


def chosen(found: Webhooks, names: Sequence[str], where: Path) -> tuple[Repository, ...]:
    """The repositories that a command names, all where it names none.

    Raises:
        SettingsError: one of them is not in the file.
    """
    known = {one.name: one for one in found.repositories}
    for name in names:
        if name not in known:
            raise SettingsError(
                f"there is no repository {name!r}{_guess(name, known)}",
                where=where,
                remedy=f"known: {', '.join(known) or 'none'}",
            )
    return tuple(one for one in found.repositories if not names or one.name in names)


def _check_targets(found: Webhooks, document: Document) -> None:
    """Refuse two hooks that GitHub could not keep apart, and one that is also to be kept."""
    seen: dict[str, str] = {}
    kept = {target(url) for url in found.keep}
    for name, hook in found.hooks.items():
        place = ["hooks", name, "url"]
        if (other := seen.get(target(hook.url))) is not None:
            raise _error(document, place, f"{name} has the URL of {other}", "give both events to one hook")
        if target(hook.url) in kept:
            raise _error(document, place, f"{name} is also somebody else's", "take it out of `keep`")
        seen[target(hook.url)] = name


def _check_names(found: Webhooks, one: Repository, index: int, document: Document) -> None:
    place: list[str | int] = ["repositories", index]
    if one.host != GITHUB and one.host not in found.hosts:
        raise _unknown(document, [*place, "host"], "host", one.host, [GITHUB, *found.hosts])
    for number, hook in enumerate(one.hooks or ()):
        if hook not in found.hooks:
            raise _unknown(document, [*place, "hooks", number], "hook", hook, found.hooks)
        if hook in (one.hooks or ())[:number]:
            raise _error(
                document, [*place, "hooks", number], f"the hook {hook!r} stands twice", "keep one of them"
            )
    if one.poll is not None and found.jenkins is None:
        raise _error(
            document,
            [*place, "poll"],
            "there is no Jenkins to start anything of it",
            "give jenkins.url",
        )


def _unknown(
    document: Document, place: Sequence[str | int], what: str, name: str, known: Iterable[str]
) -> SettingsError:
    known = list(known)
    return _error(
        document, place, f"there is no {what} {name!r}{_guess(name, known)}", f"known: {', '.join(known)}"
    )


def _guess(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f", did you mean {close[0]!r}?" if close else ""


def _error(document: Document, place: Sequence[str | int], what: str, remedy: str) -> SettingsError:
    key = ".".join(map(str, place))
    return SettingsError(f"{key}: {what}", where=document.place(place), remedy=remedy)


def identity(url: str) -> str:
    """What two spellings of a URL have in common: host in small letters, no default port, no last slash.

    Nobody's name and password, no escape that is not needed. A URL that nobody can read is its own identity.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return url
    scheme = parts.scheme.lower()
    netloc = host if port in {None, _PORTS.get(scheme)} else f"{host}:{port}"
    path, query = (re.sub("%[0-9A-Fa-f]{2}", _unescaped, one) for one in (parts.path, parts.query))
    return urlunsplit((scheme, netloc, path.rstrip("/"), query, ""))


def _unescaped(match: re.Match[str]) -> str:
    sign = chr(int(match[0][1:], 16))
    return sign if sign in _UNRESERVED else match[0].upper()


def with_token(hook: Hook, token: str) -> Hook:
    """A hook with a token in its URL, by which Jenkins finds a job; GitHub can send it no other way."""
    return hook.model_copy(update={"url": f"{hook.url}?token={quote(token, safe='')}"})


def without_token(url: str) -> tuple[str, str]:
    """A URL without its token, and the token; empty where it has none."""
    where, _, query = url.partition("?")
    parts = [one for one in query.split("&") if one]
    rest = "&".join(one for one in parts if not one.startswith("token="))
    token = "&".join(one for one in parts if one.startswith("token="))
    return f"{where}?{rest}" if rest else where, token


def target(url: str) -> str:
    """What a hook is known by: its URL however that is spelled and whatever its token is.

    A token that was renewed leaves no second hook behind.
    """
    return without_token(identity(url))[0]
