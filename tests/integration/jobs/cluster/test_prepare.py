"""What is refused of a spec and of flags before anything is sent, and what is written of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.cli.app import run
from ci.record.identity import RunIdentity, read_identity, write_identity
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan
from test_selection.selection import Selection, write_selection
from tests.kubernetes_api import KubernetesApi

IMAGE = f"registry.example.com/spyre/runtime@sha256:{'b' * 64}"
EVALUATION: dict[str, Any] = {
    "version": 1,
    "kind": "evaluation",
    "image": {"name": IMAGE},
    "parameters": {"BATCH": 8, "TOKEN": {"secret": "hub", "key": "token"}},
    "evaluation": {"command": ["evaluate", "{configs}/a.yaml"], "configs": ["a.yaml"]},
}
TESTS: dict[str, Any] = {
    "version": 1,
    "kind": "tests",
    "image": {"name": IMAGE},
    "tests": {"plan": "some"},
    "store": {"volume": "results"},
}


@pytest.fixture
def project(tmp_path: Path, api: KubernetesApi, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Specs of two kinds, a config file and a planned run."""
    folder = tmp_path / "project"
    planned = folder / "runs" / "some"
    planned.mkdir(parents=True)
    groups = (Group(file="test_a.py", ids=("test_a.py::T::test_1",)),)
    shards = (Shard(index=0, expected_s=1, groups=groups),)
    plan = Plan(fingerprint=fingerprint(shards), bound_s=1, makespan_s=1, binds="balance", shards=shards)
    write_plan(planned / "plan.json", plan)
    write_selection(planned / "selection.json", Selection(stage=None, percent=100, ids=plan.ids))
    identity = RunIdentity(
        run="some", run_id=7, run_attempt=1, device="spyre", pytorch_version="2.13.0", pytorch_sha="0" * 40,
        stage=None, percent=100, started_at=1_772_366_400.0,
    )  # fmt: skip
    write_identity(planned, identity)
    (folder / "a.yaml").write_text("model: base\n")
    (folder / "evaluation.yaml").write_text(yaml.safe_dump(EVALUATION))
    (folder / "tests.yaml").write_text(yaml.safe_dump(TESTS))
    (folder / "spyre-ci.yaml").write_text("report: {endpoint: none}\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    monkeypatch.setenv("CI", "1")
    return folder


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluation.yaml", "--param", "BATCH"], "--param is 'BATCH'"),
        (["evaluation.yaml", "--param", "TOKEN=x"], "which the spec takes from a secret"),
        (["evaluation.yaml", "--param", "bad name=x"], "bad name"),
        (["evaluation.yaml", "--plan", "some"], "--plan is some, and kind evaluation has none"),
        (["evaluation.yaml", "--collect"], "journals are of tests, and this is kind evaluation"),
        (["tests.yaml", "--run", "../other"], "--run is '../other'"),
        (["evaluation.yaml", "--run", "../other"], "--run is '../other'"),
        (["evaluation.yaml", "--run", ""], "--run is ''"),
        (["tests.yaml", "--gather"], "the journals will be in the volume results"),
        (["tests.yaml", "--plan", "gone"], "there is no run 'gone'"),
        (["gone.yaml"], "there is no such job spec"),
    ],
)
def test_what_cannot_be_submitted_is_told_before_anything_is_asked(
    project: Path, api: KubernetesApi, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert project.is_dir()
    assert run(["job", "submit", *words]) == 2
    assert said in capsys.readouterr().err
    assert api.seen == []


@pytest.mark.parametrize("named", ["gone.yaml", "link.yaml"])
def test_a_config_file_that_is_not_the_specs_own_is_told(
    project: Path, capsys: pytest.CaptureFixture[str], named: str
) -> None:
    (project / "link.yaml").symlink_to(project.parent / "kubeconfig")
    spec = EVALUATION | {"evaluation": {"command": ["x", "{configs}"], "configs": [named]}}
    (project / "evaluation.yaml").write_text(yaml.safe_dump(spec))
    assert run(["job", "render", "evaluation.yaml"]) == 2
    assert f"the config file '{named}' is not below the spec's folder" in capsys.readouterr().err


def test_an_image_that_is_built_has_no_name_to_render(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = EVALUATION | {"image": {"upload": {"folder": ".", "to": "registry.example.com/x/y"}}}
    (project / "evaluation.yaml").write_text(yaml.safe_dump(spec))
    assert run(["job", "render", "evaluation.yaml"]) == 2
    assert "the image is built when the job is submitted" in capsys.readouterr().err


def test_parameters_given_are_rendered_and_saved_with_the_spec(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["job", "render", "evaluation.yaml", "--run", "one", "--param", "BATCH=32"]) == 0
    pod = list(yaml.safe_load_all(capsys.readouterr().out))[-1]["spec"]["template"]["spec"]
    environment = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert (environment["PARAM_BATCH"], environment["PARAM_TOKEN"]) == ("32", None)
    words = ["--run", "one", "--param", "BATCH=32", "--save-spec", "sent.yaml"]
    assert run(["job", "submit", "evaluation.yaml", *words]) == 0
    saved = yaml.safe_load((project / "sent.yaml").read_text())
    assert saved["parameters"] == {"BATCH": "32", "TOKEN": {"secret": "hub", "key": "token"}}
    assert saved["image"] == {"name": IMAGE}


def test_rendering_to_a_file_writes_it(project: Path) -> None:
    assert run(["job", "render", "tests.yaml", "--out", "job.yaml"]) == 0
    kinds = [one["kind"] for one in yaml.safe_load_all((project / "job.yaml").read_text())]
    assert kinds == ["ConfigMap", "Job"]


def test_slices_too_large_for_config_maps_want_a_store_that_is_seen(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.is_dir()
    monkeypatch.setattr("ci.jobs.prepare.too_large", lambda _: True)
    assert run(["job", "submit", "tests.yaml"]) == 2
    assert "more than ConfigMaps take" in capsys.readouterr().err
    assert run(["job", "submit", "tests.yaml", "--store", str(tmp_path / "volume")]) == 0
    assert (tmp_path / "volume" / "some-7-1" / "inputs" / "slice-0000.json.gz").is_file()


def test_rendering_begins_no_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["job", "render", "tests.yaml", "--run", "other"]) == 2
    assert "--run is other, and the plan is of some-7-1" in capsys.readouterr().err
    assert not (project / "runs" / "other").exists()


def test_a_plan_that_is_submitted_as_another_run_is_run_once_more(project: Path, api: KubernetesApi) -> None:
    (project / "runs" / "some" / "summary.json").write_text("{}")
    assert run(["job", "submit", "tests.yaml", "--run", "nightly-1-1"]) == 0
    assert run(["job", "submit", "tests.yaml", "--run", "nightly-1-1"]) == 0
    folder = project / "runs" / "nightly-1-1"
    again = read_identity(folder)
    assert (again.run, again.device, again.run_attempt) == ("nightly-1-1", "spyre", 1)
    assert again.run_id > read_identity(project / "runs" / "some").run_id
    assert (folder / "plan.json").read_bytes() == (project / "runs" / "some" / "plan.json").read_bytes()
    assert not (folder / "summary.json").exists()
    assert len(api.store.of("jobs")) == 1
    assert run(["job", "submit", "tests.yaml", "--run", "nightly-2-1"]) == 0
    assert len(api.store.of("jobs")) == 2
    assert sorted(one.name for one in (project / "runs").iterdir()) == ["nightly-1-1", "nightly-2-1", "some"]
