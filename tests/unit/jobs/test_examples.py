"""Every example keeps its contract and renders to what nine releases take."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.jobs.job import Job
from ci.jobs.kinds import check_contract
from ci.jobs.render import render, to_yaml
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


def test_the_evaluation_of_a_gpu_cluster_is_what_was_looked_at(golden: Golden) -> None:
    golden("jobs/example-gpu-evaluation.yaml", to_yaml(render(job_from(EXAMPLES / "gpu-evaluation.yaml"))))
