"""The reference is what the code says, and reads as Markdown and as man pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from scripts.reference import Facts, _man, facts_of, man_pages, pages, synopsis
from tests.unit.cli.every_verb import every_verb

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
SCHEMAS = sorted(path.name for path in (ROOT / "docs" / "schemas").glob("*.json"))


def test_the_reference_is_what_the_code_says() -> None:
    made = pages(every_verb(), SCHEMAS)
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    old = sorted(name for name in {*made, *there} if made.get(name) != there.get(name))
    assert old == [], "run: python scripts/reference.py"


def test_every_page_has_every_section_in_its_order() -> None:
    for name, text in pages(every_verb(), SCHEMAS).items():
        if name == "README.md":
            continue
        found = re.findall(r"^#+ ([A-Z ]+)$", text, re.MULTILINE)
        assert found[:2] == ["NAME", "SYNOPSIS"]
        assert found[-4:] == ["EXIT STATUS", "FILES", "ENVIRONMENT", "SEE ALSO"]
        assert {"DESCRIPTION", "EXAMPLES"} <= set(found)


def test_a_page_shows_what_is_typed_as_it_is() -> None:
    shown = MarkdownIt().enable("table").render(pages(every_verb(), SCHEMAS)["job.md"])
    assert "<code>--param NAME=VALUE</code>" in shown
    assert "[minutes|hours|days|weeks]</code>" in shown
    assert "<th>option</th>" in shown


def test_the_width_of_the_terminal_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pages(every_verb(), SCHEMAS)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert pages(every_verb(), SCHEMAS) == before


def test_there_is_a_man_page_of_every_verb() -> None:
    made = man_pages(every_verb(), "1.2.3")
    assert sorted(made) == sorted(f"spyre-ci-{'-'.join(one.path)}.1" for one in every_verb())
    text = made["spyre-ci-history-export.1"]
    assert text.startswith('.TH "SPYRE-CI-HISTORY-EXPORT" "1" "" "spyre-ci 1.2.3" "spyre-ci"\n')
    assert ".B \\-\\-out FILE\n" in text or ".B \\-\\-out PATH\n" in text
    assert "spyre\\-ci history export \\-\\-out durations.json" in text


@given(st.text(min_size=1))
def test_no_text_becomes_a_command_of_roff(text: str) -> None:
    verb = Facts(
        path=("x",), help=(text,), examples=(" ".join(text.split()) or "x",), arguments=(), options=(),
        verbs=(), runs=True,
    )  # fmt: skip
    known = {".TH", ".SH", ".PP", ".TP", ".B", ".nf", ".fi"}
    for line in _man(verb, "1").split("\n"):
        assert not line.startswith(("'", ".")) or line.split(" ")[0] in known


def made_of() -> Facts:
    app = typer.Typer(add_completion=False)

    @app.command()
    def verb(  # noqa: PLR0917  # typer makes options of them
        where: Annotated[Path, typer.Argument(help="A place.")],
        more: Annotated[list[str] | None, typer.Argument(help="Others.")] = None,
        kind: Annotated[Literal["a", "b"], typer.Option(help="Which.")] = "a",
        number: Annotated[int | None, typer.Option("--number", "-n", min=1, max=9, help="How many.")] = None,
        needed: Annotated[str, typer.Option(metavar="WORD", help="A word.")] = ...,
        loud: Annotated[bool, typer.Option("--loud/--quiet", help="Louder.")] = True,
        old: Annotated[str | None, typer.Option("--old", hidden=True)] = None,
    ) -> None:
        """Do it.

        And say `so`.

        Example: spyre-ci verb here

        Example: spyre-ci verb there --loud
        """

    return facts_of(typer.main.get_command(app), ("verb",))


def test_facts_are_those_of_the_function() -> None:
    facts = made_of()
    assert facts.help == ("Do it.", "And say `so`.")
    assert facts.examples == ("spyre-ci verb here", "spyre-ci verb there --loud")
    assert [one.names for one in facts.arguments] == [("WHERE",), ("MORE",)]
    assert [one.required for one in facts.arguments] == [True, False]
    kind, number, needed, loud, old = facts.options
    assert (kind.kind, kind.default) == ("[a|b]", "a")
    assert (number.names, number.kind, number.default) == (("--number", "-n"), "INTEGER (>=1, <=9)", None)
    assert (needed.kind, needed.required) == ("WORD", True)
    assert (loud.names, loud.negative, loud.kind, loud.default) == (("--loud",), ("--quiet",), "", "yes")
    assert (old.hidden, old in facts.shown) == (True, False)


def test_a_synopsis_has_what_must_be_given() -> None:
    assert synopsis(made_of()) == "spyre-ci verb --needed WORD [OPTIONS] WHERE [MORE]..."
