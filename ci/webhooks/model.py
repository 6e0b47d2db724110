"""What a file of webhooks may hold; every key says what it means."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from ci.config.section import REPOSITORY, Section, check_https

GITHUB = "github.com"
GITHUB_API = "https://api.github.com"
GITHUB_TOKEN = "SPYRE_CI_GITHUB_TOKEN"  # noqa: S105  # the variable's name, not a secret
MAX_REPOSITORIES = 1000


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
