from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.cli.lazily import Loaded
from ci.cli.verbs import Verb
from ci.core import interrupts


@pytest.fixture(autouse=True)
def handlers_kept() -> Iterator[None]:
    before = {one: signal.getsignal(one) for one in interrupts.INTERRUPTS}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.parametrize("number", interrupts.INTERRUPTS)
def test_within_noted_no_interrupt_is_raised(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with interrupts.noted() as heard:
        signal.raise_signal(number)
        signal.raise_signal(number)
    assert heard == [number, number]
    assert signal.getsignal(number) is before


def interrupt_twice(number: signal.Signals) -> None:
    with interrupts.raised():
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(number)


@pytest.mark.parametrize("number", interrupts.INTERRUPTS)
def test_the_first_interrupt_is_raised_and_the_second_does_not_disturb_the_ending(
    number: signal.Signals,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt_twice(number)
    signal.raise_signal(signal.SIGINT)  # while the process ends


def test_what_is_ignored_from_outside_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts.raised():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_an_interrupt_that_comes_into_the_import_of_a_verb_is_raised_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raised in it, it could be swallowed, and the verb would run where Ctrl-C is no longer heard."""
    text = "import signal\ntry:\n    signal.raise_signal(signal.SIGTERM)\nexcept BaseException:\n    pass\n"
    (tmp_path / "swallows_interrupts.py").write_text(f"{text}def verb(): ...\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt), interrupts.raised():
        Loaded({"one": Verb("swallows_interrupts:verb", "Do it.")})["one"]
