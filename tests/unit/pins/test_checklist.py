from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ci.config.pins_model import Suite
from ci.pins.checklist import checklist
from ci.pins.events import Event, Upgraded
from ci.pins.protocol import decide
from ci.pins.record import Parameter, Record
from ci.pins.signatures import Signature
from ci.pins.support import Unsupported, unsupported
from tests.pin_tracks import (
    BOTH,
    MEND,
    OLD,
    PIN,
    POLICY,
    WINDOW,
    asked,
    campaign,
    on,
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


def breaks(before: Signature, after: Signature) -> Sequence[str]:
    left = {one.name for one in after}
    return [f"parameter {one.name} is gone" for one in before if one.name not in left]


def supports(before: Record | None, after: Record) -> tuple[Unsupported, ...]:
    return unsupported(SUITES, before, after, breaks)


def shown(records: Sequence[Record], events: Sequence[Event], day: float, track: str = "fine-tuning") -> str:
    decision = decide(POLICY, records, events, now=on(day), supports=supports)
    return checklist(track, decision, records, events, breaks=breaks)


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
        asked(2, "bug", 22, mend=MEND, text="loading hangs\nwith 8 cards"),
        asked(3, "major", 23, "3.0", text="we want the new API"),
        asked(4, "performance", 24, text="flash attention"),
    ]
    return [before, after], events


def test_an_upgrade_with_everything_there_is_to_say(golden: Golden) -> None:
    golden("pins/upgrade.md", shown(*full(), 60))


def test_an_upgrade_in_a_campaign(golden: Golden) -> None:
    golden("pins/bug-in-a-campaign.md", shown(*full(), 40))


def test_a_build_with_a_mend(golden: Golden) -> None:
    events: list[Event] = [PIN, asked(1, "bug", 5, mend=MEND, text="wrong sums"), asked(2, "regression", 5)]
    golden("pins/rebuild.md", shown([OLD], events, 6))


def test_an_image_that_is_the_same(golden: Golden) -> None:
    same = release("2.13.0", 20, packages={"torch": "1.0"}).model_copy(update={"sha": OLD.sha})
    golden("pins/unchanged.md", shown([OLD, same], [PIN], 56))


def test_the_first_pin(golden: Golden) -> None:
    golden("pins/first.md", shown([OLD], [], 0))


def test_what_waits_for_a_scheduled_release(golden: Golden) -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 21), scheduled("2.14.0", 65)]
    golden("pins/scheduled.md", shown(BOTH, events, 60))


def test_nothing_to_do(golden: Golden) -> None:
    golden("pins/none.md", shown(BOTH, [PIN], 1))


def test_what_waits_for_a_campaign_without_an_end() -> None:
    text = shown(BOTH, [PIN, campaign("cards", 20, None), asked(1, "major", 21)], 30)
    assert "- [x] Is a campaign on? yes: `cards`, until it is ended" in text
    assert "`spyre-ci pins decide` was asked again.\n" in text


def test_an_upgrade_asks_for_every_mend_that_the_pin_was_built_with() -> None:
    built = [
        Upgraded(at=on(5 + number), version="2.12.0", sha=sha, reasons=("a bug",))
        for number, sha in enumerate((MEND, "f" * 40))
    ]
    text = shown(BOTH, [PIN, *built], 70)
    for sha in (MEND, "f" * 40):
        assert f"- [ ] Does `2.13.0` hold `{sha}` too, which `2.12.0` was built anew with?" in text
    assert "built anew" not in shown(BOTH, [PIN, *built, pinned("2.12.0", 9), pinned("2.13.0", 9)], 70)


def test_what_is_pinned_and_nobody_has_recorded_leaves_questions_open() -> None:
    text = shown(BOTH, [pinned("2.11.0", 0)], 56)
    open_one = "not known: the ledger has no record of `2.11.0`, which is pinned"
    assert f"- [ ] What changed of the direct dependencies? {open_one}\n" in text
    assert f"- [ ] Is the API compatible? {open_one}\n" in text


def test_a_suite_of_which_the_record_does_not_tell_is_asked_for_and_not_deprecated() -> None:
    text = shown([OLD, release("2.13.0", 20, packages={"torch": "unknown", "transformers": "4"})], [PIN], 56)
    assert "- [x] Which suites are deprecated? none that the ledger tells of\n" in text
    assert (
        "- [ ] Does `2.13.0` support `inference`? needs `torch>=2.11`, and it has `unknown`: the ledger does "
        "not tell.\n"
    ) in text


def test_signatures_that_nobody_has_recorded_leave_the_question_open() -> None:
    assert "- [ ] Is the API compatible? no entry point is recorded of both\n" in shown(BOTH, [PIN], 56)


def test_signatures_that_are_the_same_are_compatible() -> None:
    records = [one.model_copy(update={"signatures": {"torch.ops:save": ()}}) for one in BOTH]
    text = shown(records, [PIN], 56)
    assert "- [x] Is the API compatible? yes: `torch.ops:save` can be called as before\n" in text


def test_the_end_is_what_it_is_done_by() -> None:
    for day in (1, 30, 60):
        headings = [line for line in shown(*full(), day).splitlines() if line.startswith("#")]
        assert headings[-1] == "## Done when"


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

    def lost(_: Record | None, __: Record) -> tuple[Unsupported, ...]:
        suites = [Suite(name="x", needs=["torch"], calls=[])]
        return tuple(
            one.model_copy(update={"suite": text}) for one in unsupported(suites, OLD, records[1], breaks)
        )

    texts = []
    for day in (10, 30, 79, 81):
        for told in (events, events[:4], []):
            decision = decide(POLICY, records, told, now=on(day), supports=lost)
            texts.append(checklist(text, decision, records, told, breaks=lambda *_: [text]))
    return "\n\n".join(texts)


def test_what_others_have_written_is_data() -> None:
    assert_harmless(hostile(HOSTILE))


@given(st.text(max_size=60))
def test_any_text_is_data(text: str) -> None:
    assert_harmless(hostile(text))
