"""What is decided of indexes, endpoint, engine and cluster before anybody is asked."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.tags import Tag

from ci.core.errors import CommandError
from ci.core.process import Ended
from ci.doctor.cluster import look_cluster
from ci.doctor.engine import look_engine
from ci.doctor.finding import Level
from ci.doctor.hud import look_hud
from ci.doctor.index import Asker, State, at_once, installs, look_index, pip_settings
from ci.doctor.pip_settings import PipSettings
from ci.doctor.world import Processes

from .conftest import NOW, MakeWorld

WHEEL = "torch-2.13.0-py3-none-any.whl"
ASKER = Asker(pip=PipSettings(), pin="2.13.0", tags=[Tag("py3", "none", "any")], clock=lambda: NOW)
NO_HEADER = "Configuration file could not be loaded.\nFile contains no section headers.\n'pass = hunter2'\n"


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ([f"torch/{WHEEL}"], "has"),
        (["torch/torch-2.12.0-py3-none-any.whl"], "lacks"),
        (["numpy/x"], "none"),
        ([], "away"),
    ],
)
def test_a_folder_is_an_index(tmp_path: Path, files: list[str], state: State) -> None:
    root = tmp_path / "a b"
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    for address in (str(root), root.as_uri()):
        assert ASKER.index(address, "index-url").state == state


def test_a_folder_of_links_has_the_files_themselves(tmp_path: Path) -> None:
    (tmp_path / WHEEL).touch()
    assert ASKER.links(str(tmp_path)).state == "has"
    assert ASKER.links(str(tmp_path / WHEEL)).state == "has"
    (tmp_path / "links.html").write_text(f"<a href='{WHEEL}'>{WHEEL}</a>")
    assert ASKER.links(str(tmp_path / "links.html")).state == "has"
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "index.html").write_text(f"<a href='x'>{WHEEL}</a>")
    assert ASKER.index(str(tmp_path), "index-url").state == "has"


def test_an_address_that_is_none_is_told() -> None:
    for address in ("https://[::1/simple", "https://me:hunter2/3@host/simple", "https:///simple"):
        found = ASKER.index(address, "index-url")
        assert (found.why, "hunter2" in found.shown) == ("it is no address", False)


def test_a_call_that_falls_over_answers_all_the_same() -> None:
    def fall() -> object:
        raise ZeroDivisionError

    (found,) = at_once([fall])  # type: ignore[list-item]  # what it would give is not reached
    assert (found.state, found.why) == ("away", "cannot be asked: ZeroDivisionError")


@pytest.mark.parametrize("answer", [1, CommandError("took longer than 12 s: python")])
def test_without_pip_its_variables_count(make_world: MakeWorld, answer: int | CommandError) -> None:
    found, note = pip_settings(make_world({"PIP_INDEX_URL": "https://a/simple"}, answer))
    assert found.indexes == ("https://a/simple",)
    assert "only its variables count" in note


@pytest.mark.parametrize(
    ("environ", "level"), [({}, Level.FAULT), ({"NOX_DEFAULT_VENV_BACKEND": "none"}, Level.WARNING)]
)
def test_a_pip_that_cannot_use_its_settings_installs_nothing(
    make_world: MakeWorld, environ: dict[str, str], level: Level
) -> None:
    def run(*_: object, **__: object) -> Ended:
        return Ended(code=2, stdout=b"", stderr=NO_HEADER.encode())

    (found,) = look_index(replace(make_world(environ), processes=Processes(run)))
    assert found.level is level
    why = "Configuration file could not be loaded. File contains no section headers."
    assert found.said == f"pip cannot use its settings: {why}"
    assert found.remedy.endswith(f"{sys.executable} -m pip config list")


def test_without_a_pip_its_settings_are_not_broken(make_world: MakeWorld) -> None:
    def run(*_: object, **__: object) -> Ended:
        return Ended(code=1, stdout=b"", stderr=b"/bin/python: No module named pip\n")

    assert pip_settings(replace(make_world(), processes=Processes(run)))[0].broken == ""


def test_pip_may_be_told_to_ask_no_index(make_world: MakeWorld) -> None:
    (found,) = look_index(make_world({}, "global.no-index='true'\n"))
    assert (found.level, found.said) == (Level.FAULT, "pip is told to ask no index")
    (found,) = look_index(make_world({"NOX_DEFAULT_VENV_BACKEND": "none"}, "global.no-index='true'\n"))
    assert found.level is Level.WARNING


def test_where_nox_takes_the_environment_as_it_is_nothing_is_installed(make_world: MakeWorld) -> None:
    assert installs(make_world())
    assert not installs(make_world({"SPYRE_CI_ENVIRONMENT": "image"}))


@pytest.mark.parametrize(
    ("environ", "flags", "level", "words"),
    [
        ({}, {"report__endpoint": "none"}, Level.OK, "not used"),
        ({}, {}, Level.OK, "embedded, kept in"),
        ({}, {"report__endpoint": "https://me:hunter2@h"}, Level.FAULT, "contains a user name or password"),
        ({}, {"report__endpoint": "http://[::1"}, Level.FAULT, "is no http(s) URL"),
    ],
)
def test_an_endpoint_that_cannot_be_one_is_not_asked(
    make_world: MakeWorld, environ: dict[str, str], flags: dict[str, object], level: Level, words: str
) -> None:
    (found,) = look_hud(make_world(environ, **flags))
    assert found.level is level, found
    assert words in found.said
    assert "hunter2" not in f"{found.said}{found.remedy}"


def test_a_token_that_would_not_be_sent_is_told(make_world: MakeWorld, tmp_path: Path) -> None:
    """The address of a committed file is one that a pull request can change."""
    (tmp_path / "spyre-ci.yaml").write_text("report: {endpoint: 'https://hud.example.org'}\n")
    (found,) = look_hud(make_world({"SPYRE_CI_HUD_TOKEN": "t"}))
    assert found.level is Level.FAULT
    assert "the token is not sent to https://hud.example.org" in found.said
    assert "SPYRE_CI__REPORT__ENDPOINT" in found.remedy


def test_nobody_is_asked_where_nothing_is_named(make_world: MakeWorld, tmp_path: Path) -> None:
    engine, registry = look_engine(make_world(), is_socket=lambda _: False)
    (cluster,) = look_cluster(make_world(), home=tmp_path)
    assert [one.level for one in (engine, registry, cluster)] == [Level.OK] * 3


@pytest.mark.parametrize(
    ("environ", "file", "level", "words"),
    [
        ({"KUBECONFIG": "/k"}, False, Level.FAULT, "of KUBECONFIG: does not answer"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False, Level.WARNING, "of this pod"),
        ({}, True, Level.WARNING, "of ~/.kube/config"),
    ],
)
def test_a_cluster_is_named_as_kubectl_has_it(  # noqa: PLR0917  # a row of the table
    make_world: MakeWorld, tmp_path: Path, environ: dict[str, str], file: bool, level: Level, words: str
) -> None:
    if file:
        (tmp_path / ".kube").mkdir()
        (tmp_path / ".kube" / "config").touch()
    (found,) = look_cluster(make_world(environ, CommandError("took longer than 25 s")), home=tmp_path)
    assert found.level is level
    assert words in found.said


def test_an_engine_that_hangs_is_told_by_its_address_without_a_password(make_world: MakeWorld) -> None:
    world = make_world({"DOCKER_HOST": "tcp://me:hunter2@h:1"}, CommandError("took longer than 20 s"))
    found, _ = look_engine(world)
    assert (found.level, found.said) == (Level.FAULT, "tcp://h:1 does not answer: took longer than its time")


def test_on_macos_an_engine_of_the_users_own_is_found(make_world: MakeWorld, tmp_path: Path) -> None:
    told = f'{{"version": "29", "driver": "overlay2", "root": "{tmp_path}", "platform": "linux/arm64"}}'
    desktop = Path("/h/.docker/run/docker.sock")
    found = look_engine(
        make_world({"HOME": "/h"}, told), system="darwin", is_socket=lambda path: path == desktop
    )
    assert found[0].said == f"docker 29 at unix://{desktop}, linux/arm64, storage overlay2"
    # What it has its images on is a disk of its own machine, whatever is of that name here.
    assert [one.look for one in found] == ["engine", "registry"]
    found = look_engine(make_world({"HOME": "/h"}), system="darwin", is_socket=lambda _: False)
    assert found[0].said.startswith("not used: none is there")


def test_what_a_child_says_is_taken_as_it_is(make_world: MakeWorld, tmp_path: Path) -> None:
    told = '{"version": "29", "driver": "vfs", "root": "ROOT", "platform": "linux/x86_64", "registry": {}}'
    world = make_world(
        {"DOCKER_HOST": "unix:///s"},
        told.replace("ROOT", str(tmp_path)),
        image__repository="reg.example.com/a/b",
    )
    found = look_engine(world, system="linux", is_socket=lambda _: False)
    assert found[0].said == "docker 29 at unix:///s, linux/amd64, storage vfs"
    assert found[-1].said == "reg.example.com answers for reg.example.com/a/b"
