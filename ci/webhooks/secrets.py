"""The secrets of webhooks, which are never short."""

from __future__ import annotations

from collections.abc import Mapping

from ci.core.errors import SettingsError
from ci.core.secrets import secret

# GitHub signs with whatever it is given; of this length nobody finds it out by trying.
LEAST_SECRET = 16


def hook_secret(environ: Mapping[str, str], name: str) -> str:
    """The secret of a webhook, or a token that starts jobs.

    Raises:
        SettingsError: there is none, or one so short that trying finds it out.
        MissingInputError: the file that was named is not there.
    """
    value = secret(environ, name, "secret of the webhook")
    if len(value) < LEAST_SECRET:
        raise SettingsError(
            f"the webhook's secret has fewer than {LEAST_SECRET} characters",
            where=name,
            remedy="make a longer one, such as by `openssl rand -hex 32`, and give it to Jenkins as well",
        )
    return value
