"""Whether a workflow can be started by hand and its runs be told from each other; pure."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import yaml

from ci.errors import BadFileError, SpyreCiError
from ci.lanes.remote_errors import NotFindableError
from ci.pipeline.payload import at, text_at

INPUT = "idempotency_key"


def names(title: str, order: str) -> bool:
    """Whether a run's name has an order's id in it, and not one that only begins or ends so."""
    return re.search(rf"(?<![A-Za-z0-9_-]){re.escape(order)}(?![A-Za-z0-9_-])", title) is not None


def events_of(content: Any) -> Any:
    """What begins a workflow, of its file as YAML reads it; None where nothing does."""
    # YAML 1.1 reads a bare `on` as true.
    return content.get("on", content.get(True)) if isinstance(content, dict) else None


def check_workflow(text: str, where: str) -> None:
    """Refuse a workflow that a lane cannot start and find again.

    Args:
        text: of its file.
        where: it is, in errors.

    Raises:
        BadFileError: it is no workflow, or has no `workflow_dispatch`.
        NotFindableError: its runs cannot be told from each other.
    """
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        content = None
    table = content if isinstance(content, dict) else {}
    triggers = events_of(content)
    found = triggers if isinstance(triggers, dict | list) else [triggers]
    if "workflow_dispatch" not in found:
        raise BadFileError(
            "the workflow cannot be started by hand: it has no `workflow_dispatch`",
            where=where,
            remedy="add `workflow_dispatch` under `on`, on the branch and on the default branch",
        )
    inputs = at(triggers, "workflow_dispatch", "inputs")
    name = str(table.get("run-name", ""))
    if not isinstance(inputs, dict) or INPUT not in inputs or f"inputs.{INPUT}" not in name:
        raise NotFindableError(
            f"the names of its runs do not hold the input {INPUT}: a start whose answer is lost would be "
            "started twice",
            where=where,
            remedy=f"declare the input {INPUT} under `workflow_dispatch`, and put "
            f"`${{{{ inputs.{INPUT} }}}}` into `run-name`",
        )


def text_of(told: Any) -> str:
    """A file's text out of GitHub's answer.

    Args:
        told: the answer.

    Raises:
        SpyreCiError: it is no file.
    """
    try:
        return base64.b64decode(text_at(told, "content"), validate=False).decode("utf-8", "replace")
    except (binascii.Error, ValueError) as error:
        raise SpyreCiError("GitHub does not give the workflow's file", remedy="check `workflow`") from error
