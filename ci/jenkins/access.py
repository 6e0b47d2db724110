"""Connecting to a Jenkins with a user and token of the environment."""

from __future__ import annotations

from collections.abc import Mapping

from ci.config.recipient import check_recipient
from ci.core.secrets import secret
from ci.jenkins.calls import Caller
from ci.jenkins.client import Jenkins

USER_VARIABLE, TOKEN_VARIABLE = "SPYRE_CI_JENKINS_USER", "SPYRE_CI_JENKINS_TOKEN"


def connect(
    environ: Mapping[str, str],
    url: str,
    *,
    user: str = USER_VARIABLE,
    token: str = TOKEN_VARIABLE,
    timeout_s: float = 30,
) -> Jenkins:
    """The client of a Jenkins; nothing is asked of it yet.

    Args:
        environ: the environment.
        url: of the Jenkins.
        user: variable with the user's name.
        token: variable with an API token of it.
        timeout_s: of an exchange.

    Raises:
        SettingsError: there is no user or token, or none is to be sent there.
        MissingInputError: a file with one is not there.
    """
    check_recipient(environ, url, "token for Jenkins")
    return Jenkins(
        Caller(
            url.rstrip("/"),
            user=secret(environ, user, "user for Jenkins"),
            token=secret(environ, token, "token for Jenkins"),
            timeout_s=timeout_s,
        )
    )
