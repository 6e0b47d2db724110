"""Roles of a stack: which commands are taken, and what becomes of them in an image."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import SettingsError
from ci.image.model import Role, Stack
from ci.image.roles import ENTRY, FOLDER, PORTS, labels_of, make_entry, packages_of, roles_in
from ci.image.stack import read_stack

TOP = {
    "version": 1,
    "name": "runtime",
    "base": {"image": "debian:bookworm"},
    "variants": {"pinned": {"version": "2.13.0"}},
}


def stack(**roles: dict[str, object]) -> Stack:
    return Stack.model_validate({**TOP, "roles": roles})


def read(tmp_path: Path, roles: object) -> Stack:
    path = tmp_path / "stack.yaml"
    path.write_text(json.dumps({**TOP, "roles": roles}))
    return read_stack(path)


@pytest.mark.parametrize(
    "command",
    [
        'python -m http.server "$PORT"',
        "vllm serve $MODEL --port $PORT > /tmp/log",
        "bash -c 'cd /tmp; ls | wc && exit 1'",
        'python -c "print((1))"',
    ],
)
def test_one_command_is_taken(command: str) -> None:
    assert Role.model_validate({"command": command}).command == command


@pytest.mark.parametrize("command", ["a; b", "a && b", "a | b", "a &", "(a)", "a\nb", " ", "a 'b", "cd x;ls"])
def test_more_or_less_than_one_command_is_refused(tmp_path: Path, command: str) -> None:
    with pytest.raises(SettingsError, match=r"is (not one|no) command") as caught:
        read(tmp_path, {"serve": {"command": command}})
    assert "roles.serve.command" in str(caught.value)


def test_a_role_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="roles"):
        read(tmp_path, {"train": {"command": "python train.py"}})


def test_each_role_is_a_file_that_takes_the_words_after_it() -> None:
    step = make_entry(stack(serve={"command": "vllm serve 'a b'"}))
    assert "exec vllm serve 'a b' \"$@\"" in shlex.split(step)
    assert f"> {ENTRY}; chmod 0755 {ENTRY};" in step
    assert f"> {FOLDER}/serve; chmod 0644 {FOLDER}/serve" in step
    assert f"{FOLDER}/test" not in step


def test_packages_of_roles_are_wanted_once() -> None:
    given_ = stack(
        test={"command": "pytest", "packages": ["pytest>=8"]},
        notebook={"command": "jupyter lab", "packages": ["jupyterlab", "pytest>=8"]},
    )
    assert packages_of(given_) == {"jupyterlab", "pytest>=8"}
    assert packages_of(stack(test={"command": "true"})) == set()


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"]))))
def test_labels_tell_the_roles_and_how_each_is_verified(words: list[str]) -> None:
    given_ = stack(test={"command": "pytest", "check": words}, serve={"command": "vllm"})
    assert roles_in({"other": "x", **labels_of(given_)}) == {"test": words, "serve": []}


def test_the_entry_script_has_the_ports_that_are_told() -> None:
    lines = [line.strip() for line in shlex.split(make_entry(stack()))]
    for name, port in PORTS.items():
        assert lines[lines.index(f"{name})") + 1] == f"port {port}"
    assert "\n" not in make_entry(stack(test={"command": "true"}))
