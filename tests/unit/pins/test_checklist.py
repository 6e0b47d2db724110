"""The checklist of a decision: golden copies, open questions, and that nobody's words are markup."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ci.config.pins_model import Suite
from ci.pins.checklist import checklist
from ci.pins.compatibility import unsupported
from ci.pins.events import Event
from ci.pins.record import Parameter, Record
from tests.pin_tracks import (
    BOTH,
    MEND,
    OLD,
    PIN,
    WINDOW,
    asked,
    campaign,
    decided,
    pinned,
    release,
    scheduled,
)

Golden = Callable[[str, str], None]
HOSTILE = (
    "<!-- x --> `a` | @all #1 http://evil.example ](http://evil.example) <script>\n\n# x\n- [x] y \x1b[31m "
    "\u202e"
)
SUITES = [
    Suite(name="fine-tuning of 8 billion parameters", needs=["transformers<5"], calls=["torch.ops:load"]),
    Suite(name="inference", needs=["torch>=2.11"]),
]


def parameter(name: str) -> Parameter:
    return Parameter(name=name, kind="positional or keyword")


def shown(records: Sequence[Record], events: Sequence[Event], day: float) -> str:
    return checklist("fine-tuning", decided(records, events, day, suites=SUITES), records, events)


def full() -> tuple[list[Record], list[Event]]:
    before = release(
        "2.12.0", -10,
        packages={"torch": "2.12.0", "transformers": "4.57.1", "numpy": "2.3.4"},
        signatures={"torch.ops:load": (parameter("path"), parameter("mmap")), "torch.ops:save": ()},
    )  # fmt: skip
    after = release(
        "2.13.0", 20, "performance",
        packages={"torch": "2.13.0", "transformers": "5.0.0"},
        signatures={"torch.ops:load": (parameter("path"),), "torch.ops:save": ()},
    )  # fmt: skip
    events: list[Event] = [
        PIN,
        WINDOW,
        asked(1, "performance", 21, "2.13.0", text="attention is twice as fast"),
        asked(2, "bug", 22, mend=MEND, text="loading hangs with 8 cards"),
        asked(3, "major", 23, "3.0", text="we want the new API"),
        asked(4, "performance", 24, text="flash attention"),
    ]
    return [before, after], events


SAME = release("2.13.0", 20, packages={"torch": "1.0"}).model_copy(update={"sha": OLD.sha})
FIX = [PIN, asked(1, "bug", 5, mend=MEND, text="wrong sums"), asked(2, "regression", 5)]


@pytest.mark.parametrize(
    ("name", "records", "events", "day"),
    [
        ("upgrade", *full(), 60),
        ("bug-in-a-campaign", *full(), 40),
        ("rebuild", [OLD], FIX, 6),
        ("unchanged", [OLD, SAME], [PIN], 56),
        ("first", [OLD], [], 0),
        ("scheduled", BOTH, [PIN, WINDOW, asked(1, "major", 21), scheduled("2.14.0", 65)], 60),
        ("none", BOTH, [PIN], 1),
    ],
)
def test_each_kind_has_a_golden_copy(
    golden: Golden, name: str, records: list[Record], events: list[Event], day: float
) -> None:
    text = shown(records, events, day)
    golden(f"pins/{name}.md", text)
    assert [line for line in text.splitlines() if line.startswith("#")][-1] == "## Done when"


def test_a_campaign_without_an_end_is_told() -> None:
    text = shown(BOTH, [PIN, campaign("cards", 20, None), asked(1, "major", 21)], 30)
    assert "- [x] Is a campaign active? yes: `cards`, with no planned end" in text
    assert "`spyre-ci pins decide` ran again.\n" in text


def test_an_upgrade_asks_for_every_mend_that_the_pin_was_built_with() -> None:
    built = [pinned("2.12.0", 5, mend=MEND), pinned("2.12.0", 6, mend="f" * 40)]
    text = shown(BOTH, [PIN, *built], 70)
    for sha in (MEND, "f" * 40):
        assert f"- [ ] Does `2.13.0` also contain `{sha}`, with which `2.12.0` was rebuilt?" in text
    assert "built anew" not in shown(BOTH, [PIN, *built, pinned("2.12.0", 9), pinned("2.13.0", 9)], 70)


def test_what_the_ledger_does_not_tell_stays_open() -> None:
    text = shown(BOTH, [pinned("2.11.0", 0)], 56)
    open_one = "not known: the ledger has no record of `2.11.0`, which is pinned"
    assert f"- [ ] What changed of the direct dependencies? {open_one}\n" in text
    assert f"- [ ] Is the API compatible? {open_one}\n" in text
    assert "- [ ] Is the API compatible? no entry point is recorded for both\n" in shown(BOTH, [PIN], 56)
    unknown = release("2.13.0", 20, packages={"torch": "unknown", "transformers": "4"})
    text = shown([OLD, unknown], [PIN], 56)
    assert "- [x] Which suites are deprecated? none that the ledger knows of\n" in text
    why = "needs `torch>=2.11`, but the release has `unknown`: the ledger does not record it"
    assert f"- [ ] Does `2.13.0` support `inference`? {why}.\n" in text
    saved = [one.model_copy(update={"signatures": {"torch.ops:save": ()}}) for one in BOTH]
    assert "compatible? yes: `torch.ops:save` can be called as before\n" in shown(saved, [PIN], 56)


def assert_harmless(text: str) -> None:
    """Markup is ours alone: headings, lists, tables and code."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    headings = {
        tokens[place + 1].content for place, one in enumerate(tokens) if one.tag == "h2" and one.nesting > 0
    }
    assert headings <= {"What the ledger answers", "Open", "Done when"}
    for token in tokens:
        assert token.type not in {"html_block", "fence", "code_block", "blockquote_open"}, token.content
        inside = 0
        for child in token.children or []:
            inside += {"<code>": 1, "</code>": -1}.get(child.content, 0)
            assert child.type not in {"link_open", "image"}, child
            if child.type == "html_inline":
                # Within code, what no code span can hold is kept from being a name or an address.
                assert child.content in {"<code>", "</code>", "<span>", "</span>"}
            elif child.type == "text" and not inside:
                assert "@" not in child.content, child.content
                assert "#" not in child.content, child.content


def hostile(text: str) -> str:
    records = [
        OLD.model_copy(update={"signatures": {text: (parameter(text),)}, "direct": {"torch": text}}),
        release("2.13.0", 20).model_copy(
            update={
                "version": text,
                "signatures": {text: ()},
                "packages": {text: text},
                "direct": {text: text},
            }
        ),
    ]
    events: list[Event] = [
        PIN,
        campaign(text[:200] or "-", 20, 80),
        scheduled(text, 90),
        asked(1, "major", 21, text, mend=text, text=text or "-"),
        asked(2, "bug", 22, text, mend=text, text=text or "-"),
    ]

    lost = unsupported([Suite(name="x", needs=["y"])], None, OLD)[0].model_copy(update={"suite": text})
    texts = []
    for day in (10, 30, 79, 81):
        for told in (events, events[:4], []):
            decision = decided(records, told, day)
            if decision.target:
                decision = decision.model_copy(update={"deprecates": (lost,), "unclear": (lost,)})
            texts.append(checklist(text, decision, records, told))
    return "\n\n".join(texts)


@example(HOSTILE)
@given(st.text(max_size=60))
def test_any_text_is_data(text: str) -> None:
    assert_harmless(hostile(text))
