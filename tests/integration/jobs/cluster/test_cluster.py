"""A cluster is found and asked: credentials, second tries, and what an answer means."""

from __future__ import annotations

import json
import logging
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.core.errors import EXIT_INCOMPLETE, EXIT_USAGE, CommandError
from ci.jobs.access import authorization_of, configuration_of
from ci.jobs.cluster import PAGE, Cluster, Effects, open_cluster, path_of
from ci.jobs.errors import (
    ClusterAwayError,
    ClusterError,
    ConflictError,
    CredentialsError,
    CutError,
    ForbiddenError,
    GoneError,
    MissingError,
    RefusedError,
)
from tests.kubernetes_api import NAMESPACE, TOKEN, KubernetesApi

CONFIGS = path_of("ConfigMap", NAMESPACE)
PODS = path_of("Pod", NAMESPACE)


@dataclass
class Waited:
    """A clock that only waiting moves."""

    now: float = 1_000.0
    waits: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def effects(self) -> Effects:
        return Effects(monotonic=lambda: self.now, sleep=self.sleep)


@pytest.fixture
def waited() -> Waited:
    return Waited()


@pytest.fixture
def cluster(api: KubernetesApi, tmp_path: Path, waited: Waited) -> Cluster:
    return api.cluster(tmp_path, effects=waited.effects())


