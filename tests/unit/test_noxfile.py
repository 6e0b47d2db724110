"""Every session of the noxfile: what it calls, from where, and that a prepared environment is left alone."""

from __future__ import annotations

import atexit
import collections
import contextlib
import copy
import importlib.util
import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import nox
import nox.registry
import pytest
from nox.command import CommandFailed

ROOT = Path(__file__).parents[2]


def load(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The noxfile, as nox loads it: into a registry of its own."""
    monkeypatch.setattr(nox.registry, "_REGISTRY", collections.OrderedDict())
    monkeypatch.setattr(nox, "options", copy.copy(nox.options))
    spec = importlib.util.spec_from_file_location("the_noxfile", ROOT / "noxfile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def noxfile(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.chdir(ROOT)  # as nox does
    for name in ("NOX_DEFAULT_VENV_BACKEND", *(one for one in os.environ if one.startswith("SPYRE_CI_"))):
        monkeypatch.delenv(name, raising=False)
    # As in an environment that was prepared.
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    return load(monkeypatch)


@dataclass
class Recorder:
    """A session that notes what it is told, and where it stands meanwhile."""

    invoked_from: str
    posargs: list[str] = field(default_factory=list)
    venv_backend: str = "none"
    here: str = "the toolkit"
    ran: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    installed: list[tuple[str, ...]] = field(default_factory=list)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)
    bin: str = "/venv/bin"
    # What the settings say, as `spyre-ci config show --json` prints it.
    settings: dict[str, object] = field(default_factory=dict)
    # What another silent command prints.
    said: str | None = None
    good: list[list[int]] = field(default_factory=list)
    notified: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    @contextlib.contextmanager
    def chdir(self, folder: str | Path) -> Iterator[None]:
        before, self.here = self.here, str(folder)
        yield
        self.here = before

    def run(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        silent: bool = False,
        success_codes: Sequence[int] = (0,),
        **_: Any,
    ) -> str | bool:
        self.good += [list(success_codes)]
        self.environ.update(env or {})
        if silent:
            self.asked.append((self.here, words))
            return (
                self.said
                if self.said is not None
                else json.dumps({key: {"value": value} for key, value in self.settings.items()})
            )
        self.ran.append((self.here, words))
        return True

    def log(self, text: str) -> None:
        """What people read is not looked at."""

    def error(self, text: str) -> None:
        raise RuntimeError(text)

    def notify(self, name: str, posargs: Sequence[str] = ()) -> None:
        self.notified.append((name, tuple(posargs)))

    def install(self, *words: str) -> None:
        self.installed.append(words)


def call(noxfile: ModuleType, name: str, session: Recorder) -> list[tuple[str, ...]]:
    """What a session runs; all of it from where nox was called."""
    getattr(noxfile, name)(session)
    assert {where for where, _ in session.ran} == {session.invoked_from}
    return [words for _, words in session.ran]


# What pipelines call; `args` stands for what comes behind `--`.
SESSIONS = {
    "pytorch": ["spyre-ci pytorch args"],
    "plan": ["spyre-ci pipeline plan args"],
    "shards": ["spyre-ci run args"],
    "report": ["spyre-ci report args"],
    "unit": ["spyre-ci package unit args"],
    "device": ["spyre-ci package device args"],
    "image": ["spyre-ci image args"],
    "package": ["spyre-ci package build args", "spyre-ci package verify args"],
    "build": ["spyre-ci package build args"],
    "verify": ["spyre-ci package verify args"],
    "release": ["spyre-ci package release args"],
    "publish": ["spyre-ci package publish args"],
    "hud": ["spyre-ci hud args"],
    "pipeline": ["spyre-ci pipeline args"],
    "webhooks": ["spyre-ci webhooks args"],
    "lint": ["spyre-ci package lint args"],
}
OF_A_PROJECT = ("unit", "device", "package", "build", "verify", "release", "publish", "lint")


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_calls_its_verb_where_nox_was_called(
    noxfile: ModuleType, tmp_path: Path, name: str
) -> None:
    session = Recorder(str(tmp_path), ["args"])
    assert [" ".join(words) for words in call(noxfile, name, session)] == SESSIONS[name]
    assert session.installed == []


@pytest.mark.parametrize("name", OF_A_PROJECT)
def test_without_a_name_it_is_the_project_nox_was_called_in(
    noxfile: ModuleType, tmp_path: Path, name: str
) -> None:
    ran = call(noxfile, name, Recorder(str(tmp_path), ["--flag"]))
    assert all(words[3:] == (".", "--flag") for words in ran)


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_installs_the_toolkit_that_it_is_of(noxfile: ModuleType, tmp_path: Path, name: str) -> None:
    session = Recorder(str(tmp_path), ["args"], venv_backend="virtualenv")
    call(noxfile, name, session)
    # Beside it the device's tests have the project itself.
    project = [(str(tmp_path / "args"),)] if name == "device" else []
    assert [words[0] for words in session.installed[:1]] == ["-e"]
    assert session.installed[1:] == project


def test_the_image_is_built_unless_something_else_is_asked_for(noxfile: ModuleType, tmp_path: Path) -> None:
    assert call(noxfile, "image", Recorder(str(tmp_path), ["--push"])) == [
        ("spyre-ci", "image", "build", "--push")
    ]


@pytest.mark.parametrize("name", ["pytorch", "plan", "shards"])
def test_what_the_settings_name_is_installed_before_the_tests_run(
    noxfile: ModuleType, tmp_path: Path, name: str
) -> None:
    settings: dict[str, object] = {"device.install": ["--no-build-isolation", "."]}
    session = Recorder(str(tmp_path), ["args"], venv_backend="virtualenv", settings=settings)
    call(noxfile, name, session)
    assert session.installed[1:] == [("--no-build-isolation", ".")]
    assert session.asked == [(str(tmp_path), ("spyre-ci", "config", "show", "--json"))]


@pytest.mark.parametrize("words", [["--config", "p/a.yaml"], ["--stage", "1", "--config=p/a.yaml"]])
def test_settings_that_are_named_are_those_that_are_asked(
    noxfile: ModuleType, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "p").mkdir()
    file = tmp_path / "p" / "a.yaml"
    file.touch()
    session = Recorder(str(tmp_path), words, venv_backend="virtualenv")
    call(noxfile, "pytorch", session)
    assert session.asked == [
        (str(file.parent), ("spyre-ci", "--config", str(file), "config", "show", "--json"))
    ]


def test_an_argument_that_names_no_settings_is_the_verbs_to_refuse(
    noxfile: ModuleType, tmp_path: Path
) -> None:
    session = Recorder(str(tmp_path), ["--config"], venv_backend="virtualenv")
    assert call(noxfile, "pytorch", session) == [("spyre-ci", "pytorch", "--config")]


def test_an_environment_that_is_used_as_it_is_gets_no_back_end(noxfile: ModuleType, tmp_path: Path) -> None:
    session = Recorder(str(tmp_path), settings={"device.install": ["."]})
    call(noxfile, "shards", session)
    assert (session.asked, session.installed) == ([], [])


def checkout(folder: Path, name: str) -> Path:
    folder.mkdir()
    (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n', encoding="utf-8")
    return folder


def test_any_checkout_of_this_toolkit_gets_its_own_checks(noxfile: ModuleType, tmp_path: Path) -> None:
    ours = checkout(tmp_path / "project", "spyre-ci")
    ran = call(noxfile, "lint", Recorder(str(ours)))
    assert [words[0] for words in ran[1:-1]] == ["zizmor", "mypy", "mypy", "lint-imports"]
    assert ran[-1] == ("python", "scripts/check_repository.py")
    session = Recorder(str(tmp_path), ["project", "--fix"])
    noxfile.lint(session)
    assert session.ran[0] == (str(tmp_path), ("spyre-ci", "package", "lint", "project", "--fix"))
    assert (str(ours), ("mypy",)) in session.ran
    (there,) = [words for where, words in session.ran if where == str(ours) and "--platform" in words]
    assert there[:3] == ("mypy", "--platform", "darwin")


@pytest.mark.parametrize(
    ("posargs", "words"), [([], "--percent 1 --cards 2"), (["--stage", "0"], "--stage 0")]
)
def test_a_laptop_runs_unit_tests_and_a_share(
    noxfile: ModuleType, tmp_path: Path, posargs: list[str], words: str
) -> None:
    session = Recorder(str(tmp_path), posargs)
    noxfile.macos(session)
    unit, share = [(where, " ".join(one)) for where, one in session.ran]
    assert unit == ("the toolkit", "pytest tests/unit -n 2")
    assert share == (str(tmp_path), f"spyre-ci pytorch {words}")


@pytest.mark.parametrize("text", ['[project]\nname = "torch-spyre"\n', "[[[", "", None])
def test_another_project_gets_the_linters_alone(
    noxfile: ModuleType, tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    assert len(call(noxfile, "lint", Recorder(str(tmp_path)))) == 1


@pytest.mark.parametrize(
    ("told", "used"), [("none", "none"), ("uv", "uv"), ("", "virtualenv"), (None, "virtualenv")]
)
def test_the_environment_decides_how_sessions_get_theirs(
    monkeypatch: pytest.MonkeyPatch, told: str | None, used: str
) -> None:
    monkeypatch.delenv("NOX_DEFAULT_VENV_BACKEND", raising=False)
    if told is not None:
        monkeypatch.setenv("NOX_DEFAULT_VENV_BACKEND", told)
    assert load(monkeypatch).nox.options.default_venv_backend == used


def test_an_image_without_spyre_ci_runs_that_of_the_toolkit(
    noxfile: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    session = Recorder(str(tmp_path), ["--shard", "3"])
    assert call(noxfile, "shards", session) == [("python", "-P", "-m", "ci.cli", "run", "--shard", "3")]
    assert session.environ == {"PYTHONPATH": f"{ROOT}{os.pathsep}/theirs"}


def test_a_runner_that_is_the_image_is_used_as_it_is_and_emulates_nothing_unasked(
    noxfile: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_CI_ENVIRONMENT", "image")
    inside = load(monkeypatch)
    assert inside.nox.options.default_venv_backend == "none"
    session = Recorder(str(tmp_path))
    call(inside, "shards", session)
    assert session.environ["SPYRE_CI_EMULATE"] == "0"
    monkeypatch.setenv("SPYRE_CI_EMULATE", "1")
    call(inside, "shards", session)
    assert session.environ["SPYRE_CI_EMULATE"] == "1"
    outside = Recorder(str(tmp_path))
    call(noxfile, "shards", outside)
    assert "SPYRE_CI_EMULATE" not in outside.environ


def wheel_in(folder: Path) -> Path:
    (folder / "dist").mkdir()
    wheel = folder / "dist" / "demo-1.0-py3-none-any.whl"
    wheel.touch()
    return wheel


def test_device_tests_in_an_image_are_of_the_wheel_that_was_built_and_change_nothing_there(
    noxfile: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_CI_TESTED", "wheel")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    wheel = wheel_in(tmp_path)
    session = Recorder(str(tmp_path), ["."])
    noxfile.device(session)
    (_, pip), (where, words) = session.ran
    assert pip[:4] == ("python", "-m", "pip", "install")
    assert pip[-1] == str(wheel)
    assert {"--no-deps", "--no-build-isolation", "--target"} <= set(pip)
    assert (where, words) == (str(tmp_path), ("spyre-ci", "package", "device", "."))
    # Before the image's own.
    folder = pip[pip.index("--target") + 1]
    assert session.environ["PYTHONPATH"] == f"{ROOT}{os.pathsep}{folder}"
    assert not Path(folder).exists()


def test_device_tests_may_be_of_the_checkout_or_of_what_is_installed(
    noxfile: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_CI_TESTED", "checkout")
    session = Recorder(str(tmp_path), ["."])
    noxfile.device(session)
    assert session.ran[0][1][-1] == str(tmp_path)
    monkeypatch.setenv("SPYRE_CI_TESTED", "")
    assert len(call(noxfile, "device", Recorder(str(tmp_path), ["."]))) == 1


def test_in_an_environment_of_its_own_the_wheel_is_installed_with_what_it_needs(
    noxfile: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_CI_TESTED", "wheel")
    wheel = wheel_in(tmp_path)
    session = Recorder(str(tmp_path), ["."], venv_backend="virtualenv")
    assert len(call(noxfile, "device", session)) == 1
    # Also where an environment that is used again has another of that version.
    assert session.installed[1:] == [(str(wheel),), ("--force-reinstall", "--no-deps", str(wheel))]


def test_in_an_environment_of_its_own_there_is_nothing_to_test_but_the_checkout(
    noxfile: ModuleType, tmp_path: Path
) -> None:
    session = Recorder(str(tmp_path), ["."], venv_backend="virtualenv")
    call(noxfile, "device", session)
    assert session.installed[1:] == [(str(tmp_path),)]
    own = Recorder(str(checkout(tmp_path / "own", "spyre-ci")), ["."], venv_backend="virtualenv")
    call(noxfile, "device", own)
    assert len(own.installed) == 1  # this toolkit is there by then


@pytest.mark.parametrize(("what", "said"), [("wheel", "there is no wheel in"), ("image", "it is one of")])
def test_what_cannot_be_tested_is_said(
    noxfile: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, said: str
) -> None:
    monkeypatch.setenv("SPYRE_CI_TESTED", what)
    with pytest.raises(RuntimeError, match=said):
        noxfile.device(Recorder(str(tmp_path), ["."]))


class Failing(Recorder):
    """A session whose commands fail, as nox says it."""

    def run(self, *words: str, **_: Any) -> str | bool:
        raise CommandFailed(words[0])


@pytest.mark.parametrize(
    ("said", "ends_with"),
    [
        (["Returned code 3", "Returned code 1"], [3]),
        (["Returned code 1", "Returned code 3", "Returned code 1"], [3]),
        (["Returned code 1"], [1]),
        (["Program python not found"], []),
        (["Program python not found", "Returned code 3"], [3]),
    ],
)
def test_nox_ends_with_the_worst_code_of_its_sessions_and_with_its_own_where_there_is_none(
    noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch, said: list[str], ends_with: list[int]
) -> None:
    at_the_end: list[Callable[[], None]] = []
    ended: list[int] = []
    monkeypatch.setattr(atexit, "register", at_the_end.append)
    monkeypatch.setattr(os, "_exit", ended.append)
    for text in said:
        with pytest.raises(CommandFailed, match=text):
            noxfile.keeping_code(Failing("here"), text)
    for call_back in at_the_end:
        call_back()
    assert ended == ends_with


GATE = [("tests/heavy", "tests/integration", "tests/oracle", "-m", "gate and not (nightly or soak)")]


def test_the_gate_runs_long_tests_of_the_laws(noxfile: ModuleType, tmp_path: Path) -> None:
    session = Recorder(str(tmp_path))
    noxfile.gate(session)
    assert [words[1 : -len(noxfile.WORKERS)] for _, words in session.ran] == GATE
    assert session.good == [[0]]  # a gate of no test is red


@pytest.mark.parametrize(
    ("touched", "calls"),
    [("", []), ("tests/a\ntests/b\n", [("tests/a", "tests/b", "-m", "nightly and not soak")])],
)
def test_rooms_runs_nightly_tests_of_what_is_touched(
    noxfile: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    touched: str,
    calls: list[tuple[str, ...]],
) -> None:
    monkeypatch.setenv("CI_BASE", "main")
    session = Recorder(str(tmp_path), said=touched)
    noxfile.rooms(session)
    assert session.asked == [("the toolkit", ("python", "scripts/touched.py", "main"))]
    assert [words[1 : -len(noxfile.WORKERS)] for _, words in session.ran] == calls
    # What was touched may have no such test.
    assert session.good == [[0], [0, 5]][: len(calls) + 1]


@pytest.mark.parametrize("reruns", ["", "1"])
def test_tests_are_run_again_only_where_it_is_said(
    noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch, reruns: str
) -> None:
    assert "--reruns" not in noxfile.WORKERS
    monkeypatch.setenv("SPYRE_CI_RERUNS", reruns)
    assert ("--reruns" in load(monkeypatch).WORKERS) == bool(reruns)


def test_the_night_is_long_tests_properties_and_the_quick_benchmark(
    noxfile: ModuleType, tmp_path: Path
) -> None:
    session = Recorder(str(tmp_path))
    noxfile.nightly(session)
    assert session.notified == [("properties", ()), ("bench", ("--quick",))]
    noxfile.properties(session)
    assert [words[:5] for _, words in session.ran] == [
        ("pytest", "tests/heavy", "tests/integration", "tests/oracle", "-m"),
        ("pytest", "tests/unit", "-n", "2", "--hypothesis-profile"),
    ]
    assert session.ran[-1][1][-2:] == ("--hypothesis-profile", "nightly")


def test_every_session_says_in_one_line_what_it_is(noxfile: ModuleType) -> None:
    for name in (*SESSIONS, "tests", "gate", "nightly", "soak", "bench"):
        text = getattr(noxfile, name).func.__doc__
        assert text, name
        assert "\n" not in text
        assert len(text) <= 110


def test_every_extra_that_is_installed_is_one_of_the_project() -> None:
    # pip only warns of one that is not found, and installs without it.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "noxfile.py").read_text(encoding="utf-8") + (ROOT / "spyre-ci.yaml").read_text(
        encoding="utf-8"
    )
    named = {one for group in re.findall(r"(?:\.|spyre-ci)\[([\w,]+)\]", text) for one in group.split(",")}
    assert named
    assert named <= project["optional-dependencies"].keys()
