"""Downloads from where GitHub leads to: a store of somebody else's, which is shown no token."""

from __future__ import annotations

import time
from pathlib import Path

import requests
from urllib3.exceptions import HTTPError

from ci.core.addresses import without_secrets
from ci.core.github.errors import GitHubAwayError, GitHubRefusedError
from ci.core.http import as_nobody, pieces
from test_selection.files import atomic_writer

# A server that drips is waited for no longer, however big a download is.
FETCH_S = 600.0


def fetch(url: str, into: Path, *, what: str, most_bytes: int, timeout_s: float) -> int:
    """Write what is at an address into a file, whole or not at all, and return its size.

    Args:
        url: where; nobody is shown a token, a password of ~/.netrc or a redirect.
        into: the file.
        what: named in errors, in place of the address, which may be a secret.
        most_bytes: it may have.
        timeout_s: between two bytes.

    Raises:
        GitHubAwayError: it did not come, or not whole.
        GitHubRefusedError: it is bigger.
    """
    size = 0
    # The real clock, as the socket waits in real time.
    end = time.monotonic() + FETCH_S
    try:
        with (
            requests.get(
                url, stream=True, timeout=timeout_s, allow_redirects=False, auth=as_nobody
            ) as response,
            atomic_writer(into) as file,
        ):
            if response.status_code != 200:  # noqa: PLR2004  # HTTP's own number
                raise GitHubAwayError(
                    f"{what}: its store answers with {response.status_code}", remedy="do it again"
                )
            for chunk in pieces(response, until=end, most_bytes=most_bytes):
                size += len(chunk)
                if size > most_bytes:
                    raise GitHubRefusedError(
                        f"{what}: has more than {most_bytes:,} bytes", remedy="nothing of it is used"
                    )
                file.write(chunk)
    except TimeoutError as error:
        raise GitHubAwayError(f"{what}: takes longer than {FETCH_S:.0f} s", remedy="do it again") from error
    except (requests.RequestException, HTTPError, ConnectionError) as error:
        said = without_secrets(str(error))[:200]
        raise GitHubAwayError(f"{what}: did not come whole: {said}", remedy="do it again") from error
    return size
