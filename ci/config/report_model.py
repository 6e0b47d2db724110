"""The settings of what becomes of results: who hears of them, and how long that may take."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from ci.config.section import REPOSITORY, Seconds, Section
from ci.core.addresses import is_loopback

# PyTorch's relay may take about 47 s; whoever goes away before has no answer, and his second try is refused.
RELAY_TIMEOUT_S = 60


class Dispatch(Section):
    """A GitHub repository that reports for a CI that the relay does not know."""

    repository: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$",
        description="owner/name that `hud send` asks to report, where no token can be minted; none: nobody",
    )
    workflow: str = Field(
        default="hud-report.yml", pattern=r"^[A-Za-z0-9_.-]+\.ya?ml$", description="its workflow file"
    )
    ref: str = Field(
        default="main",
        pattern=r"^[A-Za-z0-9_./-]{1,255}$",
        description="branch or tag the file is taken from",
    )
    api: str = Field(
        default="https://api.github.com",
        pattern=r"^https?://[^\s?#@]+$",
        description="GitHub's API; another one is taken from the environment only",
    )
    token_file: Path | None = Field(
        default=None,
        description="file with a token that may start workflows; the variable SPYRE_CI_GITHUB_TOKEN wins",
    )


class Report(Section):
    """What becomes of the results."""

    endpoint: str = Field(
        default="embedded",
        pattern=r"^(embedded|none|https?://\S+)$",
        description="`embedded`, `none`, or the URL of a HUD-compatible server (the relay's callback path "
        "is added where the URL has no path); a token is sent there only where the environment gives it",
    )
    token_file: Path | None = Field(
        default=None,
        description="file with the bearer token; the environment's SPYRE_CI_HUD_TOKEN wins; without either a "
        "GitHub job with `id-token: write` mints one a report",
    )
    audience: str = Field(
        default="pytorch-cross-repo-ci-relay",
        pattern=r"^[\x21-\x7e]{1,255}$",
        description="whom a token minted by GitHub is for",
    )
    event_file: Path | None = Field(
        default=None,
        description="file with the relay's dispatch the run answers, given by hand; none: GitHub's event",
    )
    own_server: bool = Field(
        default=False,
        description="whether the endpoint is a server of our own, so that a pull request's report may carry "
        "what HUD's contract has no field for; upstream requires the dispatch's payload unchanged",
    )
    dispatch: Dispatch = Field(default_factory=Dispatch)
    job_name: str = Field(
        default="",
        pattern=r"^([^:]*[^:0-9\s][^:]*)?$",
        description="name of the check at HUD, with the lane or device behind it; none: the CI's job",
    )
    repository: str = Field(
        default="torch-spyre/torch-spyre",
        pattern=REPOSITORY,
        description="owner/name the results are reported for, in its exact letter case",
    )
    timeout_s: Seconds = Field(
        default=RELAY_TIMEOUT_S,
        description="of one HTTP request; below the 60 that PyTorch's relay may take only to a server of our "
        "own (embedded, on this machine, own_server)",
    )
    budget_s: Seconds = Field(
        default=300,
        description="time a run spends on delivering its report, which holds two waits of the relay's limit; "
        "the outbox keeps what is left",
    )

    @model_validator(mode="after")
    def _outlasts_the_relay(self) -> Report:
        if self.timeout_s < RELAY_TIMEOUT_S and self._is_foreign():
            raise ValueError(
                f"timeout_s is {self.timeout_s:g}, and PyTorch's relay may take up to {RELAY_TIMEOUT_S} s to "
                "answer: raise it, or set own_server where the endpoint is a server of yours"
            )
        return self

    def _is_foreign(self) -> bool:
        """Whether reports may go to PyTorch's relay: to no server that is known to be of our own."""
        if self.endpoint in {"embedded", "none"} or self.own_server:
            return False
        try:
            return not is_loopback(urlsplit(self.endpoint).hostname or "")
        except ValueError:
            return False  # it is no address, which is said when it is used
