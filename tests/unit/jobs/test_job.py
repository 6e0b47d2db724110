"""A job's container, the same on a cluster and on docker; its names, labels and annotations."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.jobs.job import container_of, environment_of, helpers_of, mounts_of
from ci.jobs.labels import annotations_of, job_name, label_value, origin_of
from ci.jobs.spec import SecretRef
from tests.job_specs import COMMIT, IMAGE, MLFLOW, RUN, job_of, spec_of


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


def test_pods_of_tests_are_told_where_their_plan_and_their_store_are() -> None:
    job = job_of(spec_of("tests", tests={"share": True}))
    environment = container_of(job).environment
    assert environment["SPYRE_CI_JOB_INPUT"] == job.config_dir
    assert environment["SPYRE_CI_JOB_STORE"] == "/results"
    assert environment["SPYRE_CI_JOB_SHARE"] == "1"
    assert mounts_of(job) == {"scratch": "/scratch", "config": job.config_dir, "results": "/results"}


def test_tests_whose_store_is_a_bucket_have_none_of_its_keys_and_two_helpers_have() -> None:
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": {"secret": "s", "key": "k"}}
    where = {"AWS_ENDPOINT_URL_S3": "https://s3.example.com", "AWS_REGION": "here"}
    job = job_of(spec_of("tests", store={"bucket": "s3://runs/nightly/"}, environment={**keys, **where}))
    environment = container_of(job).environment
    assert environment["SPYRE_CI_JOB_STORE"] == "s3://runs/nightly"
    assert where.items() <= environment.items()
    assert not keys.keys() & environment.keys()
    assert keys.keys() < environment_of(job).keys()
    assert [(one.name, one.beside) for one in helpers_of(job)] == [("restore", False), ("uploader", True)]
    assert mounts_of(job) == {"scratch": "/scratch"}
    # A command of one's own writes to the store by itself.
    own = job_of(spec_of("train", environment=keys))
    assert keys.keys() < container_of(own).environment.keys()


@pytest.mark.parametrize("path", ["models/base", "models/base/", "models//base", "models/./base"])
def test_the_path_of_an_artifact_is_told_in_one_way(path: str) -> None:
    source = {"artifact": {"run": "0f" * 16, "path": path}}
    (fetch,) = helpers_of(job_of(spec_of("serve", source=source, environment=MLFLOW)))
    assert fetch.command[4] == f"runs:/{'0f' * 16}/models/base"
    assert fetch.at == "/scratch/inputs/base"


@given(st.text(max_size=300))
def test_any_run_id_becomes_a_labels_value(text: str) -> None:
    value = label_value(text)
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value)
    assert label_value(value) == value


def test_run_ids_that_differ_in_what_labels_cannot_hold_stay_apart() -> None:
    texts = ["a/b", "a b", "a" * 80, "a" * 81, "ä", "ö", "", "-"]
    assert len({label_value(text) for text in texts}) == len(texts)


def test_a_job_is_tagged_with_what_it_was_made_of() -> None:
    job = job_of(spec_of("tests", tags={"team": "compiler"}), dirty=True)
    made_of = {"commit": COMMIT, "dirty": "true", "fingerprint": "5e" * 32, "run-id": RUN}
    assert origin_of(job) == {f"spyre-ci.io/{name}": value for name, value in made_of.items()}
    assert annotations_of(job) == {"team": "compiler", **origin_of(job)}
    # What is of no checkout tells of none.
    assert origin_of(job_of(spec_of("serve"), commit="")) == {"spyre-ci.io/run-id": RUN}


# As the spec takes them.
WORDS = st.from_regex(r"[a-z]([-a-z0-9]{0,18}[a-z0-9])?", fullmatch=True)


@given(WORDS, st.text())
def test_a_name_is_a_dns_label_with_room_for_a_pods_index(word: str, seed: str) -> None:
    name = job_name(word, seed)
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
    # What the controller makes of it: the job, an index of four digits, five letters.
    assert len(f"{name}-4095-abcde") <= 63
    assert name.startswith(f"{word}-")


def test_the_name_of_a_run_stays_what_it_is() -> None:
    assert job_name("tests", RUN) == "tests-plain-oak-92e5e"


def test_runs_and_words_have_names_of_their_own() -> None:
    names = {job_name(word, f"run-{number}") for word in ("tests", "serve") for number in range(5_000)}
    assert len(names) == 10_000