def config(name: str, spec: str = "one", **data: str) -> dict[str, Any]:
    about = {"name": name, "annotations": {"spyre-ci.io/spec": spec}, "labels": {"of": "me"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}


def test_what_is_made_is_there_and_what_is_deleted_or_only_checked_is_not(cluster: Cluster) -> None:
    cluster.create(CONFIGS, config("a"), dry_run=True)
    assert cluster.items(CONFIGS)[0] == []
    made = cluster.create(CONFIGS, config("a", x="1"))
    assert cluster.get(f"{CONFIGS}/a") == made
    assert cluster.patch(f"{CONFIGS}/a", {"data": {"y": "2"}})["data"] == {"x": "1", "y": "2"}
    assert cluster.delete(f"{CONFIGS}/a")
    assert not cluster.delete(f"{CONFIGS}/a")
    assert cluster.get(f"{CONFIGS}/a") is None


def test_lists_come_page_by_page(api: KubernetesApi, cluster: Cluster) -> None:
    for number in range(PAGE + 3):
        api.put(config(f"c-{number:04}"))
    found, version = cluster.items(CONFIGS, labels="of=me")
    assert [one["metadata"]["name"] for one in found] == [f"c-{number:04}" for number in range(PAGE + 3)]
    assert version == str(api.store.version)
    assert len(api.asked("GET", "configmaps")) == 2


def test_a_list_whose_version_is_dropped_under_way_is_begun_anew_but_not_without_end(
    api: KubernetesApi, cluster: Cluster
) -> None:
    api.pages.longest, api.pages.expire = 2, 1
    for number in range(5):
        api.put(config(f"c-{number}"))
    assert len(cluster.items(CONFIGS)[0]) == 5
    api.pages.expire = 100
    with pytest.raises(GoneError, match="410: The provided continue parameter is too old") as caught:
        cluster.items(CONFIGS)
    assert caught.value.exit_code == EXIT_INCOMPLETE


def test_too_many_requests_are_waited_for_as_long_as_is_asked(
    api: KubernetesApi, cluster: Cluster, waited: Waited
) -> None:
    api.fail(code=429, reason="TooManyRequests", retry_after=7, times=2)
    cluster.create(CONFIGS, config("a"))
    assert waited.waits == [7, 7]


def test_a_control_plane_that_is_renewed_is_waited_for_longer_each_time(
    api: KubernetesApi, tmp_path: Path, waited: Waited
) -> None:
    cluster = api.cluster(tmp_path, effects=waited.effects(), patience_s=600)
    api.fail("drop", times=10)
    api.fail(code=503, times=10)
    cluster.items(CONFIGS)
    for wait, least in zip(waited.waits, [0, 1, 2, 4, 8, 16, *[20] * 14], strict=True):
        assert least <= wait <= least + 0.5


def test_patience_has_an_end(api: KubernetesApi, cluster: Cluster, waited: Waited) -> None:
    api.fail(code=429, reason="TooManyRequests", message="slow down", retry_after=40, times=99)
    with pytest.raises(ClusterAwayError, match="429: slow down") as caught:
        cluster.items(CONFIGS)
    assert waited.waits == [40, 40]
    assert caught.value.exit_code == EXIT_INCOMPLETE


@pytest.mark.parametrize("kind", ["drop", "cut"])
def test_an_object_whose_answer_was_cut_is_made_once(api: KubernetesApi, cluster: Cluster, kind: str) -> None:
    api.fail(kind, method="POST", taken=True)
    made = cluster.create(CONFIGS, config("a"))
    assert made["metadata"]["name"] == "a"
    assert len(cluster.items(CONFIGS)[0]) == 1


def test_another_object_of_the_same_name_is_no_success(api: KubernetesApi, cluster: Cluster) -> None:
    api.put(config("a", spec="other"))
    with pytest.raises(ConflictError, match='409: configmaps "a" already exists') as caught:
        cluster.create(CONFIGS, config("a"))
    assert caught.value.exit_code == EXIT_USAGE


def test_a_cluster_that_says_nothing_is_not_waited_for_without_end(
    api: KubernetesApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci.jobs.cluster.READ_TIMEOUT_S", 0.2)
    api.fail("hang", times=99)
    with pytest.raises(ClusterAwayError, match=r"does not answer GET .*timed out"):
        cluster.items(CONFIGS)
    assert 5 < len(api.seen) < 12


@pytest.mark.parametrize(
    ("code", "message", "error", "said"),
    [
        (400, "because", RefusedError, "correct what the cluster rejects"),
        (401, "because", ForbiddenError, "sign in again"),
        (403, "because", ForbiddenError, "have the Role of docs/jobs-cluster.md bound"),
        (403, 'jobs "a" is forbidden: exceeded quota: cards', ForbiddenError, "quota raised"),
        (409, "because", ConflictError, "take another name"),
        (410, "because", GoneError, "try again"),
        (422, "because", RefusedError, "correct what the cluster rejects"),
        (404, "because", MissingError, "check the namespace"),
    ],
)
def test_a_refusal_is_told_with_its_remedy_and_not_asked_again(
    api: KubernetesApi, cluster: Cluster, *, code: int, message: str, error: type[ClusterError], said: str
) -> None:
    api.fail(code=code, reason="Made", message=message, times=99)
    with pytest.raises(error, match=f"{code}: {message}") as caught:
        cluster.patch(f"{CONFIGS}/a", {})
    assert said in str(caught.value)
    # A token may have been replaced meanwhile, so it is read anew once.
    assert len(api.seen) == 1 + (code == 401)


def test_an_unknown_field_is_refused(cluster: Cluster) -> None:
    with pytest.raises(RefusedError, match=r"strict decoding error: .*'dta' was unexpected"):
        cluster.create(CONFIGS, config("a") | {"dta": {}})


@pytest.mark.parametrize(
    ("path", "error", "said"),
    [
        ("/api/v1/nothing", MissingError, "404 page not found"),
        ("/version", ClusterAwayError, "GET /version is not a list"),
    ],
)
def test_what_is_no_list_is_told(cluster: Cluster, path: str, error: type[ClusterError], said: str) -> None:
    with pytest.raises(error, match=said):
        cluster.items(path)


def test_a_watch_tells_what_happens_and_ends_with_its_time(api: KubernetesApi, cluster: Cluster) -> None:
    _, version = cluster.items(CONFIGS)
    api.put(config("a"))
    api.put(config("b") | {"kind": "ConfigMap"})
    events = list(cluster.watch(CONFIGS, labels="of=me", resource_version=version, timeout_s=1))
    assert [one["type"] for one in events[:2]] == ["ADDED", "ADDED"]
    assert {one["type"] for one in events[2:]} == {"BOOKMARK"}


def test_a_watch_that_is_cut_ends(api: KubernetesApi, cluster: Cluster) -> None:
    _, version = cluster.items(CONFIGS)
    api.cut_watches = [1]
    api.put(config("a"))
    api.put(config("b"))
    events = list(cluster.watch(CONFIGS, labels="", resource_version=version, timeout_s=5))
    assert [one["object"]["metadata"]["name"] for one in events] == ["a"]


def test_a_watch_from_a_version_that_is_dropped_is_told(api: KubernetesApi, cluster: Cluster) -> None:
    _, version = cluster.items(CONFIGS)
    api.compact()
    with pytest.raises(GoneError, match="too old resource version"):
        list(cluster.watch(CONFIGS, labels="", resource_version=version, timeout_s=5))


def test_errors_never_hold_the_token(api: KubernetesApi, tmp_path: Path, waited: Waited) -> None:
    cluster = api.cluster(tmp_path, effects=waited.effects())
    for kind in ("drop", "cut", "status"):
        api.fail(kind, times=99, message=f"you sent Bearer {TOKEN}")
        with pytest.raises(ClusterError) as caught:
            cluster.items(CONFIGS)
        assert TOKEN not in str(caught.value)
        assert TOKEN not in repr(caught.value.__context__)
        api.faults.clear()


def test_a_log_that_is_cut_is_told(api: KubernetesApi, cluster: Cluster) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {}}}
    state: dict[str, Any] = {"running": {}}
    api.put(
        pod
        | {
            "spec": {"containers": [{"name": "main", "image": "i"}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "main", "state": state}]},
        }
    )
    for number in range(3):
        api.world.log("p", "main", f"line {number}")
    assert b"".join(cluster.log("p")).splitlines() == [b"line 0", b"line 1", b"line 2"]
    api.world.cut_log_after = 2
    with pytest.raises(CutError, match="broke off"):
        list(cluster.log("p"))


