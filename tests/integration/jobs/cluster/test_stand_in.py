"""The stand-in of a cluster refuses what a real one does: else the tests beside it show little."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from tests import kubernetes_world
from tests.kubernetes_api import NAMESPACE, KubernetesApi
from tests.kubernetes_jobs import NAME, manifests_of

BASE = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
Manifest = dict[str, Any]


@pytest.fixture
def ask(api: KubernetesApi) -> Callable[..., requests.Response]:
    def ask(method: str, path: str, body: Any = None, **headers: str) -> requests.Response:
        known = {"Authorization": f"Bearer {api.token}", **headers}
        return requests.request(method, f"{api.url}{path}", json=body, headers=known, timeout=20)

    return ask


Ask = Callable[..., requests.Response]


def job(change: Callable[[Manifest], None] | None = None) -> Manifest:
    made = manifests_of()[1]
    if change is not None:
        change(made)
    return made


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/apis/batch/v2/jobs", 404),
        ("GET", f"{BASE}/none", 404),
        ("PUT", f"{BASE}/none", 405),
        ("POST", f"{BASE}/none", 405),
        ("POST", "/apis/batch/v1/jobs", 405),
        ("GET", "/apis/kueue.x-k8s.io/v1beta1/workloads", 404),
        ("GET", f"{BASE}?limit=1&continue=made-up", 400),
    ],
)
def test_what_there_is_no_way_to_is_refused(ask: Ask, method: str, path: str, code: int) -> None:
    assert ask(method, path).status_code == code


def test_who_shows_nothing_is_refused(ask: Ask) -> None:
    assert ask("GET", BASE, Authorization="").json()["reason"] == "Unauthorized"


def _named(made: Manifest) -> None:
    made["metadata"]["name"] = "Not_A_Name"


def _of_another_kind(made: Manifest) -> None:
    made["kind"] = "Pod"


def _elsewhere(made: Manifest) -> None:
    made["metadata"]["namespace"] = "elsewhere"


def _misspelt(made: Manifest) -> None:
    made["spec"]["backofLimit"] = 1


def _labelled(made: Manifest) -> None:
    made["metadata"]["labels"]["a"] = "no label value!"


def _without_completions(made: Manifest) -> None:
    del made["spec"]["completions"]


def _long(made: Manifest) -> None:
    made["metadata"]["name"] = "a" * 60


def _owned(made: Manifest) -> None:
    made["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": ""}]
    del made["metadata"]["ownerReferences"][0]["uid"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_named, 422), (_of_another_kind, 400), (_elsewhere, 400), (_misspelt, 400), (_labelled, 422),
        (_without_completions, 422), (_long, 422), (_owned, 400),
    ],
)  # fmt: skip
def test_a_body_that_is_wrong_is_refused(ask: Ask, change: Callable[[Manifest], None], code: int) -> None:
    told = ask("POST", BASE, job(change))
    assert (told.status_code, told.json()["kind"]) == (code, "Status")
    assert ask("GET", BASE).json()["items"] == []


def test_a_second_of_a_name_and_a_changed_template_are_refused(ask: Ask) -> None:
    assert ask("POST", BASE, job()).status_code == 201
    assert ask("POST", BASE, job()).json()["reason"] == "AlreadyExists"
    merge = {"Content-Type": "application/merge-patch+json"}
    patch = {"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}}
    assert ask("PATCH", f"{BASE}/{NAME}", patch, **merge).json()["reason"] == "Invalid"
    assert ask("PATCH", f"{BASE}/{NAME}", {}).status_code == 415


def test_a_config_that_is_too_large_is_refused(ask: Ask) -> None:
    made = manifests_of()[0]
    made["data"]["slice-0"] = "x" * (1 << 20 | 1)
    told = ask("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", made)
    assert "must have at most 1048576 bytes" in told.json()["message"]


def test_who_asks_what_is_allowed_is_told(api: KubernetesApi, ask: Ask) -> None:
    api.denied.add(("create", "jobs"))
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for verb, allowed in (("create", False), ("list", True)):
        about = {"resourceAttributes": {"verb": verb, "resource": "jobs"}}
        assert ask("POST", path, {"spec": about}).json()["status"] == {"allowed": allowed}
    assert ask("GET", path).status_code == 405


def test_each_row_of_what_the_real_server_did_has_its_test() -> None:
    rows = re.findall(r"\| (\w+)::(\w+)$", kubernetes_world.__doc__ or "", flags=re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| ", kubernetes_world.__doc__ or "", flags=re.MULTILINE)) == 10
    for file, name in rows:
        assert f"\ndef {name}(" in (Path(__file__).parent / f"{file}.py").read_text(encoding="utf-8")
