"""List every look with its time, and do those that are wanted side by side.

Each has its own time and all have one: what hangs is told and left behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from queue import Empty, Queue

from ci.core.errors import SpyreCiError, UsageError
from ci.doctor.basics import NOX_LIMIT_S, look_nox, look_python
from ci.doctor.cards import OPENED_S, look_cards, look_device
from ci.doctor.cluster import LIMIT_S as CLUSTER_S
from ci.doctor.cluster import look_cluster
from ci.doctor.disk import look_disk
from ci.doctor.engine import LIMIT_S as ENGINE_S
from ci.doctor.engine import look_engine
from ci.doctor.finding import Finding, Level, fault, of_error
from ci.doctor.hud import LIMIT_S as HUD_S
from ci.doctor.hud import look_hud
from ci.doctor.index import PAGE_S, PIP_S, look_index
from ci.doctor.pytorch import LIMIT_S as TORCH_S
from ci.doctor.pytorch import look_torch
from ci.doctor.tokens import look_tokens
from ci.doctor.world import World

# In which all is over, whatever hangs: what is left of 45 s is Python's start on a machine that is busy, and
# ending what still runs.
TOTAL_S = 30.0
END_S = 6.0
# What a look has beyond the time of what it waits for, to say so itself.
_MORE_S = 3.0
# What is told of beside something else, and may be named as well.
WITH = {"registry": "engine", "clock": "hud"}
NAMES = ("python", "nox", "torch", "device", "cards", "engine", "index", "cluster", "hud", "tokens", "disk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One thing that is looked at.

    Attributes:
        name: such as `torch`; what `--only` and `--skip` name.
        do: looks, and says what it found.
        limit_s: after which it is no longer waited for.
        late: how bad it is that it did not end.
        late_remedy: what to do then.
    """

    name: str
    do: Callable[[], list[Finding]]
    limit_s: float
    late: Level = Level.FAULT
    late_remedy: str = "see what keeps it, or look at the rest: spyre-ci doctor --skip"


