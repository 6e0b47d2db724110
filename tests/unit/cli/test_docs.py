"""The commands in the documents are commands there are, with flags there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import typer

from ci.cli.app import app

ROOT = Path(__file__).parent.parent.parent.parent
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
)
SESSIONS = re.findall(
    r"^@nox\.session.*\ndef (\w+)", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE
)


def commands() -> list[list[str]]:
    """Every `spyre-ci …` and `nox -s …` of the documents' code, as words."""
    found = []
    for document in DOCUMENTS:
        text = (ROOT / document).read_text(encoding="utf-8")
        code = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        lines = [line for block in code for line in block.splitlines()]
        lines += re.findall(r"`((?:nox|spyre-ci) [^`]+)`", text)
        found += [shlex.split(part, comments=True) for line in lines for part in re.split(r"&&|\|\|", line)]
    return [words for words in found if words and Path(words[0]).name in {"nox", "spyre-ci"}]


def parse(arguments: list[str]) -> None:
    command: object = typer.main.get_command(app)
    # A verb that is only mentioned, such as `spyre-ci hud serve`, names a command that is there.
    while arguments and hasattr(command, "commands") and arguments[0] in command.commands:
        command = command.commands[arguments[0]]
        arguments = arguments[1:]
    assert hasattr(command, "make_context"), arguments
    if arguments:
        command.make_context("spyre-ci", list(arguments), resilient_parsing=False)


def test_the_documents_hold_commands() -> None:
    assert len(commands()) > 15


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_of_the_documents_is_one_there_is(words: list[str]) -> None:
    if Path(words[0]).name == "spyre-ci":
        parse([word for word in words[1:] if word not in {"I", "…"}] if "--shard" not in words else words[1:])
        return
    if "-s" in words:
        session = words[words.index("-s") + 1]
        assert session in SESSIONS
        if session == "pytorch" and "--" in words:
            parse(["pytorch", *words[words.index("--") + 1 :]])


def test_a_flag_that_is_not_there_would_be_found() -> None:
    with pytest.raises(Exception, match=r"(?i)no such option") as caught:
        parse(["pytorch", "--frobnicate"])
    assert not isinstance(caught.value, (AssertionError, click.exceptions.Abort))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_link_of_the_documents_leads_somewhere(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        file = (ROOT / document).parent / path if path else ROOT / document
        assert file.exists(), target
        headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
        assert not anchor or anchor in {
            re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings
        }


def test_every_verb_is_among_the_verbs() -> None:
    text = (ROOT / "docs" / "verbs.md").read_text(encoding="utf-8")
    verbs: dict[str, object] = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group
    for name, command in verbs.items():
        for verb in [f"{name} {one}" for one in getattr(command, "commands", ())] or [name]:
            # A line may name several: `hud send` beside `spyre-ci hud serve`.
            assert f"spyre-ci {verb}" in text or f"`{verb}" in text, verb
