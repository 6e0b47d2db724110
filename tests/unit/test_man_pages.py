"""Man pages say of a verb what the code says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from hypothesis import given
from hypothesis import strategies as st

from scripts.man_pages import Facts, _man, facts_of, man_pages, synopsis
from tests.unit.cli.every_verb import every_verb


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
