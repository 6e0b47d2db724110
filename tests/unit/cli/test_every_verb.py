"""What every verb has in common: a help that fits a terminal, and refusals that help on."""

from __future__ import annotations

import re

import pytest

from ci.cli.app import run
from ci.cli.verbs import VERBS
from scripts.man_pages import Facts

from .every_verb import every_verb

WIDTH = 80
ALL = [pytest.param(one, id=one.name) for one in every_verb()]
RUN = [pytest.param(one, id=one.name) for one in every_verb() if one.runs]


@pytest.fixture(autouse=True)
def _a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERMINAL_WIDTH", str(WIDTH))
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(list(words))
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("verb", ALL)
def test_help_fits_and_names_every_option(verb: Facts, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shown(capsys, *verb.path, "--help")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= WIDTH
    assert "\x1b" not in out
    joined = " ".join(re.sub("[│|]", " ", out).split())
    assert f"spyre-ci {verb.name}" in joined
    for option in verb.shown:
        for name in (*option.names, *option.negative):
            # A long name is cut at the width of its column.
            assert name[:14] in out, name
    for option in verb.options:
        assert not option.hidden or f"{option.names[0]} " not in joined


@pytest.mark.parametrize("verb", RUN)
def test_help_shows_each_example_as_it_is_typed(verb: Facts, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = shown(capsys, *verb.path, "--help")
    joined = " ".join(out.split())
    for example in verb.examples:
        assert f"Example: {' '.join(example.split())}" in joined


@pytest.mark.parametrize("verb", ALL)
def test_help_leaks_no_markup(verb: Facts, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = shown(capsys, *verb.path, "--help")
    assert re.search(r"\[/?(bold|dim|red|green|yellow|cyan|blue|italic)\]", out) is None
    assert "\\b" not in out
    for paragraph in verb.help:
        assert paragraph[0].isupper() or paragraph[0] in "`-" or paragraph.startswith(("systemd", "torch")), (
            paragraph
        )
        assert paragraph.endswith((".", "…", ":")), paragraph


@pytest.mark.parametrize("name", list(VERBS))
def test_the_list_of_verbs_says_the_first_sentence_of_each(name: str) -> None:
    (verb,) = [one for one in every_verb() if one.path == (name,)]
    assert verb.help[0] == VERBS[name].help


@pytest.mark.parametrize("verb", RUN)
def test_an_option_that_is_none_is_refused_with_the_nearest(
    verb: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    near = next((one.names[-1] for one in verb.shown if len(one.names[-1]) > 4), None)
    wrong = "--frobnicate" if near is None else near + "x"
    code, out, err = shown(capsys, *verb.path, wrong)
    assert (code, out) == (2, "")
    said = " ".join(re.sub("[│╭╮╰╯─]", " ", err).split())
    assert f"No such option: {wrong}" in said
    assert near is None or near in said.partition(wrong)[2]


@pytest.mark.parametrize(
    ("words", "near"),
    [(("pytorh",), "pytorch"), (("hud", "rowz"), "rows"), (("pins", "campaignn"), "campaign")],
)
def test_a_verb_that_is_none_is_refused_with_the_nearest(
    words: tuple[str, ...], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = shown(capsys, *words)
    assert (code, out) == (2, "")
    assert f"'{near}'" in " ".join(re.sub("[│╭╮╰╯─]", " ", err).split())
