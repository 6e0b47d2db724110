"""A page of the server made into a page of a folder: links, forms, the policy and when it was made; pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser

# What the HTTP header says on the server; a page may not say of itself who may frame it.
POLICY = "default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
Attributes = list[tuple[str, str | None]]


@dataclass(slots=True)
class _Choice:
    """A field of a form: its label, and each value with its words and whether it is the chosen one."""

    label: str
    name: str
    options: list[tuple[str, bool, str]] = field(default_factory=list)


def rewrite(
    page: str,
    *,
    link: Callable[[str], str | None],
    choose: Callable[[str, str], str | None],
    note: str,
) -> str:
    """The page of a folder.

    Args:
        page: HTML as the server's templates write it.
        link: where a link of the server leads now; None makes it plain text.
        choose: where a filter's name and value lead now; None where there is no such page.
        note: what stands at the end of the page, plain text.
    """
    parser = _Rewriter(link, choose, note)
    parser.feed(page)
    parser.close()
    return parser.text


class _Rewriter(HTMLParser):
    def __init__(
        self, link: Callable[[str], str | None], choose: Callable[[str, str], str | None], note: str
    ) -> None:
        super().__init__(convert_charrefs=False)
        self._link = link
        self._choose = choose
        self._note = note
        self._out: list[str] = []
        self._policy = 0
        self._in_style = self._in_form = self._in_option = self._dropped = False
        self._label = ""
        self._choices: list[_Choice] = []

    @property
    def text(self) -> str:
        return "".join(self._out)

    def handle_decl(self, decl: str) -> None:
        self._out.append(f"<!{decl}>")

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        if self._in_form:
            self._field(tag, dict(attrs))
        elif tag == "form":
            self._in_form, self._choices = True, []
        elif tag == "a":
            self._anchor(attrs)
        elif tag == "style":
            self._in_style = True
            self._out.append("<style>")
        else:
            self._out.append(self.get_starttag_text() or "")
            if tag == "meta" and dict(attrs).get("charset"):
                self._policy = len(self._out)
                self._out.append("")

    def handle_startendtag(self, tag: str, attrs: Attributes) -> None:
        del tag, attrs
        if not self._in_form:
            self._out.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._in_form = False
            self._out.extend(self._navigation())
        if self._in_form or tag == "form":
            self._in_option = False
            return
        self._in_style = False
        if tag == "a" and self._dropped:
            self._dropped, tag = False, "span"
        if tag == "body":
            self._out.append(f'<footer><p class="soft small">{escape(self._note)}</p></footer>\n')
        self._out.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._in_form:
            self._words(data)
            return
        self._out.append(data)
        if self._in_style:
            digest = base64.b64encode(hashlib.sha256(data.encode()).digest()).decode()
            policy = escape(POLICY.format(digest=digest))
            self._out[self._policy] = f'\n<meta http-equiv="Content-Security-Policy" content="{policy}">'

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")

    def _anchor(self, attrs: Attributes) -> None:
        href = dict(attrs).get("href") or ""
        leads = self._link(href) if href.startswith("/") else href
        self._dropped = leads is None
        kept = [(name, leads if name == "href" else value) for name, value in attrs]
        if leads is None:
            kept = [(name, value) for name, value in attrs if name in {"class", "title"}]
        told = "".join(f' {name}="{escape(value or "")}"' for name, value in kept)
        self._out.append(f"<{'span' if leads is None else 'a'}{told}>")

    def _field(self, tag: str, attrs: dict[str, str | None]) -> None:
        if tag == "label":
            self._label = ""
        elif tag == "select":
            self._choices.append(_Choice(self._label, attrs.get("name") or ""))
        elif tag == "option" and self._choices:
            self._in_option = True
            self._choices[-1].options.append((attrs.get("value") or "", "selected" in attrs, ""))

    def _words(self, data: str) -> None:
        if self._in_option:
            value, chosen, words = self._choices[-1].options[-1]
            self._choices[-1].options[-1] = (value, chosen, words + data)
        self._label += data

    def _navigation(self) -> list[str]:
        """Links in the place of a form: to the pages it would have led to and that are there."""
        made = []
        for choice in self._choices:
            none_chosen = not any(chosen for _, chosen, _ in choice.options)
            links = []
            for place, (value, chosen, words) in enumerate(choice.options):
                if chosen or (none_chosen and place == 0):
                    links.append(f"<b>{words.strip()}</b>")
                elif leads := self._choose(choice.name, value):
                    links.append(f'<a href="{escape(leads)}">{words.strip()}</a>')
            if len(links) > 1:
                name = choice.label.strip()
                made.append(
                    f'<nav class="key" aria-label="{name}"><span>{name}:</span>{"".join(links)}</nav>'
                )
        return made
