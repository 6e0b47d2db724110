"""The settings of the HUD-compatible server: where it listens, what it takes and from whom."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, model_validator

from ci.config.section import REPOSITORY, Seconds, Section, check_https

AUDIENCE = "pytorch-cross-repo-ci-relay"


def _split(text: str) -> SplitResult:
    parts = urlsplit(text)
    # It is looked at only when it is asked for, which would be at the first token.
    if parts.netloc and parts.port == 0:
        raise ValueError("names port 0")
    return parts


def _key_url(text: str) -> str:
    """An https URL without query, fragment or credentials; http where this machine is asked."""
    check_https(_split(text), "who can change keys on their way can write for everybody")
    return text


KeyUrl = Annotated[str, AfterValidator(_key_url)]
Repository = Annotated[str, Field(pattern=REPOSITORY)]


class Issuer(Section):
    """A party whose OIDC tokens say which repository reports."""

    url: KeyUrl = Field(description="the `iss` of its tokens, character for character")
    kind: Literal["github", "buildkite", "jenkins", "claim"] = Field(
        default="claim",
        description="whose tokens they are: github, buildkite, jenkins, or any other's (claim)",
    )
    keys: KeyUrl | None = Field(
        default=None,
        description="URL of its keys (JWKS); none: url + /.well-known/jwks, of Jenkins url + /jwks",
    )
    audience: str = Field(default=AUDIENCE, min_length=1, description="the `aud` its tokens must have")
    claim: str = Field(
        default="",
        description="the claim that tells reporters apart; none: repository, of Jenkins sub (the job's URL)",
    )
    repositories: dict[str, Repository] = Field(
        default_factory=dict,
        description="what the claim says, `*` for any text, to owner/name; Buildkite: organization/pipeline",
    )

    @model_validator(mode="after")
    def _maps_what_names_no_repository(self) -> Issuer:
        if self.kind in {"buildkite", "jenkins"} and not self.repositories:
            raise ValueError(f"a {self.kind} token names no repository: map what it names in `repositories`")
        if self.kind == "buildkite" and self.claim:
            raise ValueError("Buildkite's claims are organization_slug and pipeline_slug; leave `claim` out")
        return self

    @property
    def keys_url(self) -> str:
        """Where its keys are."""
        return self.keys or self.url + ("/jwks" if self.kind == "jenkins" else "/.well-known/jwks")

    @property
    def told_by(self) -> tuple[str, ...]:
        """The claims that tell its reporters apart."""
        if self.kind == "buildkite":
            return ("organization_slug", "pipeline_slug")
        return (self.claim or ("sub" if self.kind == "jenkins" else "repository"),)

    def repository_of(self, said: str) -> str | None:
        """The repository that what a claim says stands for; None where the settings name none.

        Where nothing is mapped the claim is the repository itself.
        """
        if not self.repositories:
            return said if re.fullmatch(REPOSITORY, said) else None
        for pattern, repository in self.repositories.items():
            # Only `*` is a wildcard of ours.
            if fnmatchcase(said, pattern.replace("[", "[[]").replace("?", "[?]")):
                return repository
        return None


class Hud(Section):
    """The embedded HUD-compatible server."""

    host: str = Field(default="127.0.0.1", description="address it listens on")
    port: int = Field(default=8765, ge=0, le=65535, description="port it listens on; 0: any free one")
    issuers: list[Issuer] = Field(
        default_factory=list, max_length=64, description="whose OIDC tokens are taken, besides its own token"
    )
    allow_list: Path | None = Field(
        default=None,
        description="file of repositories by level, L1 to L4; below L2 reports are ignored; "
        "none: report.repository alone is taken",
    )
    rate_limit: int = Field(
        default=100, ge=1, le=100_000, description="requests of one repository taken in a minute"
    )
    write_token: Path | None = Field(
        default=None,
        description="file with the token that writes for report.repository; none: one is made in the state "
        "folder",
    )
    read_token: Path | None = Field(
        default=None,
        description="file with the token that reading takes; none: everybody who can connect reads",
    )
    ingest_token: Path | None = Field(
        default=None,
        description="file with the token of a relay that posts to /api/crcr/results; none: no relay does",
    )
    webhook_secret: Path | None = Field(
        default=None,
        description="file with the secret of a GitHub webhook for pull requests; none: it is not taken",
    )
    sweep_every_s: Seconds = Field(
        default=600, description="how often jobs that were silent for 6 hours are marked as timed out"
    )

    @model_validator(mode="after")
    def _told_apart(self) -> Hud:
        urls = [one.url for one in self.issuers]
        twice = next((url for url in urls if urls.count(url) > 1), None)
        if twice is not None:
            raise ValueError(f"issuers names {twice!r} twice")
        return self
