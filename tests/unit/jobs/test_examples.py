"""Every example keeps its contract and renders to what nine releases take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci.jobs.fill import to_yaml
from ci.jobs.job import Job
from ci.jobs.kinds import check_contract
from ci.jobs.render import render
from ci.jobs.spec import KINDS, read_spec
from tests.conftest import Golden
from tests.job_specs import job_of
from tests.manifests import broken_rules, check_strictly

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"
# The others are settings, which tests of lanes and pins load.
SPECS = [path for path in sorted(EXAMPLES.glob("*.yaml")) if not path.name.startswith(("lanes-", "pins-"))]


def job_from(path: Path) -> Job:
    spec = read_spec(path)
    check_contract(spec, path)
    if spec.kind == "tests":
        return job_of(spec)
    return job_of(spec, files={name: (EXAMPLES / name).read_bytes() for name in spec.configs})


def test_there_is_an_example_of_every_kind_and_the_readme_names_each() -> None:
    assert {read_spec(path).kind for path in SPECS} == set(KINDS)
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted(EXAMPLES.glob("*.yaml")) if f"]({path.name})" not in readme] == []


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_an_example_renders_to_what_every_release_takes(path: Path) -> None:
    manifests = render(job_from(path))
    check_strictly(manifests)
    assert broken_rules(manifests) == []


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_an_example_says_what_it_is_and_names_nobodys_registry(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    image = read_spec(path).image
    names = [image.name, image.git and image.git.to, image.upload and image.upload.to]
    assert all(name.startswith("registry.example.com/") for name in names if name)


def test_an_image_of_a_folder_has_what_it_is_built_of() -> None:
    upload = read_spec(EXAMPLES / "notebook.yaml").image.upload
    assert upload is not None
    assert (EXAMPLES / upload.folder / upload.containerfile).is_file()


def _of_gpu() -> tuple[dict[str, Any], dict[str, Any]]:
    """The ConfigMap and the pod of the evaluation of a GPU cluster."""
    config_map, made = render(job_from(EXAMPLES / "gpu-evaluation.yaml"))
    assert (config_map["kind"], made["kind"]) == ("ConfigMap", "Job")
    return config_map, made["spec"]["template"]["spec"]


def test_the_evaluation_of_a_gpu_cluster_is_what_was_looked_at(golden: Golden) -> None:
    golden("jobs/example-gpu-evaluation.yaml", to_yaml(render(job_from(EXAMPLES / "gpu-evaluation.yaml"))))


def test_the_evaluation_of_a_gpu_cluster_asks_for_its_accelerator() -> None:
    _, pod = _of_gpu()
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    (main,) = pod["containers"]
    assert main["resources"]["limits"] == {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
    assert "schedulerName" not in pod


def test_the_evaluation_of_a_gpu_cluster_has_50_gi_of_scratch() -> None:
    _, pod = _of_gpu()
    scratch = {"name": "scratch", "emptyDir": {"sizeLimit": "50Gi"}}
    assert [one for one in pod["volumes"] if one["name"] == "scratch"] == [scratch]
    (main,) = pod["containers"]
    assert {"name": "scratch", "mountPath": "/scratch"} in main["volumeMounts"]
    assert main["resources"]["requests"]["ephemeral-storage"] == "50Gi"


def test_the_evaluation_of_a_gpu_cluster_fetches_its_model_from_mlflow_first() -> None:
    _, pod = _of_gpu()
    (fetch,) = pod["initContainers"]
    assert fetch["image"] == "registry.example.com/tools/mlflow:3.1"
    assert fetch["command"] == [
        "mlflow", "artifacts", "download",
        "--artifact-uri", "runs:/3f9b2c51d0a84e6f9a7c1be2d4f50681/models/base",
        "--dst-path", "/scratch/inputs",
    ]  # fmt: skip
    assert fetch["volumeMounts"] == [{"name": "scratch", "mountPath": "/scratch"}]
    assert {"name": "MLFLOW_TRACKING_URI", "value": "https://mlflow.example.com"} in fetch["env"]
    token = {"secretKeyRef": {"name": "mlflow", "key": "token"}}
    assert {"name": "MLFLOW_TRACKING_TOKEN", "valueFrom": token} in fetch["env"]


def test_the_evaluation_of_a_gpu_cluster_finds_helms_configuration() -> None:
    config_map, pod = _of_gpu()
    ((key, text),) = config_map["data"].items()
    assert text == (EXAMPLES / "helm" / "run_entries.conf").read_text(encoding="utf-8")
    projected = {"configMap": {"name": config_map["metadata"]["name"]}}
    projected["configMap"]["items"] = [{"key": key, "path": "helm/run_entries.conf"}]
    assert {"name": "config", "projected": {"sources": [projected]}} in pod["volumes"]
    (main,) = pod["containers"]
    folder = next(one["mountPath"] for one in main["volumeMounts"] if one["name"] == "config")
    assert main["command"][:3] == ["helm-run", "--conf-paths", f"{folder}/helm/run_entries.conf"]
    assert "model=huggingface/base" in text
    assert "/scratch/inputs/base" in main["command"]
