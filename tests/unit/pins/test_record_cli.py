"""What `record` and `diff` refuse before anything is asked, and what they show."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ci.config.load import Settings, load_settings
from ci.core.errors import SettingsError, SpyreCiError
from ci.pins.ledger import write_record
from ci.pins.record_cli import diff, record
from tests.unit.pins.test_ledger import record as made

APP = typer.Typer()
APP.command()(record)
APP.command()(diff)
TRACKS = "pins: {tracks: {a: {image: quay.io/a/b, direct: [torch]}, b: {package: torch, direct: [torch]}}}"


def settings(folder: Path, text: str = TRACKS) -> Settings:
    path = folder / "spyre-ci.yaml"
    path.write_text(text)
    return load_settings(path=path, environ={}, flags={}, cwd=folder)


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("{}", [], "pins.tracks: nothing is tracked"),
        (TRACKS, ["c"], "there is no track 'c'"),
        (TRACKS, ["--release", "1.0"], "--release: is of one track"),
        (TRACKS, ["a", "b", "--release", "1.0"], "--release: is of one track"),
        (TRACKS, ["a", "--flag", "major"], "--flag: a flag is of one release"),
        (TRACKS, ["a", "--release", "1.0", "--flag", "bug"], "--flag: 'bug' is no flag"),
        (
            "pins: {tracks: {a: {package: x, index: 'http://example.com/simple', direct: [x]}}}",
            [],
            "pins.tracks.a.index: http://example.com/simple must be https",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_said(tmp_path: Path, text: str, words: list[str], said: str) -> None:
    done = CliRunner().invoke(APP, ["record", *words], obj=settings(tmp_path, text))
    assert isinstance(done.exception, SpyreCiError)
    assert done.exception.exit_code == 2
    assert said in str(done.exception)


def test_tags_of_a_package_are_refused_with_the_settings(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="tags are of an image; a package has none"):
        settings(tmp_path, "pins: {tracks: {a: {package: x, tags: '*-ubi9', direct: [x]}}}")


def test_two_records_are_compared_in_words_and_for_machines(tmp_path: Path) -> None:
    folder = tmp_path / "pins" / "a"
    write_record(folder, made(track="a"))
    write_record(folder, made("1.1", track="a", sha="b" * 64, packages={"torch": "2.14.0\x1b[31m"}))
    done = CliRunner().invoke(APP, ["diff", "a"], obj=settings(tmp_path))
    assert done.exit_code == 0
    assert "  torch 2.13.0 -> 2.14.0\n" in done.stdout
    done = CliRunner().invoke(APP, ["diff", "a", "1.0", "1.1", "--json"], obj=settings(tmp_path))
    assert json.loads(done.stdout)["track"] == "a"


def test_without_the_extra_it_is_said_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "griffe", None)
    done = CliRunner().invoke(APP, ["record", "a"], obj=settings(tmp_path))
    assert "the ledger of pins wants a library that is not installed: griffe" in str(done.exception)
    assert "pip install 'spyre-ci[pins]'" in str(done.exception)


@pytest.mark.parametrize("verb", ["record", "diff"])
def test_help_has_an_example(verb: str) -> None:
    assert f"spyre-ci pins {verb}" in CliRunner().invoke(APP, [verb, "--help"]).stdout