@dataclass(slots=True, kw_only=True)
class Account:
    """What all looks came to.

    Attributes:
        found: findings by look.
        seconds: each took, by look.
    """

    found: dict[str, list[Finding]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def look_all(
    looks: Sequence[Look],
    *,
    total_s: float,
    clock: Callable[[], float],
    begun: Callable[[str], object] = str,
    ended: Callable[[str], object] = str,
) -> Account:
    """Do all looks at once and wait for each as long as it has.

    A look that hangs stays behind in a thread that holds no exit.

    Args:
        looks: each with a name of its own.
        total_s: after which none is waited for.
        clock: seconds, monotonic.
        begun: is told each name.
        ended: is told each name that was found or given up.
    """
    done: Queue[tuple[str, list[Finding]]] = Queue()
    start = clock()
    account = Account()
    for look in looks:
        begun(look.name)
        threading.Thread(target=_do, args=(look, done), name=f"look-{look.name}", daemon=True).start()
    waiting = {look.name: look for look in looks}
    while waiting:
        next_end = min(min(look.limit_s, total_s) for look in waiting.values())
        try:
            name, found = done.get(timeout=max(start + next_end - clock(), 0))
            news = {name: found} if name in waiting else {}
        except Empty:
            news = {
                look.name: [_late(look, min(look.limit_s, total_s))]
                for look in waiting.values()
                if min(look.limit_s, total_s) <= next_end
            }
        for name, found in news.items():
            del waiting[name]
            account.found[name], account.seconds[name] = found, clock() - start
            ended(name)
    account.found = {look.name: account.found[look.name] for look in looks}
    return account


def _do(look: Look, done: Queue[tuple[str, list[Finding]]]) -> None:
    try:
        found = look.do()
    except SpyreCiError as error:
        found = [of_error(look.name, Level.FAULT, error)]
    except Exception as error:  # noqa: BLE001  # a bug of one look must not cost what the others see
        found = [
            fault(
                look.name,
                f"this look is at fault itself: {type(error).__name__}: {error}",
                f"report it; the rest: spyre-ci doctor --skip {look.name}",
            )
        ]
    done.put((look.name, found))


def _late(look: Look, waited_s: float) -> Finding:
    return Finding(
        look=look.name,
        level=look.late,
        said=f"said nothing within {waited_s:g} s",
        remedy=f"{look.late_remedy} {look.name}" if look.late_remedy.endswith("--skip") else look.late_remedy,
    )


def looks(world: World, *, opening: bool) -> list[Look]:
    """All of them, in the order they are shown.

    Args:
        world: the outside world.
        opening: whether free cards are opened.
    """
    quick = 10.0
    kubeconfig = Level.FAULT if world.environ.get("KUBECONFIG") else Level.WARNING
    busy = "see what the machine is busy with (top), then look again"
    made = [
        Look(name="python", do=partial(look_python, world), limit_s=quick),
        Look(
            name="nox",
            do=partial(look_nox, world),
            limit_s=NOX_LIMIT_S + _MORE_S,
            late=Level.WARNING,
            late_remedy=busy,
        ),
        Look(
            name="torch",
            do=partial(look_torch, world),
            limit_s=TORCH_S + _MORE_S,
            late=Level.WARNING,
            late_remedy=busy,
        ),
        Look(name="device", do=partial(look_device, world), limit_s=quick),
        Look(
            name="cards",
            do=partial(look_cards, world, opening=opening),
            limit_s=OPENED_S + _MORE_S if opening else quick,
        ),
        Look(name="engine", do=partial(look_engine, world), limit_s=ENGINE_S + _MORE_S, late=Level.WARNING),
        Look(name="index", do=partial(look_index, world), limit_s=PIP_S + PAGE_S + _MORE_S),
        Look(name="cluster", do=partial(look_cluster, world), limit_s=CLUSTER_S + _MORE_S, late=kubeconfig),
        Look(name="hud", do=partial(look_hud, world), limit_s=HUD_S + _MORE_S),
        Look(name="tokens", do=partial(look_tokens, world), limit_s=quick),
        Look(
            name="disk",
            do=partial(look_disk, world),
            limit_s=quick,
            late_remedy="see which file system hangs: df -h",
        ),
    ]
    assert tuple(one.name for one in made) == NAMES  # noqa: S101  # the names are said before a look is made
    return made


def chosen(only: Iterable[str], skip: Iterable[str]) -> list[str]:
    """The names of the looks that are wanted, in their order.

    Args:
        only: these; none: all.
        skip: not these.

    Raises:
        UsageError: a name is none of ours, or none is left.
    """
    wanted, unwanted = ({WITH.get(one, one) for one in names} for names in (only, skip))
    for name in sorted(wanted | unwanted):
        if name not in NAMES:
            close = get_close_matches(name, NAMES, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            raise UsageError(f"there is no look {name!r}", remedy=f"{meant}they are {', '.join(NAMES)}")
    left = [name for name in NAMES if name not in unwanted and (not wanted or name in wanted)]
    if not left:
        raise UsageError("nothing is left to look at", remedy="skip fewer, or name one with --only")
    return left


def examine(
    world: World,
    wanted: Collection[str],
    *,
    opening: bool = False,
    ended: Callable[[str], object] = str,
    total_s: float = TOTAL_S,
) -> Account:
    """Look, and leave no process behind, whatever hangs and whoever interrupts.

    Args:
        world: the outside world.
        wanted: names of looks.
        opening: whether free cards are opened, each under its lease.
        ended: is told the name of each look that is over.
        total_s: after which none is waited for.
    """
    these = [one for one in looks(world, opening=opening) if one.name in wanted]
    try:
        return look_all(these, total_s=total_s, clock=world.monotonic, ended=ended)
    finally:
        world.processes.end(END_S)
