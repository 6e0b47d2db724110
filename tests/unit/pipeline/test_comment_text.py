from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec import Raw

from ci.pipeline.comment_text import (
    MAX_BYTES,
    Comment,
    Job,
    Part,
    command_for,
    marked,
    marker,
    render,
    slug,
)
from ci.record.verdict import Verdict
from ci.report.reader import CollectError, ReadRun, ReadSummary, Row, RunInfo

Golden = Callable[[str, str], None]
INFO = RunInfo(
    device="spyre", pytorch_version="2.13.0", pytorch_sha="0123456789ab" + "0" * 28, percent=5, stage=1,
    reproduce=("nox", "-s", "pytorch", "--", "--pytorch-src", "git+https://github.com/pytorch/pytorch@v2.13.0"),
)  # fmt: skip
HOSTILE = (
    "<!-- x --> `a` | @all #1 http://evil.example ](http://evil.example) <script> \x1b[31m \u202e &amp; "
    "me@evil.example"
)
URL = "https://github.com/o/r/actions/runs/50"


def read(rows: Sequence[Row], **content: object) -> ReadRun:
    given = {"exit_code": 1, "reasons": ["1 test failed"], "identity": INFO, "run": "run-1", **content}
    return ReadRun(summary=ReadSummary(schema="s", planned=len(rows), **given), rows=rows)  # type: ignore[arg-type]  # any content


def comment(*parts: Part, **content: object) -> Comment:
    base = Comment(name="pull request", run_id=50, attempt=2, sha="a" * 40, url=URL, parts=parts)
    return replace(base, **content)  # type: ignore[arg-type]  # fields by name


def everything() -> Comment:
    rows = [
        Row(
            id="a.py::A::test_add[dtype=float32,op=add]",
            verdict=Verdict.FAILED,
            card="0000:17:00.0",
            message="1 != 2",
        ),
        Row(
            id="a.py::A::test_crash",
            verdict=Verdict.FAILED,
            card="0000:18:00.0",
            cause="signal",
            message="SIGSEGV",
        ),
        Row(id="a.py::A::test_new", verdict=Verdict.FAILED, upstream=True),
        Row(id="a.py::A::test_known", verdict=Verdict.FAILED, quarantine=Raw(b"{}")),
        Row(id="a.py::A::test_flaky", verdict=Verdict.FLAKY, attempts=2, message="try 1 failed: 1 != 2"),
        Row(id="a.py::A::test_card", verdict=Verdict.HARDWARE, card="0000:17:00.0", message="card reset"),
        Row(id="a.py::A::test_lost", verdict=Verdict.INFRASTRUCTURE, message="pod evicted"),
        Row(id="a.py::A::test_left", verdict=Verdict.NOT_RUN, message="shard 3 has no journal"),
        Row(id="a.py::A::test_fixed", verdict=Verdict.PASSED),
        Row(id="a.py::A::test_ok", verdict=Verdict.PASSED),
    ]
    then = {"test_add[dtype=float32,op=add]": "passed", "test_crash": "failed", "test_known": "failed"}
    then |= {"test_fixed": "failed", "test_ok": "passed", "test_flaky": "passed", "test_gone": "failed"}
    base = [Row(id=f"a.py::A::{name}", verdict=Verdict(verdict)) for name, verdict in then.items()]
    error = CollectError(file="test_torch.py", error="ImportError: no such thing")
    return comment(
        Part(
            title="results",
            run=read(rows, collect_errors=[error], notes=["1 torn line in journal/0-1.jsonl"]),
            base=read(base),
            base_said="main at cccccccccccc",
        ),
        Part(title="device", trouble="is no archive that can be read"),
        conclusion="failure",
        jobs=[
            Job(name="lint", conclusion="failure", url=f"{URL}/job/1"),
            Job(name="PyTorch tests / leg 3", conclusion="cancelled"),
        ],
    )


def test_everything_a_comment_can_tell(golden: Golden) -> None:
    golden("pipeline/comment.md", render(everything()))


def test_a_green_run_is_short_and_asks_for_nothing(golden: Golden) -> None:
    rows = [Row(id=f"a.py::test_{number}", verdict=Verdict.PASSED) for number in range(3)]
    part = Part(
        title="results", run=read(rows, exit_code=0, reasons=[]), base=read(rows), base_said="main at c"
    )
    golden("pipeline/comment-green.md", render(comment(part, conclusion="success")))


def hostile(row_text: str) -> Comment:
    rows = [
        Row(id=f"{row_text}{number}", verdict=verdict, card=row_text, cause=row_text, message=row_text)
        for number, verdict in enumerate(Verdict)
    ]
    info = RunInfo(device=row_text, pytorch_version=row_text, pytorch_sha=row_text, percent=5, lane=row_text)
    error = CollectError(file=row_text, error=row_text)
    part = Part(
        title=row_text,
        run=read(rows, identity=info, notes=[row_text], reasons=[row_text], collect_errors=[error]),
        base=read([], identity=info),
        base_said=row_text,
    )
    job = Job(name=row_text, conclusion=row_text, url=row_text)
    none = Part(title=row_text, trouble=row_text)
    return comment(part, none, name=row_text, sha=row_text, url=row_text, conclusion=row_text, jobs=[job])


