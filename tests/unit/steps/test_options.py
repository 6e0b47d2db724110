from __future__ import annotations

from pathlib import Path

import pytest

from ci.cli.app import run
from ci.core.errors import UsageError
from ci.steps.options import make_console, split_files, to_stdout


def test_files_are_split_at_commas_and_may_be_given_again() -> None:
    assert split_files(["a.py, b.py", "c.py"]) == ("a.py", "b.py", "c.py")
    assert split_files(None) == ()


@pytest.mark.parametrize("text", ["", " , "])
def test_files_that_name_nothing_are_not_every_file(text: str) -> None:
    with pytest.raises(UsageError, match="--files is empty"):
        split_files([text])


def test_colours_that_are_forced_on_make_no_terminal_of_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not make_console({"CI": "true"}, stderr=False).is_terminal
    assert make_console({}, stderr=False).is_terminal


@pytest.mark.parametrize("stderr", [False, True])
def test_in_github_nothing_that_is_said_is_a_command(
    stderr: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    console = make_console({"GITHUB_ACTIONS": "true"}, stderr=stderr)
    console.print("::error::said by a test\nand ##[error]this", markup=False)
    told = capsys.readouterr()
    assert (told.err if stderr else told.out) == "| ::error::said by a test\nand # #[error]this\n"


def test_standard_output_is_for_one_machine_at_most() -> None:
    assert not to_stdout(None)
    assert not to_stdout("events.jsonl")
    assert to_stdout("-")
    assert to_stdout("events.jsonl", json_output=True)
    with pytest.raises(UsageError, match="both write to standard output"):
        to_stdout("-", json_output=True)


def test_what_a_run_that_is_resumed_has_decided_is_refused_by_what_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--resume", "x", "--cards", "1", "-k", "a", "--ff", "--files", "b", "test_c.py"]
    assert run(["pytorch", *words]) == 2
    told = capsys.readouterr().err
    assert "--resume x and " in told
    assert set(told.partition(" and ")[2].partition(" are given")[0].split(", ")) == {
        "names of tests", "-k", "--files", "--ff",
    }  # fmt: skip


def test_a_settings_file_that_is_named_makes_that_of_the_folder_nobodys_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spyre-ci.yaml").write_text("run: [broken")
    Path("good.yaml").write_text("runs: elsewhere\n")
    assert run(["pytorch", "--resume", "latest"]) == 2
    assert "spyre-ci.yaml" in capsys.readouterr().err
    for words in (["pytorch", "--config", "good.yaml"], ["--config", "good.yaml", "pytorch"]):
        assert run([*words, "--resume", "latest"]) == 2
        told = capsys.readouterr().err
        assert "spyre-ci.yaml" not in told
        assert "elsewhere" in told
