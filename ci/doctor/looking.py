"""Looks side by side, each within its own time, and all within one: what hangs is told and left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, Queue

from ci.core.errors import SpyreCiError
from ci.doctor.finding import Finding, Level, fault, of_error


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
