"""Check package indexes: which has the torch that is pinned, and what is wrong with the others.

They are pip's own and those the settings publish to; all are asked at once.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Literal
from urllib.parse import unquote, urlsplit

from packaging.tags import Tag, sys_tags
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from ci.core.addresses import shown
from ci.core.errors import CommandError
from ci.core.text import shell_line
from ci.doctor.fetch import FetchError, Page, Way, fetch
from ci.doctor.finding import Finding, Level, ok
from ci.doctor.pip_settings import PipSettings, of_environ, of_listing
from ci.doctor.pytorch import pin_of, torch_requirements
from ci.doctor.world import World

INDEX = "index"
# has: the pin for this Python. other: the pin, for others. lacks: torch, not the pin. none: no torch.
# login, away, odd: it was asked in vain.
State = Literal["has", "other", "lacks", "none", "login", "away", "odd"]
_NAME = re.compile(r">\s*([^<>\s]{1,300}\.(?:whl|tar\.gz|zip))\s*</a", re.IGNORECASE)
_ASKED_IN_VAIN = ("login", "away", "odd")
# What a file system takes, and some dozens of times what wheels have.
_MAX_NAME, _MAX_TAGS = 255, 1000
PIP_S, PAGE_S = 12.0, 10.0
ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.2"
_MISSING, _LOGIN, _OK = 404, (401, 403), 200
_FOLDERS = {"", "file"}
_NO_PIP = "No module named pip"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFacts:
    """One index, or one folder of packages.

    Attributes:
        shown: its address without what may be secret.
        state: what it has, or why that is not known.
        why: more of that, in its own words.
        signed_in: whether its address holds a user, so that a refusal is of that one.
        setting: that names it.
    """

    shown: str
    state: State
    why: str = ""
    signed_in: bool = False
    setting: str = "index-url"


def state_of(names: Iterable[str], pin: str, tags: Iterable[Tag]) -> State:
    """What files of torch come to.

    Args:
        names: of files; those of other projects, and what is no package, do not count.
        pin: the version that is wanted; empty: any will do.
        tags: of wheels that can be installed here.
    """
    usable, wanted = set(tags), Version(pin).public if pin else ""
    state: State = "none"
    for version, one in filter(None, map(_parsed, names)):
        if wanted and version.public != wanted:
            state = "lacks" if state == "none" else state
        elif one is None or usable & one:
            return "has"
        else:
            state = "other"
    return state


def names_of(page: str) -> list[str]:
    """The names of files that a page of a simple index links to (PEP 503)."""
    return _NAME.findall(page)


def judge_indexes(
    indexes: Sequence[IndexFacts], *, pin: str, installs: bool, note: str = ""
) -> list[Finding]:
    """Whether pip finds the torch that is pinned.

    Args:
        indexes: pip's, in its order.
        pin: the version; empty: unknown.
        installs: whether `nox -s pytorch` installs it, so that a run cannot do without.
        note: what else is to be said of how they were found.
    """
    wanted = f"torch {pin}" if pin else "torch"
    having = [one for one in indexes if one.state == "has"]
    if having:
        asked = f" ({len(indexes)} places asked)" if len(indexes) > 1 else ""
        first = ok(INDEX, f"{wanted} is to be had of {having[0].shown}{asked}{note}")
        # pip goes on without one that does not answer, and tries it again for long first.
        return [first, *(_bad(one, Level.WARNING) for one in indexes if one.state in _ASKED_IN_VAIN)]
    level = Level.FAULT if installs else Level.WARNING
    if not indexes:
        return [
            Finding(
                look=INDEX,
                level=level,
                said=f"pip is told to ask no index{note}",
                remedy="unset PIP_NO_INDEX",
            )
        ]
    wrong = [_bad(one, level) for one in indexes if one.state in _ASKED_IN_VAIN]
    return wrong + [
        _lacking(one, wanted, Level.WARNING if wrong else level)
        for one in indexes
        if one.state not in _ASKED_IN_VAIN
    ]


def judge_broken(why: str, *, installs: bool, python: str) -> Finding:
    """A pip that cannot use its own settings, and so installs nothing from anywhere.

    Args:
        why: as it says.
        installs: whether `nox -s pytorch` calls it.
        python: the interpreter, for the remedy.
    """
    look = shell_line([python, "-m", "pip", "config", "list"])
    return Finding(
        look=INDEX,
        level=Level.FAULT if installs else Level.WARNING,
        said=f"pip cannot use its settings: {why}",
        remedy=f"mend the file or the variable it names, until this ends well: {look}",
    )


def judge_own(indexes: Sequence[IndexFacts]) -> list[Finding]:
    """Whether the indexes answer that the settings publish to; what they have does not matter."""
    return [
        _bad(one, Level.FAULT)
        if one.state in _ASKED_IN_VAIN
        else ok(INDEX, f"{one.shown} of {one.setting} answers")
        for one in indexes
    ]


def _bad(one: IndexFacts, level: Level) -> Finding:
    where = f"{one.shown} ({one.setting})"
    if one.state == "login":
        if one.signed_in:
            said, remedy = (
                f"refuses the login in its address{one.why and ': '}{one.why}",
                f"mend the user or password of {one.setting}",
            )
        else:
            said, remedy = (
                f"shows nothing without a login{one.why and ': '}{one.why}",
                "put one that may read into ~/.netrc",
            )
    elif one.state == "odd":
        said, remedy = f"is no package index: {one.why}", f"check the address of {one.setting}"
    else:
        said, remedy = (
            f"cannot be used: {one.why}",
            f"check the network, the proxy and the address of {one.setting}",
        )
    return Finding(look=INDEX, level=level, said=f"{where} {said}", remedy=remedy)


def _lacking(one: IndexFacts, wanted: str, level: Level) -> Finding:
    said = {
        "other": f"has {wanted}, and no wheel of it for this Python and machine",
        "lacks": f"has torch, and not {wanted}",
    }.get(one.state, "has no torch")
    remedy = "name an index that has it: pip config set global.extra-index-url URL"
    if one.state == "other":
        remedy = (
            "use a Python that it has one for, or name an index: pip config set global.extra-index-url URL"
        )
    return Finding(look=INDEX, level=level, said=f"{one.shown} ({one.setting}) {said}", remedy=remedy)


def _parsed(name: str) -> tuple[Version, frozenset[Tag] | None] | None:
    # A name stands for each pair of its tags: one that somebody made to have millions is no wheel of torch.
    if len(name) > _MAX_NAME or prod(one.count(".") + 1 for one in name.split("-")[-3:]) > _MAX_TAGS:
        return None
    try:
        if name.endswith(".whl"):
            project, version, _, tags = parse_wheel_filename(name)
            return (version, tags) if project == "torch" else None
        project, version = parse_sdist_filename(name)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None
    return (version, None) if project == "torch" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Asks one place after the other for torch.

    Attributes:
        pip: certificates, proxy and trust.
        pin: the version that is wanted.
        tags: of wheels that can be installed here.
        clock: seconds since the epoch.
    """

    pip: PipSettings
    pin: str
    tags: Sequence[Tag]
    clock: Callable[[], float]

    def index(self, address: str, setting: str) -> IndexFacts:
        """What a simple API has; `address` may hold a password, and what is made of it does not."""
        return self._place(address, f"{address.rstrip('/')}/torch/", setting)

    def links(self, address: str) -> IndexFacts:
        """What a folder or a page of links has."""
        return self._place(address, address, "find-links")

    def _place(self, address: str, page: str, setting: str) -> IndexFacts:
        try:
            parts = urlsplit(address)
            signed_in, local = "@" in parts.netloc, parts.scheme in _FOLDERS
            # A password that nobody escaped may look like a port, or like a path.
            usable = local or (bool(parts.hostname) and parts.port != 0)
        except ValueError:
            usable = False
        if not usable:
            return IndexFacts(shown=shown(address), state="away", why="it is no address", setting=setting)
        state, why = self._of_folder(address, page) if local else self._of_page(page)
        return IndexFacts(shown=shown(address), state=state, why=why, signed_in=signed_in, setting=setting)

    def _of_folder(self, address: str, page: str) -> tuple[State, str]:
        root, folder = (Path(unquote(urlsplit(one).path)).expanduser() for one in (address, page))
        try:
            if root.is_file():
                names = (
                    [root.name]
                    if root.suffix in {".whl", ".gz"}
                    else names_of(root.read_text(errors="replace"))
                )
                return state_of(names, self.pin, self.tags), ""
            if not root.is_dir():
                return "away", "it is no folder"
            if not folder.is_dir():
                return "none", ""
            names = [one.name for one in folder.iterdir()]
            if (folder / "index.html").is_file():
                names += names_of((folder / "index.html").read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            return "away", f"it cannot be read: {error.strerror}"
        return state_of(names, self.pin, self.tags), ""

    def _of_page(self, url: str) -> tuple[State, str]:
        way = Way(
            accept=ACCEPT,
            follows=True,
            logs_in=True,
            whole=True,
            certificates=self._trust(url),
            proxy=self.pip.proxy,
        )
        try:
            page = fetch(url, way, limit_s=PAGE_S, clock=self.clock)
        except FetchError as error:
            return "away", str(error)
        if page.status in _LOGIN:
            return "login", f"it answered {page.status}"
        if page.status == _MISSING:
            return "none", ""
        if page.status != _OK:
            return "away", f"it answered {page.status}"
        names = _names(page)
        return (
            ("odd", "its page of torch names no file")
            if names is None
            else (state_of(names, self.pin, self.tags), "")
        )

    def _trust(self, url: str) -> str | None:
        parts = urlsplit(url)
        port = f"{parts.hostname}:{parts.port}" if parts.port else ""
        return None if {parts.hostname, port} & set(self.pip.trusted) else self.pip.certificates


def look_index(world: World) -> list[Finding]:
    """Whether the pinned torch is to be had, and whether the settings' own indexes answer."""
    pip, note = pip_settings(world)
    if pip.broken:
        return [judge_broken(pip.broken, installs=installs(world), python=sys.executable)]
    asker = Asker(pip=pip, pin=pin_of(torch_requirements()), tags=list(sys_tags()), clock=world.clock)
    names = ["index-url", *["extra-index-url"] * len(pip.indexes[1:])]
    indexes = [] if pip.alone else [*zip(pip.indexes, names, strict=True)]
    own = [
        (one.simple, f"package.indexes.{name}")
        for name, one in sorted(world.settings.model.package.indexes.items())
    ]
    of_pip = at_once([
        *(lambda one=one: asker.index(*one) for one in indexes),
        *(lambda link=link: asker.links(link) for link in pip.links),
        *(lambda one=one: asker.index(*one) for one in own),
    ])  # fmt: skip
    theirs = of_pip[: len(indexes) + len(pip.links)]
    return [
        *judge_indexes(theirs, pin=asker.pin, installs=installs(world), note=note),
        *judge_own(of_pip[len(theirs) :]),
    ]


def pip_settings(world: World) -> tuple[PipSettings, str]:
    """Where pip looks, and what is to be said of how that is known."""
    try:
        argv = [sys.executable, "-P", "-m", "pip", "config", "list"]
        ended = world.processes.finish(argv, env=world.environ, limit_s=PIP_S)
    except CommandError:
        return of_environ(world.environ), "; pip did not say where it looks, so only its variables count"
    if ended.code != 0:
        why = ended.stderr.decode("utf-8", "replace")
        broken = "" if _NO_PIP in why else _reason(why) or f"pip ended with code {ended.code}"
        found = replace(of_environ(world.environ), broken=broken)
        return found, "; there is no pip that says where it looks, so only its variables count"
    return of_listing(ended.stdout.decode("utf-8", "replace").splitlines()), ""


def _reason(said: str) -> str:
    """What pip says of its settings, without the line of a file that it quotes: it may hold a password."""
    return " ".join(line.strip() for line in said.splitlines() if not line.startswith(("'", '"')))


def installs(world: World) -> bool:
    """Whether nox installs what a run needs, and does not take the environment as it is."""
    environ = world.environ
    return (
        environ.get("SPYRE_CI_ENVIRONMENT") != "image" and environ.get("NOX_DEFAULT_VENV_BACKEND") != "none"
    )


def at_once(asks: Sequence[Callable[[], IndexFacts]]) -> list[IndexFacts]:
    """What each call gives, in their order; each has a time of its own and raises nothing."""
    answers: Queue[tuple[int, IndexFacts]] = Queue()

    def ask(place: int) -> None:
        try:
            found = asks[place]()
        except Exception as error:  # noqa: BLE001  # a thread that ends without a word would be waited for
            found = IndexFacts(
                shown=f"place {place + 1}", state="away", why=f"cannot be asked: {type(error).__name__}"
            )
        answers.put((place, found))

    for place in range(len(asks)):
        Thread(target=ask, args=(place,), name=f"index-{place}", daemon=True).start()
    found = dict(answers.get() for _ in asks)
    return [found[place] for place in range(len(asks))]


def _names(page: Page) -> list[str] | None:
    """The files a page names; None where it is no page of an index."""
    if "json" in page.headers.get("content-type", ""):
        try:
            return [str(one["filename"]) for one in json.loads(page.body)["files"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
    return names_of(page.body.decode("utf-8", "replace")) or None