def assert_harmless(text: str) -> None:
    """Links, images, mentions and markup are ours alone."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    # The mark, what folds commands away, and the tags of code that no code span can hold.
    known = re.compile(r"</?(code|span|details|summary)>|<!-- spyre-ci:comment:[a-z0-9-]+:\d+:\d+ -->")
    for token in tokens:
        if token.type == "html_block":
            left = re.sub(r"Reproduce( \(the first \d+\))?", "", known.sub("", token.content))
            assert not left.strip(), token.content
        inside = 0
        for child in token.children or []:
            inside += {"<code>": 1, "</code>": -1}.get(child.content, 0)
            assert child.type not in {"link_open", "image"}, child
            if child.type == "html_inline":
                assert known.fullmatch(child.content), child.content
            # GitHub looks for addresses and names in text, and in code for nothing.
            if child.type == "text" and not inside:
                assert not re.search(r"(^|[^\w])@[A-Za-z]|://", child.content), child.content


def test_nothing_of_a_run_is_markup_or_mentions_somebody() -> None:
    assert_harmless(render(hostile(HOSTILE)))


@given(
    text=st.text(
        alphabet=st.sampled_from([*"ab `|\\<>!-[]()@#&;:/\n\r\t*_~'\"", "\x1b", "\u202e", "\udc80"]),
        min_size=1,
    )
)
def test_no_text_whatever_is_markup(text: str) -> None:
    assert_harmless(render(hostile(text)))


@pytest.mark.parametrize("letter", ["x", "@", "|", "\u20ac", "\U0001f525", "`"])
def test_a_comment_is_never_bigger_than_github_takes(letter: str) -> None:
    rows = [
        Row(
            id=letter * 3_000 + str(number), verdict=Verdict.FAILED, card=letter * 500, message=letter * 9_000
        )
        for number in range(2_000)
    ]
    part = Part(title=letter * 90, run=read(rows, notes=[letter * 900] * 9, reasons=[letter * 900] * 9))
    text = render(
        comment(*[part] * 20, name=letter * 900, jobs=[Job(name=letter * 900, conclusion="failure")] * 500)
    )
    assert len(text.encode("utf-8", "backslashreplace")) <= MAX_BYTES
    assert "left out here for its size" in text
    assert "To rerun what failed" in text
    assert_harmless(text.replace(URL, "x").replace("[run 50, attempt 2](x)", "").replace("[the run](x)", ""))


def test_a_cut_comment_is_whole_pieces_and_what_everybody_needs_comes_before_details() -> None:
    rows = [
        Row(id=f"{'x' * 280}{number}", verdict=Verdict.FAILED, message="y" * 200) for number in range(500)
    ]
    text = render(comment(*(Part(title=f"part-{number}", run=read(rows)) for number in range(12))))
    assert all(f"**`part-{number}`**: 500 failed" in text for number in range(12))
    assert text.count("<details>") == text.count("</details>")
    assert text.count("```") % 2 == 0


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "https://evil.example/a) [x](b", "http://h/", "", "https://h/ x"]
)
def test_an_address_that_could_be_more_than_one_is_not_linked(url: str) -> None:
    assert "](" not in render(comment(url=url, jobs=[Job(name="a", conclusion="failure", url=url)]))


def test_the_mark_is_read_as_it_was_written_and_by_its_name_only() -> None:
    body = render(comment())
    assert marked(body, "pull request") == marked(body, "Pull-Request") == (50, 2)
    assert marked(body, "nightly") is None
    assert marked(f"x\n{body}", "pull request") is None


@given(name=st.text())
def test_no_name_ends_its_mark(name: str) -> None:
    line = marker(name, 1, 1)
    assert re.fullmatch(r"<!-- spyre-ci:comment:[a-z0-9-]{1,80}:1:1 -->", line)
    assert marked(line, name) == (1, 1)
    assert slug(slug(name)) == slug(name)


def test_a_run_is_green_only_where_nothing_speaks_against_it() -> None:
    good = Part(title="r", run=read([Row(id="a", verdict=Verdict.PASSED)], exit_code=0, reasons=[]))
    assert comment(good, conclusion="success").green
    assert not comment(good, conclusion="cancelled").green
    assert not comment(good, jobs=[Job(name="x", conclusion="failure")]).green
    assert not comment(good, Part(title="x", trouble="lost")).green
    assert not comment(replace(good, run=read([], exit_code=3))).green
    assert "not green, though no test failed" in render(comment(good, conclusion="cancelled"))
    assert "run 50)" not in render(comment())


def info(device: str = "spyre", *reproduce: str) -> RunInfo:
    return RunInfo(device=device, pytorch_version="2", pytorch_sha="0", percent=5, reproduce=reproduce)


@given(name=st.text(min_size=1).filter(lambda text: text.isprintable() and "\x00" not in text))
def test_a_test_s_name_is_one_word_of_the_command_whatever_it_holds(name: str) -> None:
    words = shlex.split(command_for(name, info()))
    assert words == ["spyre-ci", "reproduce", "--run", "--device", "spyre", "--", name]


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("git+https://github.com/pytorch/pytorch@v2.13.0", "git+https://github.com/pytorch/pytorch@v2.13.0"),
        ("git+https://github.com/evil/pytorch@v2.13.0", "../pytorch"),
        ("git+https://github.com/pytorch/pytorch@v2;curl evil", "../pytorch"),
        ("/srv/tree", "../pytorch"),
        ("--config=evil", "../pytorch"),
    ],
)
def test_only_pytorch_s_own_repository_is_named_as_a_source(where: str, shown: str) -> None:
    words = shlex.split(command_for("a", info("spyre", "nox", "--pytorch-src", where)))
    assert words[:5] == ["spyre-ci", "reproduce", "--run", "--pytorch-src", shown]


def test_words_that_a_stranger_brings_are_not_in_the_command() -> None:
    words = shlex.split(command_for("a", info("$(evil)", "curl", "evil", "|", "sh")))
    assert words == ["spyre-ci", "reproduce", "--run", "--device", "spyre", "--", "a"]
    assert "../pytorch" in command_for("a", info("spyre", "--pytorch-src"))
