"""Reading Jenkins' answers: what is an error, and which; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ci.core.addresses import without_secrets
from ci.core.text import escaped
from ci.jenkins.calls import Answer
from ci.jenkins.errors import (
    JenkinsAwayError,
    JenkinsDeniedError,
    JenkinsMissingError,
    JenkinsRefusedError,
)


def refusal(answer: Answer, what: str) -> JenkinsAwayError | JenkinsDeniedError | JenkinsRefusedError:
    """The error an answer is.

    Args:
        answer: one that did not do it.
        what: was asked for.
    """
    text = f"Jenkins answers {answer.status}" + (f": {said}" if (said := _said(answer)) else "")
    login = "login" in urlsplit(answer.headers.get("location", "")).path.lower()
    if answer.status in {401, 403} or login:
        return JenkinsDeniedError(
            text,
            where=what,
            remedy="give a user and an API token of it that may read and build the job, in the variables "
            "that name them: SPYRE_CI_JENKINS_USER and SPYRE_CI_JENKINS_TOKEN where nothing else is said",
        )
    if answer.status >= 500 or answer.ok or answer.status in {408, 409, 425, 429}:  # noqa: PLR2004  # HTTP's
        # 409: somebody has disabled the job for a while.
        return JenkinsAwayError(text, where=what, remedy="another time may do")
    kind = JenkinsMissingError if answer.status == 404 else JenkinsRefusedError  # noqa: PLR2004  # HTTP's
    return kind(
        text,
        where=what,
        remedy="check Jenkins' address, the job's path, that it has parameters, and that the user may see it",
    )


def content_of(answer: Answer) -> Any:
    """What an answer holds.

    Raises:
        JenkinsAwayError: it is no JSON.
    """
    try:
        return json.loads(answer.text)
    except (ValueError, RecursionError) as error:
        raise JenkinsAwayError(
            "what answers is no Jenkins: its answer is no JSON", remedy="check Jenkins' address"
        ) from error


def rows_of(content: Any, name: str) -> list[Mapping[str, Any]]:
    """The objects of a list in an answer; what is none is left out."""
    rows = table_of(content).get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def table_of(value: Any) -> Mapping[str, Any]:
    """An object of an answer; empty where it is none."""
    return value if isinstance(value, dict) else {}


def words_of(value: Any) -> str:
    """A text of an answer as it can be shown, on one short line."""
    return escaped(" ".join(without_secrets(value).split()))[:200] if isinstance(value, str) else ""


def _said(answer: Answer) -> str:
    """Jenkins' own words, without the page around them."""
    return words_of(re.sub(r"<[^>]{0,500}>", " ", answer.text[:5000]))
