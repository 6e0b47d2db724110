from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.core.errors import EXIT_USAGE, CommandError
from ci.jobs.access import configuration_of
from ci.jobs.cluster import open_cluster
from ci.jobs.errors import CredentialsError
from ci.jobs.paths import path_of
from tests.kubernetes_api import NAMESPACE, TOKEN, KubernetesApi

CONFIGS = path_of("ConfigMap", NAMESPACE)


def changed(path: Path, **parts: Any) -> dict[str, str]:
    """The environment that names a kubeconfig, after a change of it."""
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **parts}))
    return {"KUBECONFIG": str(path)}


def test_a_kubeconfig_says_cluster_token_and_namespace(api: KubernetesApi, tmp_path: Path) -> None:
    cluster = open_cluster({"KUBECONFIG": str(api.kubeconfig(tmp_path))})
    assert cluster.namespace == NAMESPACE
    assert cluster.items(CONFIGS)[0] == []
    assert cluster.version()["gitVersion"] == api.git_version


def test_the_usual_file_is_taken_where_none_is_named(api: KubernetesApi, tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    api.kubeconfig(tmp_path).rename(tmp_path / ".kube" / "config")
    assert configuration_of({}, home=tmp_path)[1] == NAMESPACE


def test_another_context_has_its_own_namespace(api: KubernetesApi, tmp_path: Path) -> None:
    path = api.kubeconfig(tmp_path)
    contexts = yaml.safe_load(path.read_text())["contexts"]
    contexts.append({"name": "there", "context": {"cluster": "here", "user": "me"}})
    environ = changed(path, contexts=contexts)
    assert open_cluster(environ, context="there").namespace == "default"
    assert open_cluster(environ, context="there", namespace="mine").namespace == "mine"


def test_a_context_that_is_not_there_is_told(api: KubernetesApi, tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="nowhere") as caught:
        open_cluster({"KUBECONFIG": str(api.kubeconfig(tmp_path))}, context="nowhere")
    assert caught.value.exit_code == EXIT_USAGE


def test_nothing_to_go_by_is_told(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="nothing says which cluster is meant"):
        configuration_of({}, home=tmp_path)
    with pytest.raises(CredentialsError, match="no kubeconfig with a context 'a'"):
        configuration_of({}, home=tmp_path, context="a")


@pytest.mark.parametrize("content", ["", "- 1", "{", f"token: {TOKEN}", f"users: {TOKEN}\ncontexts: [1]"])
def test_a_broken_kubeconfig_is_told_without_what_is_in_it(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(CredentialsError, match="cannot be used") as caught:
        open_cluster({"KUBECONFIG": str(path)})
    assert TOKEN not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_token_goes_to_nobody_in_the_clear(api: KubernetesApi, tmp_path: Path) -> None:
    clusters = [{"name": "here", "cluster": {"server": "http://api.example.com:6443"}}]
    with pytest.raises(CredentialsError, match="could read the token") as caught:
        open_cluster(changed(api.kubeconfig(tmp_path), clusters=clusters))
    assert "https://" in str(caught.value)


def test_a_token_no_header_may_hold_is_told_without_it(api: KubernetesApi, tmp_path: Path) -> None:
    environ = {"KUBECONFIG": str(api.kubeconfig(tmp_path, token=f"{TOKEN}\nx"))}
    with pytest.raises(CredentialsError, match="hold what no header may") as caught:
        open_cluster(environ).items(CONFIGS)
    assert TOKEN not in str(caught.value)


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}


def told_by(api: KubernetesApi, folder: Path, *lines: str) -> dict[str, str]:
    """The environment of a kubeconfig whose user is told by a program of these lines."""
    program = folder / "who"
    program.write_text("\n".join([f"#!{sys.executable}", "import sys, pathlib", *lines]))
    program.chmod(0o700)
    about = {"apiVersion": EXEC["apiVersion"], "command": str(program), "interactiveMode": "Never"}
    return changed(api.kubeconfig(folder), users=[{"name": "me", "user": {"exec": about}}])


def says(**status: str) -> str:
    return f"print({json.dumps({**EXEC, 'status': status})!r})"


def test_a_program_says_who_asks(api: KubernetesApi, tmp_path: Path) -> None:
    cluster = open_cluster(told_by(api, tmp_path, says(token=TOKEN)))
    assert cluster.items(CONFIGS)[0] == []


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["sys.exit('##[error]not signed in\\nto https://me:word@sso.example.com')"], "process returned 1"),
        (["print('no JSON')"], "failed to decode process output"),
        ([says()], "missing token or clientCertificateData"),
    ],
)
def test_a_program_that_does_not_say_it_is_told_and_nobody_is_asked(
    api: KubernetesApi,
    tmp_path: Path,
    lines: list[str],
    told: str,
    *,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    environ = told_by(api, tmp_path, *lines)
    with pytest.raises(CredentialsError, match="the program that says who asks did not") as caught:
        open_cluster(environ)
    assert told in str(caught.value)
    assert "\n" not in caught.value.what
    assert "me:word" not in str(caught.value)
    assert "run it by itself" in str(caught.value.remedy)
    # What a stranger said is in the error alone, which is made harmless where it is shown.
    assert caplog.records == []
    assert "".join(capsys.readouterr()) == ""
    assert api.seen == []


def test_a_program_that_fails_when_its_token_is_over_is_told(
    api: KubernetesApi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    there = tmp_path / "asked"
    environ = told_by(
        api,
        tmp_path,
        f"if pathlib.Path({str(there)!r}).exists(): sys.exit('sign in again')",
        f"pathlib.Path({str(there)!r}).touch()",
        says(token=TOKEN, expirationTimestamp="2020-01-01T00:00:00Z"),
    )
    cluster = open_cluster(environ)
    with pytest.raises(CredentialsError, match=r"can no longer be shown: exec: .*sign in again"):
        cluster.items(CONFIGS)
    assert caplog.records == []


@pytest.fixture
def in_pod(tmp_path: Path) -> Path:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    for name, content in (("token", TOKEN), ("ca.crt", "made up"), ("namespace", "mine\n")):
        (folder / name).write_text(content)
    return folder


HERE = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_in_a_pod_its_service_account_asks(in_pod: Path, tmp_path: Path) -> None:
    configuration, namespace = configuration_of(HERE, home=tmp_path, in_pod=in_pod)
    assert (configuration.host, namespace) == ("https://10.0.0.1:443", "mine")
    assert configuration.auth_settings()["BearerToken"]["value"].split() == ["bearer", TOKEN]


@pytest.mark.parametrize("name", ["token", "ca.crt", "namespace"])
def test_a_service_account_that_is_not_mounted_is_told(in_pod: Path, tmp_path: Path, name: str) -> None:
    (in_pod / name).unlink()
    with pytest.raises(CredentialsError, match="service account cannot be used") as caught:
        configuration_of(HERE, home=tmp_path, in_pod=in_pod)
    assert "mount its service account's token" in str(caught.value)


def test_without_the_extra_it_is_told_what_to_install(
    api: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = api.kubeconfig(tmp_path)
    monkeypatch.setitem(sys.modules, "kubernetes.config", None)
    with pytest.raises(CommandError, match=r"kubernetes") as caught:
        open_cluster({"KUBECONFIG": str(path)})
    assert "spyre-ci[jobs]" in str(caught.value)
