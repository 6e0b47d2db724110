"""The static copy's parts: addresses and files, links and forms, and the folder they are put in."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.errors import FileSystemError, RunInUseError, UsageError
from ci.hud.identity import key_of_test
from ci.hud.server.export.addresses import MOST_VARIANTS, Address, Chosen, address_of, link_between
from ci.hud.server.export.folder import ACCOUNT, replacing, write_account
from ci.hud.server.export.rewrite import rewrite
from ci.hud.server.pages.words import address, address_of_test

TEXTS = st.text(min_size=1, max_size=60)
PAGE = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
    '<style nonce="abc">\nbody > a {{ color: red; }}\n</style></head><body>{body}</body></html>\n'
)


def made(body: str, title: str = "A &amp; B", *, there: bool = True) -> str:
    return rewrite(
        PAGE.format(title=title, body=body),
        link=lambda href: f"../x.html?{len(href)}" if there else None,
        choose=lambda name, value: f"{name}-{value}.html" if value != "gone" else None,
        note="made <then>",
    )


def chosen(**told: object) -> Chosen:
    values = {"days": 30, "runs": frozenset({7}), "listed": 1, "pairs": frozenset({("3", "7")})}
    return Chosen(**{**values, "tests": frozenset({str(key_of_test("t"))}), **told})  # type: ignore[arg-type]  # of any field


@given(TEXTS, TEXTS)
def test_files_are_safe_bounded_and_one_for_each_address(lane: str, other: str) -> None:
    one, two = Address("/grid", (("lane", lane),)), Address("/grid", (("lane", other),))
    assert re.fullmatch(r"grid/[0-9a-f]{32}\.html", one.file)
    assert (one.file == two.file) == (lane == other)


@given(TEXTS, TEXTS)
def test_a_link_of_a_page_is_the_address_it_means(repo: str, lane: str) -> None:
    link = address("/grid", repo=repo, lane=lane, days=30)
    assert address_of(link, days=30) == Address("/grid", (("lane", lane), ("repo", repo)))


@given(TEXTS, st.integers(0, 9))
def test_a_test_has_one_page_however_it_is_named(test_id: str, place: int) -> None:
    wanted = Address("/test", (("key", str(key_of_test(test_id, place))),))
    assert address_of(address_of_test(test_id, place), days=30) == wanted
    assert address_of(address("/test", key=key_of_test(test_id, place), days=30), days=30) == wanted


@pytest.mark.parametrize(
    ("page", "other", "link"),
    [
        (Address("/"), Address("/grid"), "grid.html"),
        (Address("/runs/7/tests"), Address("/"), "../../index.html"),
        (Address("/runs/7"), Address("/runs/7/tests"), "7/tests.html"),
    ],
)
def test_links_are_relative(page: Address, other: Address, link: str) -> None:
    assert link_between(page, other) == link


@pytest.mark.parametrize("link", ["//elsewhere/", "https://x/", "#main", "javascript:alert(1)", "data:,"])
def test_what_leads_elsewhere_is_no_page(link: str) -> None:
    assert address_of(link, days=30) is None


@pytest.mark.parametrize(
    ("link", "there"),
    [
        ("/", True),
        ("/grid?days=30", True),
        ("/grid?days=7", False),
        ("/grid?repo=a&lane=b", True),
        ("/grid?repo=a&event=b", False),
        ("/grid?sha=a", False),
        ("/runs", True),
        ("/runs?offset=0", True),
        ("/runs?offset=100", False),
        ("/runs?offset=x", False),
        ("/runs/7", True),
        ("/runs/8", False),
        ("/runs/07", False),
        ("/runs/7/tests?verdict=failed", True),
        ("/runs/7/tests?verdict=passed", False),
        ("/runs/7/tests?file=x", False),
        ("/runs/7?verdict=failed", False),
        ("/compare", False),
        ("/compare?before=3&after=7&kind=fixed", True),
        ("/compare?before=7&after=3", False),
        ("/test?id=t", True),
        ("/test?id=other", False),
        ("/test?id=t&place=x", False),
        ("/api/runs", False),
        ("/../etc/passwd", False),
        ("/openapi.json", False),
    ],
)
def test_what_the_copy_has(link: str, there: bool) -> None:
    found = address_of(link, days=30)
    assert found is not None
    assert chosen().has(found) is there


def test_filtered_pages_are_only_so_many() -> None:
    copy = chosen()
    found = [copy.has(Address("/grid", (("lane", str(number)),))) for number in range(MOST_VARIANTS + 50)]
    assert sum(found) == MOST_VARIANTS
    assert found[0]
    assert not found[-1]
    assert copy.has(Address("/grid", (("lane", "0"),)))


def test_a_link_leads_to_its_file_or_is_plain_text() -> None:
    body = '<a class="box &quot;" href="/runs/7?a=1&amp;b" aria-current="page">7 &lt; 8</a>'
    assert '<a class="box &quot;" href="../x.html?13" aria-current="page">7 &lt; 8</a>' in made(body)
    assert '<span class="box &quot;">7 &lt; 8</span>' in made(body, there=False)
    assert '<a href="https://ci.example/1" rel="noopener">x</a>' in made(
        '<a href="https://ci.example/1" rel="noopener">x</a>'
    )


def test_a_form_becomes_the_links_it_could_lead_to() -> None:
    form = (
        '<form action="/grid"><label>Lane &amp; co<select name="lane"><option value="">all</option>'
        '<option value="a&quot;">&lt;a&gt;</option><option value="b" selected>b</option>'
        '<option value="gone">gone</option></select></label><input name="x"><button>Show</button></form>'
    )
    assert (
        '<nav class="key" aria-label="Lane &amp; co"><span>Lane &amp; co:</span><a href="lane-.html">all</a>'
        '<a href="lane-a&quot;.html">&lt;a&gt;</a><b>b</b></nav>'
    ) in made(form)
    assert "Show" not in made(form)
    two = form.replace(
        "<input", '<label>Event<select name="event"><option value="">all</option></select></label><input'
    )
    assert "Event" not in made(two)  # a label is no part of the option before it
    assert "<nav" not in made('<form><label>A<input name="id"></label></form>')


def test_the_policy_is_the_styles_digest_and_stands_before_it() -> None:
    page = made("")
    assert "nonce" not in page
    assert page.index("sha256-") < page.index("<style>")
    assert "<style>\nbody > a { color: red; }\n</style>" in page
    assert "made &lt;then&gt;</p></footer>\n</body>" in page


class Text(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.words += data


@given(
    st.sampled_from(
        ["<script>alert(1)</script>", '"><img src=x onerror=a()>', "&lt;b&gt;", "&#60;i&#62;", "&"]
    )
)
def test_text_that_was_harmless_stays_so(text: str) -> None:
    from markupsafe import escape  # noqa: PLC0415

    safe = str(escape(text))
    found = Text(
        made(f'<p title="{safe}">{safe}</p><a class="{safe}" href="/x">{safe}</a>', title=safe, there=False)
    )
    assert set(found.tags) <= {"html", "head", "meta", "title", "style", "body", "p", "span", "footer"}
    assert found.words.count(text) == 3


def export_to(folder: Path, *names: str) -> None:
    with replacing(folder) as new:
        for name in names:
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).write_text(name)
        write_account(new, days=1)


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    export_to(tmp_path / "a" / "site", "index.html", "runs/1.html")
    export_to(tmp_path / "a" / "site", "index.html")
    assert sorted(one.name for one in (tmp_path / "a" / "site").iterdir()) == ["index.html", ACCOUNT]
    assert [one.name for one in (tmp_path / "a").iterdir()] == ["site"]


def test_an_export_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    export_to(tmp_path / "site", "index.html")
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "site") as new:
        (new / "runs" / "1.html").write_text("half")
    assert (tmp_path / "site" / "index.html").read_text() == "index.html"
    assert [one.name for one in tmp_path.iterdir()] == ["site"]


def test_an_export_that_was_killed_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / ".site.spyre-ci-new").mkdir()
    (tmp_path / ".site.spyre-ci-new" / "stale.html").write_text("x")
    export_to(tmp_path / "site", "index.html")
    (tmp_path / "site").rename(tmp_path / ".site.spyre-ci-old")  # between the two moves
    export_to(tmp_path / "site", "index.html")
    assert [one.name for one in tmp_path.iterdir()] == ["site"]
    assert not (tmp_path / "site" / "stale.html").exists()


def test_two_exports_to_one_folder_do_not_meet(tmp_path: Path) -> None:
    with replacing(tmp_path / "site") as new:
        with pytest.raises(RunInUseError, match="is being exported to"), replacing(tmp_path / "site"):
            pass
        (new / "index.html").write_text("x")
        write_account(new)
    assert (tmp_path / "site" / "index.html").read_text() == "x"


@pytest.mark.parametrize("account", ["{", "[]", '{"schema": "spyre-ci/hud-export/1", "files": 3}', None])
def test_a_folder_of_something_else_is_refused(tmp_path: Path, account: str | None) -> None:
    (tmp_path / "precious.html").write_text("mine")
    if account is not None:
        (tmp_path / ACCOUNT).write_text(account)
    with pytest.raises(UsageError, match=r"holds what no export wrote: 'precious\.html'"):
        export_to(tmp_path, "index.html")
    assert (tmp_path / "precious.html").read_text() == "mine"


def test_an_empty_folder_is_taken_and_a_file_is_not(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    export_to(tmp_path / "empty", "index.html")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is no folder"):
        export_to(tmp_path / "file", "index.html")
    with pytest.raises(FileSystemError, match="cannot be put there"):
        export_to(tmp_path / "file" / "below", "index.html")
