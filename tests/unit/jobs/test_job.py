"""What a job's container is: the same on a cluster and on docker."""

from __future__ import annotations

import pytest

from ci.jobs.job import Fetch, container_of, mounts_of
from ci.jobs.parts import SecretRef, Source
from tests.job_specs import IMAGE, RUN, job_of, spec_of


@pytest.mark.parametrize(
    ("store", "place"),
    [({"volume": "runs"}, f"/results/{RUN}"), ({"bucket": "s3://runs/a/"}, f"s3://runs/a/{RUN}")],
)
def test_a_command_of_ones_own_finds_the_runs_own_place_in_the_store(
    store: dict[str, str], place: str
) -> None:
    spec = spec_of("evaluation", store=store, evaluation={"command": ["run", "--out={results}/a"]})
    assert container_of(job_of(spec)).command == ("run", f"--out={place}/a")


def test_a_server_may_have_a_command_of_its_own() -> None:
    container = container_of(job_of(spec_of("serve", serve={"command": ["vllm", "serve", "/model"]})))
    assert (container.command, container.args, container.port) == (("vllm", "serve", "/model"), (), 8080)


def test_parameters_secrets_and_what_the_job_knows_reach_the_environment_as_text() -> None:
    spec = spec_of(
        "serve",
        parameters={
            "A": 1,
            "B": 2.5e-05,
            "C": True,
            "D": False,
            "E": "yes",
            "F": {"secret": "s", "key": "k"},
        },
        environment={"LEVEL": 3},
        serve={"quantization_bits": 8},
    )
    job = job_of(spec)
    assert container_of(job).environment == {
        "HOME": "/scratch",
        "LEVEL": "3",
        "PARAM_A": "1",
        "PARAM_B": "2.5e-05",
        "PARAM_C": "true",
        "PARAM_D": "false",
        "PARAM_E": "yes",
        "PARAM_F": SecretRef(secret="s", key="k"),
        "QUANTIZATION_BITS": "8",
        "SPYRE_CI_IMAGE": IMAGE,
        "SPYRE_CI_JOB_NAME": job.name,
        "SPYRE_CI_JOB_RUN": RUN,
    }


def test_a_home_of_ones_own_stays() -> None:
    spec = spec_of("notebook", environment={"HOME": "/work"}, notebook={"token": "mine"})
    environment = container_of(job_of(spec)).environment
    assert environment["HOME"] == "/work"
    assert environment["JUPYTER_TOKEN"] == SecretRef(secret="mine", key="token")


def test_pods_of_tests_are_told_where_their_slices_and_their_store_are() -> None:
    job = job_of(spec_of("tests", tests={"share": True}))
    environment = container_of(job).environment
    assert environment["SPYRE_CI_JOB_INPUT"] == job.config_dir
    assert environment["SPYRE_CI_JOB_STORE"] == "/results"
    assert environment["SPYRE_CI_JOB_SHARE"] == "1"
    assert mounts_of(job) == {"scratch": "/scratch", "config": job.config_dir, "results": "/results"}


def test_slices_that_go_by_volume_are_no_configuration() -> None:
    job = job_of(spec_of("tests", store={"bucket": "s3://runs/nightly/"}), by_volume=True)
    environment = container_of(job).environment
    assert environment["SPYRE_CI_JOB_INPUT"] == f"s3://runs/nightly/{RUN}/inputs"
    assert environment["SPYRE_CI_JOB_STORE"] == "s3://runs/nightly"
    assert "SPYRE_CI_JOB_SHARE" not in environment
    assert mounts_of(job) == {"scratch": "/scratch"}


@pytest.mark.parametrize("path", ["models/base", "models/base/", "models//base", "models/./base"])
def test_the_path_of_an_artifact_is_told_in_one_way(path: str) -> None:
    source = Source.model_validate({"artifact": {"run": "0f" * 16, "path": path}})
    fetch = Fetch(name="fetch-source", source=source, to="/scratch/inputs")
    assert fetch.command[4] == f"runs:/{'0f' * 16}/models/base"
    assert fetch.at == "/scratch/inputs/base"