def changed(path: Path, **parts: Any) -> dict[str, str]:
    """The environment that names a kubeconfig, after a change of it."""
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **parts}))
    return {"KUBECONFIG": str(path)}


def test_a_kubeconfig_says_cluster_token_and_namespace(api: KubernetesApi, tmp_path: Path) -> None:
    path = api.kubeconfig(tmp_path)
    cluster = open_cluster({"KUBECONFIG": str(path)})
    assert cluster.namespace == NAMESPACE
    assert cluster.items(CONFIGS)[0] == []
    assert cluster.version()["gitVersion"] == api.git_version
    contexts = yaml.safe_load(path.read_text())["contexts"]
    contexts.append({"name": "there", "context": {"cluster": "here", "user": "me"}})
    environ = changed(path, contexts=contexts)
    assert open_cluster(environ, context="there").namespace == "default"
    assert open_cluster(environ, context="there", namespace="mine").namespace == "mine"
    with pytest.raises(CredentialsError, match="nowhere") as caught:
        open_cluster(environ, context="nowhere")
    assert caught.value.exit_code == EXIT_USAGE
    # The usual file is taken where none is named.
    (tmp_path / ".kube").mkdir()
    path.rename(tmp_path / ".kube" / "config")
    assert configuration_of({}, home=tmp_path)[1] == NAMESPACE


def test_nothing_to_go_by_is_told(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="no kubeconfig found to select the cluster"):
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
    with pytest.raises(CredentialsError, match="the token would be sent to") as caught:
        open_cluster(changed(api.kubeconfig(tmp_path), clusters=clusters))
    assert "https://" in str(caught.value)


def test_a_token_no_header_may_hold_is_told_without_it(api: KubernetesApi, tmp_path: Path) -> None:
    environ = {"KUBECONFIG": str(api.kubeconfig(tmp_path, token=f"{TOKEN}\nx"))}
    with pytest.raises(CredentialsError, match="contain a character that a header cannot have") as caught:
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
    with pytest.raises(CredentialsError, match="the credential program failed") as caught:
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
    with pytest.raises(CredentialsError, match=r"cannot be renewed: exec: .*sign in again"):
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
    assert authorization_of(configuration) == f"bearer {TOKEN}"


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


def test_a_token_file_may_end_in_a_newline_and_is_read_again_once_it_was_replaced(
    api: KubernetesApi, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    users = [{"name": "me", "user": {"tokenFile": str(token)}}]
    cluster = open_cluster(changed(api.kubeconfig(tmp_path), users=users))
    assert cluster.items(CONFIGS)[0] == []
    api.token = "another"
    token.write_text("another\n")
    assert cluster.items(CONFIGS)[0] == []
    api.token = "a third"
    with pytest.raises(ForbiddenError, match="401"):
        cluster.items(CONFIGS)


def test_what_another_thread_logs_is_no_word_of_a_credential(
    api: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = api.kubeconfig(tmp_path)
    configuration, _ = configuration_of({"KUBECONFIG": str(path)})

    def settings() -> dict[str, Any]:
        thread = threading.Thread(target=logging.getLogger("other").error, args=("the disk is nearly full",))
        thread.start()
        thread.join()
        return {"BearerToken": {"value": "Bearer x"}}

    monkeypatch.setattr(configuration, "auth_settings", settings)
    assert authorization_of(configuration) == "Bearer x"
