"""Engine, registry, cluster and endpoint matter to who asks for one; clocks are compared."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from ci.doctor import services
from ci.doctor.finding import Finding
from ci.doctor.machine import Machine
from ci.doctor.services import check_clock, check_cluster, check_engine, check_hud, check_registry

from .conftest import LATE, NOW, Answer, MakeMachine, short

ENGINE = {"name": "docker 29", "driver": "overlay2", "root": "/nowhere", "platform": "linux/x86_64"}
CLUSTER = {"name": "v1.33, namespace cards", "missing": []}
NO_JOBS = CLUSTER | {"missing": ["create jobs"]}
REPOSITORY = {"image__repository": "reg.example.com/a/b"}
NAMED, KUBECONFIG, POD = {"DOCKER_HOST": "unix:///s"}, {"KUBECONFIG": "k"}, {"KUBERNETES_SERVICE_HOST": "h"}


@pytest.mark.parametrize(
    ("check", "environ", "flags", "answer", "level", "words"),
    [
        (check_engine, {}, {}, "", "ok", "not used: none is running here"),
        (check_engine, NAMED, {}, ENGINE, "ok", "docker 29 at unix:///s, linux/x86_64, storage overlay2"),
        (check_engine, NAMED, {}, LATE, "fault", "unix:///s: no answer within 20 s"),
        (check_engine, NAMED, {}, {"error": "no engine", "remedy": ""}, "fault", "no engine"),
        (check_engine, {}, REPOSITORY, {"error": "no engine", "remedy": "x"}, "fault", "no engine"),
        (check_registry, {}, {}, "", "ok", "not used: image.repository is not set"),
        (check_registry, {}, REPOSITORY, {}, "ok", "reg.example.com answers for reg.example.com/a/b"),
        (check_registry, {}, REPOSITORY, {"error": "no", "remedy": ""}, "fault", "reg.example.com: no"),
        (check_registry, {}, REPOSITORY, LATE, "fault", "reg.example.com: no answer within 20 s"),
        (check_cluster, {}, {}, "", "ok", "not used: there is no KUBECONFIG and no ~/.kube/config"),
        (check_cluster, KUBECONFIG, {}, CLUSTER, "ok", "KUBECONFIG: v1.33, namespace cards; jobs can be"),
        (check_cluster, KUBECONFIG, {}, LATE, "fault", "KUBECONFIG: no answer within 25 s"),
        (check_cluster, KUBECONFIG, {}, {"error": "who?", "lacks": False}, "fault", "KUBECONFIG: who?"),
        (check_cluster, KUBECONFIG, {}, {"error": "no", "lacks": True}, "warning", "KUBECONFIG: no"),
        (check_cluster, KUBECONFIG, {}, NO_JOBS, "fault", "this user may not create jobs"),
        (check_cluster, POD, {}, NO_JOBS, "warning", "this pod: v1.33"),
        (check_cluster, {"HOME": "home"}, {}, LATE, "warning", "~/.kube/config: no answer"),
    ],
)
def test_a_service_matters_to_who_asks_for_it(  # noqa: PLR0917  # a row of the table
    make_machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    check: Callable[[Machine], Iterable[Finding]], environ: dict[str, str], flags: dict[str, Any],
    answer: Answer, level: str, words: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(Path, "is_socket", lambda _: False)
    (tmp_path / "home/.kube").mkdir(parents=True)
    (tmp_path / "home/.kube/config").touch()
    home = {"HOME": str(tmp_path / environ.get("HOME", "none"))}
    (found,) = check(make_machine(environ | home, answer, **flags))
    assert (str(found.level), words in found.message) == (level, True), found


def test_an_engine_that_is_merely_there_is_no_fault_and_its_storage_is_compared(
    make_machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "is_socket", lambda _: True)
    denied = {"error": "refused", "remedy": "start dockerd", "denied": True}
    (found,) = check_engine(make_machine({}, denied, system="linux"))
    assert (str(found.level), found.remedy[:31]) == ("warning", 'sudo usermod -aG docker "$USER"')
    hangs = {"error": "timed out", "remedy": "start dockerd", "hangs": True}
    (found,) = check_engine(make_machine({}, hangs, system="linux"))
    assert found.remedy == "restart it, or set DOCKER_HOST to another"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3 << 30))
    _, room = check_engine(make_machine({}, {**ENGINE, "root": str(tmp_path)}, system="linux"))
    assert short([room]) == [("warning", f"its storage {tmp_path} has 3.0 GiB left; images need 20.0 GiB")]
    assert len([*check_engine(make_machine({}, {**ENGINE, "root": str(tmp_path)}, system="darwin"))]) == 1


ENDPOINT = "https://hud.example.org/x"


def answering(
    monkeypatch: pytest.MonkeyPatch, answer: int | Exception, headers: dict[str, str] | None = None
) -> None:
    def ask(*_: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(status_code=answer, headers=headers or {}), NOW, NOW + 1

    monkeypatch.setattr(services, "_ask", ask)


@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        (405, "ok", f"{ENDPOINT} answers in 1.0 s"),
        (401, "ok", "answers in"),
        (302, "fault", "answers 302: a redirect, which reports do not follow"),
        (404, "fault", "answers 404: there is no such path"),
        (503, "fault", "answers 503: the server is out of order"),
        (requests.ReadTimeout(), "fault", "does not answer within 10 s"),
        (requests.ConnectionError("refused"), "fault", "cannot be reached: "),
    ],
)
def test_an_endpoint_that_takes_no_report_is_told(
    make_machine: MakeMachine,
    monkeypatch: pytest.MonkeyPatch,
    answer: int | Exception,
    level: str,
    words: str,
) -> None:
    answering(monkeypatch, answer)
    (found,) = check_hud(make_machine(report__endpoint=ENDPOINT))
    assert (str(found.level), words in found.message) == (level, True), found


def test_an_endpoint_is_one_that_a_token_may_go_to(
    make_machine: MakeMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answering(monkeypatch, 405)
    ((_, embedded),) = short([*check_hud(make_machine())])
    assert embedded.startswith(f"embedded, stored in {tmp_path}")
    assert short([*check_hud(make_machine(report__endpoint="none"))]) == [
        ("ok", "not used: report.endpoint is none")
    ]
    token = {"SPYRE_CI_HUD_TOKEN": "s3cret"}
    _, clear = check_hud(make_machine(token, report__endpoint="http://hud.example.org"))
    assert short([clear]) == [
        ("warning", "http://hud.example.org is not encrypted: the token can be read on the way")
    ]
    ((level, message),) = short([*check_hud(make_machine(report__endpoint="https://me:s3cret@hud"))])
    assert (level, "s3cret" in message) == ("fault", False)


@pytest.mark.parametrize(
    ("date", "headers", "level", "words"),
    [
        ("17:20:00", {}, "ok", "within 1.0 s of the endpoint's"),
        ("17:21:00", {}, "warning", "this machine's clock is 1 min 00 s behind the endpoint's"),
        ("17:19:00", {}, "warning", "ahead of the endpoint's"),
        ("18:20:00", {}, "fault", "1 h 00 min behind the endpoint's"),
        ("18:20:00", {"age": "3600"}, "ok", "not compared: the answer came from a cache"),
        ("noon", {}, "ok", "not compared: the endpoint does not tell the time"),
    ],
)
def test_clocks_are_compared(  # noqa: PLR0917  # a row of the table
    make_machine: MakeMachine, monkeypatch: pytest.MonkeyPatch,
    date: str, headers: dict[str, str], level: str, words: str,
) -> None:  # fmt: skip
    answering(monkeypatch, 405, {"date": f"Sat, 25 Jul 2026 {date} GMT", **headers})
    (found,) = check_clock(make_machine(report__endpoint=ENDPOINT))
    assert (str(found.level), words in found.message) == (level, True), found


def test_without_an_answer_no_clock_is_compared(
    make_machine: MakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, requests.ConnectionError())
    for endpoint in ("embedded", ENDPOINT):
        assert short([*check_clock(make_machine(report__endpoint=endpoint))]) == [
            ("ok", "not compared: no endpoint tells the time")
        ]
