"""Reading a file of webhooks: typed, with every mistake named by file, line and key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from ci.config.explain import explain
from ci.core.errors import SettingsError
from ci.webhooks.model import GITHUB, Repository, Webhooks
from ci.webhooks.urls import target
from test_selection.yaml_lines import Document, load_document

DEFAULT_FILE = Path("jenkins/webhooks.yaml")
SEE = "docs/pipelines.md says what a file of webhooks may hold"


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
