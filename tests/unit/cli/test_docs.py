"""The commands in the documents are commands there are, with flags there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import typer

from ci.cli.app import app
from ci.cli.verbs import VERBS

from .every_verb import every_verb

ROOT = Path(__file__).parent.parent.parent.parent
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
)
SESSIONS = re.findall(
    r"^@nox\.session.*\ndef (\w+)", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE
)
CLASSIFIERS = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
SESSIONS += [f"tests-{version}" for version in re.findall(r":: (3\.\d+)\"", CLASSIFIERS)]


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
        parse(
            [word for word in words[1:] if word not in {"I", "…", "--help"}]
            if "--shard" not in words
            else words[1:]
        )
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


# Their blocks are run as written, by tests/heavy/test_first_hour.py and test_readme.py.
RUN_AS_WRITTEN = {"docs/first-hour.md", "docs/hosts.md"}


@pytest.mark.parametrize("document", sorted({*DOCUMENTS} - RUN_AS_WRITTEN))
def test_a_command_of_the_documents_is_typed_by_a_test(document: str) -> None:
    """A block's command is an example of a verb's help: tests/integration/verbs types them."""
    text = (ROOT / document).read_text(encoding="utf-8")
    typed = {example for verb in every_verb() for example in verb.examples}
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    shown = [line for block in blocks for line in block.splitlines() if line.startswith("spyre-ci ")]
    assert [line for line in shown if line not in typed] == []


def test_readme_names_every_verb() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Verbs")[2]
    assert [name for name in VERBS if f"`{name}`" not in text and f"`spyre-ci {name}`" not in text] == []
