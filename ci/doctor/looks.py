"""Every look there is, with its time, and doing those that are wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from functools import partial

from ci.core.errors import UsageError
from ci.doctor.finding import Level
from ci.doctor.look.basics import NOX_LIMIT_S, look_nox, look_python
from ci.doctor.look.cards import OPENED_S, look_cards, look_device
from ci.doctor.look.cluster import LIMIT_S as CLUSTER_S
from ci.doctor.look.cluster import look_cluster
from ci.doctor.look.disk import look_disk
from ci.doctor.look.engine import LIMIT_S as ENGINE_S
from ci.doctor.look.engine import look_engine
from ci.doctor.look.hud import LIMIT_S as HUD_S
from ci.doctor.look.hud import look_hud
from ci.doctor.look.index import PAGE_S, PIP_S, look_index
from ci.doctor.look.pytorch import LIMIT_S as TORCH_S
from ci.doctor.look.pytorch import look_torch
from ci.doctor.look.tokens import look_tokens
from ci.doctor.looking import Account, Look, look_all
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
