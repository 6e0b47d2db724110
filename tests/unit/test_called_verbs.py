"""Every `nox -s SESSION -- verb …` of workflows and of Jenkins resolves: session, verb and options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.nox_calls import commands_of, noxfile, resolve

ROOT = Path(__file__).parent.parent.parent
# Sessions of this repository's own, which call pytest or a script and no verb.
NO_VERB = {"nightly", "tests", "macos", "issue"}
# A list of Groovy's: what stands in quotes, and a word for each value in it.
_GROOVY = re.compile(r"spyreNox\((.*?)\)\n", re.DOTALL)


def lines() -> Iterator[tuple[str, str, list[str]]]:
    """Where each call of a workflow and of a step of Jenkins' stands, its session and its words."""
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items():
            for step in job.get("steps", []):
                if "noxfile.py" in step.get("run", ""):
                    # As the shell has it: of `${INDEX:+--index "$INDEX"}` what stands in it.
                    text = re.sub(r"\$\{\w+:\+(.*?)\}", r"\1", step["run"]).replace("$EXISTING", "")
                    session, *words = shlex.split(text.partition(" -s ")[2])
                    yield f"{path.name}, {name}", session, words[1:]
    for path in sorted([*ROOT.glob("jenkins/Jenkinsfile.*"), *ROOT.glob("jenkins/vars/*.groovy")]):
        for call in _GROOVY.findall(path.read_text(encoding="utf-8")):
            named = re.search(r"session: '(\w+)'", call)
            listed = re.search(r"arguments: \[(.*?)\]", call, re.DOTALL)
            if named is not None:
                yield path.name, named[1], groovy_words(listed[1] if listed else "")


def groovy_words(text: str) -> list[str]:
    """The words of a Groovy list; `x` for a value that only a build knows."""
    parts = [one.strip() for one in re.split(r",(?![^(]*\))", text) if one.strip()]
    return [one[1:-1] if one[0] in "'\"" and one[-1] == one[0] else "x" for one in parts]


CALLS = sorted(lines())


def test_there_are_calls_of_both() -> None:
    assert len([where for where, _, _ in CALLS if ".yml" in where]) > 20
    assert len([where for where, _, _ in CALLS if ".yml" not in where]) > 10


@pytest.mark.parametrize(("where", "session", "words"), CALLS)
def test_what_a_pipeline_calls_is_there(where: str, session: str, words: list[str]) -> None:
    assert session in noxfile().__dict__, where
    if session in NO_VERB:
        return
    commands = commands_of(session, words)
    assert commands, where
    for command in commands:
        assert resolve(command), where


@pytest.mark.parametrize(
    ("session", "words"),
    [("pipeline", ["gates"]), ("pipeline", ["gate", "--expects", "x"]), ("webhooks", ["poll"])],
)
def test_what_is_not_there_is_found(session: str, words: list[str]) -> None:
    (command,) = commands_of(session, words)
    with pytest.raises(Exception, match=r"No such (command|option)"):
        resolve(command)
